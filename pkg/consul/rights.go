package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// Right is one rule of the registry's access control.
type Right struct {
	Resource string // service, node, session, key or agent
	Name     string
	Prefix   bool // Name is the beginning of the names that it is about
	Access   string
	// Why says what does not work without it.
	Why string
}

// Rule is the right in the language of the registry's policies.
func (r Right) Rule() string {
	kind := r.Resource
	if r.Prefix {
		kind += "_prefix"
	}
	return fmt.Sprintf("%s %q { policy = %q }", kind, r.Name, r.Access)
}

// String is the right as errors call it.
func (r Right) String() string {
	switch {
	case r.Resource == "session" && r.Name == "":
		return "session:" + r.Access + " on every node" // the names of sessions' rules are nodes
	case r.Prefix && r.Name == "":
		return fmt.Sprintf("%s:%s on every %s", r.Resource, r.Access, r.Resource)
	case r.Prefix:
		return fmt.Sprintf("%s:%s on the prefix %q", r.Resource, r.Access, r.Name)
	}
	return fmt.Sprintf("%s:%s on %q", r.Resource, r.Access, r.Name)
}

// Reads are the rights of whoever routes and registers nothing: a session that only
// colors, or whose services somebody else registers.
func Reads() []Right {
	return []Right{
		{Resource: "service", Prefix: true, Access: "read", Why: "no service is found"},
		{Resource: "node", Prefix: true, Access: "read", Why: "services are found without their instances"},
		{Resource: "key", Name: declaredPrefix, Prefix: true, Access: "read",
			Why: "nobody knows what a lane lacks: that is an error, not a fallback"},
		{Resource: "key", Name: switchesPrefix, Prefix: true, Access: "read",
			Why: "a lane that is killed, and a group that is switched, are not seen"},
	}
}

// DirectRights are the rights of a session that registers its services itself, in one
// lane. mode is shared, isolated, or, for one name and then the other, auto.
func DirectRights(l lane.Name, services []string, mode string) []Right {
	rights := Reads()
	if len(services) == 0 {
		return rights
	}
	rights = append(rights, Right{Resource: "session", Prefix: true, Access: "write", Why: "a claim cannot be held"})
	for _, s := range services {
		rights = append(rights, Right{Resource: "key", Name: claimKey(l, s), Access: "write", Why: s + " cannot be claimed"},
			Right{Resource: "key", Name: activityKey(l, s), Access: "write", Why: "who finds " + s + " claimed is not told when it was last called"})
		if mode != ModeIsolated {
			rights = append(rights, Right{Resource: "service", Name: s, Access: "write", Why: s + " cannot be registered under its own name"})
		}
		if mode != ModeShared {
			rights = append(rights, Right{Resource: "service", Name: IsolatedName(l, s), Access: "write", Why: s + " cannot be registered under its isolated name"})
		}
		if mode != ModeShared && mode != ModeIsolated {
			rights = append(rights, Right{Resource: "key", Name: policyPrefix + s, Access: "write", Why: "whether " + s + " has to be isolated is neither known nor remembered"})
		}
	}
	return rights
}

// RelayRights are the rights of a relay, which registers and claims for others: for
// any service in any lane.
func RelayRights() []Right {
	var rights []Right
	for _, r := range Reads() {
		switch {
		case r.Resource == "service":
			r.Access, r.Why = "write", "nothing can be registered"
		case r.Name == declaredPrefix:
			r.Access, r.Why = "write", "nothing can be claimed"
		}
		rights = append(rights, r)
	}
	return append(rights,
		Right{Resource: "session", Prefix: true, Access: "write", Why: "a claim cannot be held"},
		Right{Resource: "key", Name: revokedPrefix, Prefix: true, Access: "read", Why: "nobody is let in: which tokens are revoked is not known"},
		Right{Resource: "key", Name: policyPrefix, Prefix: true, Access: "write", Why: "whether a service has to be isolated is neither known nor remembered"},
		Right{Resource: "key", Name: activityPrefix, Prefix: true, Access: "write", Why: "who is refused is not told when the holder's service last served"})
}

