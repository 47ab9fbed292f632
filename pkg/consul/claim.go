package consul

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// claimValue is the wire form of a claim. Lane and service are in the key. It
// changes only with the claim itself: every write wakes every router.
type claimValue struct {
	Owner      string `json:"owner"`
	Host       string `json:"host"`
	Install    string `json:"install"`
	Session    string `json:"session"`
	Mode       string `json:"mode"`
	Registered string `json:"registered"`
	ID         string `json:"id"`
	Since      string `json:"since"`
	Relay      string `json:"relay,omitempty"`
	RelayID    string `json:"relay_id,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	Vacant     bool   `json:"vacant,omitempty"`
}

func encodeClaim(c lane.Claim) []byte {
	data, err := json.Marshal(claimValue{Owner: c.Owner, Host: c.Host, Install: c.Install, Session: c.Session,
		Mode: c.Mode, Registered: c.Registered, ID: c.ID, Since: c.Since, Relay: c.Relay, RelayID: c.RelayID, Generation: c.Generation, Vacant: c.Vacant})
	if err != nil {
		panic(err) // strings always marshal
	}
	return data
}

// decodeClaim reads a key and its value. What is decided by is the key and the
// lock; the value, which anybody may write, is shown. ok is false for a key of
// another shape.
func decodeClaim(p *api.KVPair) (lane.Claim, bool) {
	l, service, found := strings.Cut(strings.TrimPrefix(p.Key, declaredPrefix), "/")
	if !found || !isLabel(l) || checkWatched(service) != nil {
		return lane.Claim{}, false
	}
	var v claimValue
	_ = json.Unmarshal(p.Value, &v) // a claim with an unreadable value is still a claim
	c := lane.Claim{Lane: lane.Name(l), Service: service, Owner: v.Owner, Host: v.Host, Install: v.Install,
		Session: p.Session, Mode: v.Mode, Registered: v.Registered, ID: v.ID, Since: v.Since,
		Relay: v.Relay, RelayID: v.RelayID, Generation: v.Generation, Vacant: v.Vacant}
	if c.Registered != IsolatedName(c.Lane, service) {
		// Any other name would let a claim bring a foreign service's instances in.
		c.Registered = service
	}
	return c, true
}

func decodeClaims(pairs api.KVPairs) []lane.Claim {
	out := make([]lane.Claim, 0, len(pairs))
	for _, p := range pairs {
		if c, ok := decodeClaim(p); ok {
			out = append(out, c)
		}
	}
	return out
}

const needClaims = `key:read and key:write on the prefix "lane/declared/", and session:write`

// Claims returns the claims of a lane, of all lanes for "", as the registry
// sorts them. One without a session declares nothing.
func (c *Client) Claims(ctx context.Context, l lane.Name) ([]lane.Claim, error) {
	prefix := declaredPrefix
	if l != "" {
		prefix += string(l) + "/"
	}
	var pairs api.KVPairs
	err := c.do(ctx, "read the claims", `key:read on the prefix "lane/declared/"`, func(ctx context.Context) (err error) {
		pairs, _, err = c.api.KV().List(prefix, query(ctx))
		return err
	})
	return decodeClaims(pairs), err
}

// held reads one claim; ok is false when there is none.
func (c *Client) held(ctx context.Context, l lane.Name, service string) (cl lane.Claim, ok bool, err error) {
	var pair *api.KVPair
	err = c.do(ctx, "read the claim on "+service, `key:read on the prefix "lane/declared/"`, func(ctx context.Context) (err error) {
		pair, _, err = c.api.KV().Get(claimKey(l, service), query(ctx))
		return err
	})
	if err != nil || pair == nil {
		return lane.Claim{}, false, err
	}
	cl, ok = decodeClaim(pair)
	return cl, ok, nil
}
