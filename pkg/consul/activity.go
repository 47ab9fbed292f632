package consul

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// activityPrefix holds when the holder of a claim last served a request of its
// lane: <lane>/<service>. It is no part of the claim: each write of that wakes
// every router, and nobody watches this.
const activityPrefix = "lane/activity/"

func activityKey(l lane.Name, service string) string {
	return activityPrefix + string(l) + "/" + service
}

const needActivity = `key:write on the prefix "lane/activity/"`

// Active writes when a service of this session last served a request of its
// lane, as the holder's own clock has it. The key dies with the session. Who holds the
// claim has the key, whichever session has locked it: that of a relay which has died
// lives on for long.
func (s *Session) Active(ctx context.Context, l lane.Name, service, at string) error {
	if err := checkClaim(lane.Claim{Lane: l, Service: service}); err != nil {
		return err
	}
	p := &api.KVPair{Key: activityKey(l, service), Value: []byte(at), Session: s.ID()}
	var got bool
	var locked *api.KVPair
	err := s.c.do(ctx, "write the last activity of "+service, needActivity, func(ctx context.Context) (err error) {
		if got, _, err = s.c.api.KV().Acquire(p, write(ctx)); err == nil && !got {
			locked, _, err = s.c.api.KV().Get(p.Key, query(ctx))
		}
		return err
	})
	if err != nil || got || locked == nil || locked.Session == "" {
		return err // given up in this moment: the next one writes it
	}
	_, err = s.c.txnNeeding(ctx, "write the last activity of "+service, needActivity,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: claimKey(l, service), Session: p.Session},
		&api.KVTxnOp{Verb: api.KVUnlock, Key: p.Key, Session: locked.Session, Value: locked.Value},
		&api.KVTxnOp{Verb: api.KVLock, Key: p.Key, Session: p.Session, Value: p.Value})
	return err
}

// inactive removes the last activity with the claim that a session holds, whoever has
// written it: a session of many claims, a relay's, lives on, and would show it for the
// next holder's. It is worth no error: what is older than a claim is not shown with it.
func (c *Client) inactive(ctx context.Context, l lane.Name, service, session string) {
	c.removeActivity(ctx, activityKey(l, service), claimKey(l, service), session)
}

// removeActivity removes a last activity while a session holds a key.
func (c *Client) removeActivity(ctx context.Context, key, held, session string) {
	_, _ = c.txnNeeding(ctx, "remove "+key, needActivity,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: held, Session: session},
		&api.KVTxnOp{Verb: api.KVDelete, Key: key})
}

// Activity is the key of a last activity.
type Activity struct {
	Lane    lane.Name
	Service string
	index   uint64
}

// Key is how the registry has it, for people who look for it.
func (a Activity) Key() string { return activityKey(a.Lane, a.Service) }

// activities are all keys of last activity; none where the token may not read them.
func (c *Client) activities(ctx context.Context) (out []Activity, err error) {
	err = c.do(ctx, "read the last activity", `key:read on the prefix "lane/activity/"`, func(ctx context.Context) error {
		pairs, _, err := c.list(ctx, activityPrefix, query(ctx))
		for _, p := range pairs {
			l, service, _ := strings.Cut(strings.TrimPrefix(p.Key, activityPrefix), "/")
			if checkClaim(lane.Claim{Lane: lane.Name(l), Service: service}) == nil {
				out = append(out, Activity{Lane: lane.Name(l), Service: service, index: p.ModifyIndex})
			}
		}
		return err
	})
	var denied *DeniedError
	if errors.As(err, &denied) {
		return nil, nil
	}
	return out, err
}

// RemoveActivity removes a last activity, unless it was written anew since it was read.
func (c *Client) RemoveActivity(ctx context.Context, a Activity) error {
	return c.commit(ctx, "remove "+a.Key(), needActivity, func(ctx context.Context) error {
		_, _, err := c.api.KV().DeleteCAS(&api.KVPair{Key: a.Key(), ModifyIndex: a.index}, write(ctx))
		return err
	})
}

// WithActivity adds to claims when each was last active, as far as that can be
// read: it is shown, and nothing is decided by it.
func (c *Client) WithActivity(ctx context.Context, claims []lane.Claim) []lane.Claim {
	if len(claims) == 0 {
		return claims
	}
	prefix := activityPrefix
	if one := claims[0].Lane; !differ(claims, one) {
		prefix += string(one) + "/"
	}
	var pairs api.KVPairs
	err := c.do(ctx, "read the last activity", `key:read on the prefix "lane/activity/"`, func(ctx context.Context) (err error) {
		pairs, _, err = c.api.KV().List(prefix, query(ctx))
		return err
	})
	if err != nil {
		return claims
	}
	at := make(map[string]string, len(pairs))
	for _, p := range pairs {
		if len(p.Value) <= maxNote {
			at[strings.TrimPrefix(p.Key, activityPrefix)+" "+p.Session] = string(p.Value)
		}
	}
	out := make([]lane.Claim, len(claims))
	for i, cl := range claims {
		cl.Active = at[string(cl.Lane)+"/"+cl.Service+" "+cl.Session]
		if former(cl.Active, cl.Since) {
			cl.Active = ""
		}
		out[i] = cl
	}
	return out
}

// former says that an activity is of a holder before: it is older than the claim. Both
// times are of one clock, that of the session's owner.
func former(active, since string) bool {
	a, err := time.Parse(time.RFC3339, active)
	b, err2 := time.Parse(time.RFC3339, since)
	return err == nil && err2 == nil && a.Before(b)
}

func differ(claims []lane.Claim, l lane.Name) bool {
	for _, cl := range claims {
		if cl.Lane != l {
			return true
		}
	}
	return false
}