// RouterRights are the rights of a gateway or a sidecar, by the name under which it is
// found. Only a gateway reads rules, and their whitelists; services are those that a
// sidecar registers.
func RouterRights(as string, services []string) []Right {
	rights := Reads()
	if as == GatewayService {
		rights = append(rights,
			Right{Resource: "key", Name: activePrefix, Prefix: true, Access: "read", Why: "nothing is colored"},
			Right{Resource: "key", Name: whitelistPrefix, Prefix: true, Access: "read", Why: "without a Redis, nobody is on a whitelist"})
	}
	rights = append(rights, Right{Resource: "service", Name: as, Access: "write", Why: "lane top and --wait do not find it; it starts with --announce=false alone"})
	for _, s := range services {
		rights = append(rights, Right{Resource: "service", Name: s, Access: "write", Why: s + " cannot be registered"})
	}
	return rights
}

// rulesOf are rights in the registry's language, each once.
func rulesOf(all ...[]Right) string {
	var lines []string
	for _, rights := range all {
		for _, r := range rights {
			if rule := r.Rule(); !slices.Contains(lines, rule) {
				lines = append(lines, rule)
			}
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// ErrNoACL says that the registry has no access control: everybody may do all.
var ErrNoACL = errors.New("the registry's access control is off")

// TokenError says that the registry does not know the token, or no longer.
type TokenError struct{ Err error }

func (e *TokenError) Error() string {
	return "the registry does not know the token: it is mistyped, has expired or was deleted"
}

func (e *TokenError) Unwrap() error { return e.Err }

// Token tells who the token says that we are: its description and policies. The
// error is ErrNoACL where the registry asks nobody, a *TokenError where it does not
// know the token.
func (c *Client) Token(ctx context.Context) (description string, policies []string, err error) {
	var token *api.ACLToken
	err = c.do(ctx, "ask who the token is", "nothing", func(ctx context.Context) (err error) {
		token, _, err = c.api.ACL().TokenReadSelf(local(ctx))
		return err
	})
	switch {
	case statusOf(err) == http.StatusUnauthorized:
		return "", nil, ErrNoACL
	case statusOf(err) == http.StatusForbidden:
		return "", nil, &TokenError{Err: err}
	case err != nil:
		return "", nil, err
	}
	for _, p := range token.Policies {
		policies = append(policies, p.Name)
	}
	return token.Description, policies, nil
}

// authorization is one question to the registry's access control, and its answer.
type authorization struct {
	Resource, Segment, Access string
	Allow                     bool `json:",omitempty"`
}

// maxAuthorizations is how many questions the registry answers at once.
const maxAuthorizations = 64

// Missing are those of rights that the token lacks. It asks the question that
// Consul's own pages ask for what they show, and writes nothing. The error is ErrNoACL
// where the registry asks nobody.
func (c *Client) Missing(ctx context.Context, rights []Right) (missing []Right, err error) {
	for len(rights) > 0 {
		n := min(len(rights), maxAuthorizations)
		lacks, err := c.authorize(ctx, rights[:n])
		if err != nil {
			return nil, err
		}
		missing, rights = append(missing, lacks...), rights[n:]
	}
	return missing, nil
}

func (c *Client) authorize(ctx context.Context, rights []Right) (missing []Right, err error) {
	ask := make([]authorization, len(rights))
	for i, r := range rights {
		ask[i] = authorization{Resource: r.Resource, Segment: r.Name, Access: r.Access}
	}
	var answers []authorization
	err = c.do(ctx, "ask what the token may", "nothing", func(ctx context.Context) error {
		_, err := c.raw(ctx, c.transport, http.MethodPost, "/v1/internal/acl/authorize", ask, &answers)
		return err
	})
	switch {
	case statusOf(err) == http.StatusUnauthorized:
		return nil, ErrNoACL
	case err != nil:
		return nil, err
	case len(answers) != len(ask):
		return nil, fmt.Errorf("ask what the token may: %d answers to %d questions", len(answers), len(ask))
	}
	for i, a := range answers {
		if !a.Allow {
			missing = append(missing, rights[i])
		}
	}
	return missing, nil
}
