package consul

import (
	"context"
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

// Active writes when a service of this session last served a request of its
// lane, as the holder's own clock has it. The key dies with the session. Where
// another session has locked it, which may live on a little after it has lost
// its claim, nothing is written.
func (s *Session) Active(ctx context.Context, l lane.Name, service, at string) error {
	if err := checkClaim(lane.Claim{Lane: l, Service: service}); err != nil {
		return err
	}
	s.mu.Lock()
	s.active[activityKey(l, service)] = true
	s.mu.Unlock()
	return s.c.do(ctx, "write the last activity of "+service, `key:write on the prefix "lane/activity/"`, func(ctx context.Context) error {
		_, _, err := s.c.api.KV().Acquire(&api.KVPair{Key: activityKey(l, service), Value: []byte(at), Session: s.ID()}, write(ctx))
		return err
	})
}

// inactive removes the last activity with its claim: a session of many claims, a relay's,
// lives on, and would show it for the next holder's. It is worth no error: what is older
// than a claim is not shown with it.
func (s *Session) inactive(ctx context.Context, l lane.Name, service, id string) {
	key := activityKey(l, service)
	s.mu.Lock()
	wrote := s.active[key]
	delete(s.active, key)
	s.mu.Unlock()
	if !wrote {
		return
	}
	_, _ = s.c.txnNeeding(ctx, "remove the last activity of "+service, `key:write on the prefix "lane/activity/"`,
		&api.KVTxnOp{Verb: api.KVCheckSession, Key: key, Session: id},
		&api.KVTxnOp{Verb: api.KVDelete, Key: key})
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
