package consul

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// Entry is one registered instance that has the form of a lane's.
type Entry struct {
	Lane    lane.Name
	Service string
	Install string
	ID      string
	Name    string // in the registry
	Node    string // of the agent with which it is registered
	Owner   string
	// Alive says that somebody may stand behind it: its liveness check passes, or it
	// has none by which that could be told.
	Alive bool
}

// Held is a claim as it stands; one whose Session is empty declares nothing.
type Held struct {
	lane.Claim
	index uint64
}

// Remains are all instances and claims of lanes in the registry, dead or alive.
type Remains struct {
	Entries []Entry
	Claims  []Held
	// Activity are the last activities that no claim is left of.
	Activity []Activity
	// Relays are the IDs of all registered relays, healthy or not; read only where a
	// claim names one.
	Relays []string
}

// Remains reads them. Instances whose ID is not of our form are not among them.
func (c *Client) Remains(ctx context.Context) (Remains, error) {
	var r Remains
	err := c.do(ctx, "read the claims", `key:read on the prefix "lane/declared/"`, func(ctx context.Context) error {
		pairs, meta, err := c.list(ctx, declaredPrefix, query(ctx))
		if err != nil {
			return err
		}
		if meta.ResultsFilteredByACLs {
			return &DeniedError{What: "read the claims", Need: `key:read on the prefix "lane/declared/"`}
		}
		for _, p := range pairs {
			if cl, ok := decodeClaim(p); ok {
				r.Claims = append(r.Claims, Held{Claim: cl, index: p.ModifyIndex})
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	all, err := c.activities(ctx)
	if err != nil {
		return r, err
	}
	for _, a := range all {
		if !slices.ContainsFunc(r.Claims, func(h Held) bool { return h.Lane == a.Lane && h.Service == a.Service }) {
			r.Activity = append(r.Activity, a)
		}
	}
	names, err := c.serviceNames(ctx, "lane in ServiceMeta")
	if err != nil {
		return r, err
	}
	for _, name := range names {
		entries, err := c.entries(ctx, name, "")
		if err != nil {
			return r, err
		}
		r.Entries = append(r.Entries, entries...)
	}
	slices.SortFunc(r.Entries, func(a, b Entry) int { return strings.Compare(a.ID+" "+a.Node, b.ID+" "+b.Node) })
	if slices.ContainsFunc(r.Claims, func(h Held) bool { return h.RelayID != "" }) {
		r.Relays, err = c.idsOf(ctx, RelayService)
	}
	return r, err
}

// idsOf are the IDs of all instances of a service, on any node and in any health.
func (c *Client) idsOf(ctx context.Context, name string) (ids []string, err error) {
	err = c.do(ctx, "read "+name, needReads, func(ctx context.Context) error {
		o := query(ctx)
		o.RequireConsistent = true // what is removed by it must be so now
		all, meta, err := c.api.Health().Service(name, "", false, o)
		for _, e := range all {
			if e.Service != nil {
				ids = append(ids, e.Service.ID)
			}
		}
		if err == nil && meta.ResultsFilteredByACLs {
			return &DeniedError{What: "read " + name, Need: needReads}
		}
		return err
	})
	return ids, err
}

// RelayGone reports whether nothing is left of a relay but its session and claims: neither
// it nor an instance of the claims is registered anywhere, in whatever health. By what is
// there and not by a clock, that is so two minutes after a relay has died, and at once
// after one that has ended in order. It is false for a claim that does not say by which ID
// its relay is registered.
func (r *Remains) RelayGone(claims []lane.Claim) bool {
	for _, cl := range claims {
		if cl.Relay == "" || cl.RelayID == "" || slices.Contains(r.Relays, cl.RelayID) ||
			slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.ID == cl.ID }) {
			return false
		}
	}
	return len(claims) > 0
}

// RemoveRelayClaims ends the session of a relay that is gone, and with it its claims. It
// looks once more, right before: when the relay or an instance is registered by now, or
// one of the claims is another's, they stay, and the error is a *StillThereError.
func (c *Client) RemoveRelayClaims(ctx context.Context, session string) error {
	now, err := c.Remains(ctx)
	if err != nil {
		return err
	}
	var claims []lane.Claim
	for _, h := range now.Claims {
		if h.Session == session {
			claims = append(claims, h.Claim)
		}
	}
	switch {
	case len(claims) == 0:
		return nil // they were taken over, or removed, meanwhile
	case !now.RelayGone(claims):
		return &StillThereError{ID: claimKey(claims[0].Lane, claims[0].Service), Why: "its relay, or an instance of it, is registered by now"}
	}
	return c.do(ctx, "end the relay's session", `session:write on every node (session_prefix "")`, func(ctx context.Context) error {
		_, err := c.api.Session().Destroy(session, write(ctx))
		return err
	})
}

// entries are the instances of our form under a name, of one ID if it is given.
func (c *Client) entries(ctx context.Context, name, id string) (out []Entry, err error) {
	err = c.do(ctx, "read "+name, needReads, func(ctx context.Context) error {
		o := query(ctx)
		o.RequireConsistent = true // what is removed by it must be so now
		if id != "" {
			o.Filter = fmt.Sprintf("Service.ID == %q", id)
		}
		all, _, err := c.api.Health().Service(name, "", false, o)
		for _, e := range all {
			if e.Service == nil || e.Node == nil {
				continue
			}
			if got, ok := entry(name, e); ok {
				out = append(out, got)
			}
		}
		return err
	})
	return out, err
}

func entry(name string, e *api.ServiceEntry) (Entry, bool) {
	l, service, ok := splitID(e.Service.ID)
	install := strings.TrimSuffix(strings.TrimPrefix(e.Service.ID, InstanceID(l, service, "")), isolatedMark)
	// Our own instances bear their lane twice; what differs is somebody else's.
	if !ok || e.Service.Meta[MetaLane] != string(l) || name != service && name != IsolatedName(l, service) {
		return Entry{}, false
	}
	return Entry{Lane: l, Service: service, Install: install, ID: e.Service.ID, Name: name, Node: e.Node.Node,
		Owner: e.Service.Meta[MetaOwner], Alive: alive(e)}, true
}

func alive(e *api.ServiceEntry) bool {
	for _, check := range e.Checks {
		if check.CheckID == liveID(e.Service.ID) {
			return check.Status == api.HealthPassing
		}
	}
	return true // it cannot be told
}

// StillThereError says why something that looked dead was not removed.
type StillThereError struct{ ID, Why string }

func (e *StillThereError) Error() string { return e.ID + " stays: " + e.Why }

// RemoveDead removes a dead instance. It looks once more, right before: when its
// liveness passes by now on any node, or somebody claims it, it stays, and the error is
// a *StillThereError. One that the agent does not know is an *ElsewhereError.
func (c *Client) RemoveDead(ctx context.Context, e Entry) error {
	cl, claimed, err := c.held(ctx, e.Lane, e.Service)
	if err != nil {
		return err
	}
	if claimed && cl.Session != "" && (cl.ID == e.ID || cl.ID == "") {
		return &StillThereError{ID: e.ID, Why: "it is claimed by now"}
	}
	now, err := c.entries(ctx, e.Name, e.ID)
	if err != nil || len(now) == 0 {
		return err
	}
	// The agent that answers the next call may be another than the one that answered
	// this: then what lives under the same ID elsewhere would go.
	if slices.ContainsFunc(now, func(n Entry) bool { return n.Alive }) {
		return &StillThereError{ID: e.ID, Why: "its liveness check passes by now"}
	}
	known, err := c.Knows(ctx, e)
	switch {
	case err != nil:
		return err
	case !known:
		return &ElsewhereError{ID: e.ID, Node: e.Node, Address: c.Address()}
	}
	return c.Deregister(ctx, e.ID)
}

// Knows reports whether the agent that answers is the one with which an instance is
// registered.
func (c *Client) Knows(ctx context.Context, e Entry) (bool, error) {
	err := c.do(ctx, "read "+e.ID, fmt.Sprintf("service:read on %q", e.Name), func(ctx context.Context) error {
		_, _, err := c.api.Agent().Service(e.ID, local(ctx))
		return err
	})
	if statusOf(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// RemoveKey removes a key of a claim that nobody holds. When somebody has claimed it
// meanwhile, it stays.
func (c *Client) RemoveKey(ctx context.Context, h Held) error {
	if h.Session != "" {
		return &StillThereError{ID: claimKey(h.Lane, h.Service), Why: "it is held"}
	}
	key := claimKey(h.Lane, h.Service)
	gone := false
	err := c.commit(ctx, "remove "+key, `key:write on the prefix "lane/declared/"`, func(ctx context.Context) (err error) {
		gone, _, err = c.api.KV().DeleteCAS(&api.KVPair{Key: key, ModifyIndex: h.index}, write(ctx))
		return err
	})
	if err == nil && !gone {
		return &StillThereError{ID: key, Why: "it has changed meanwhile"}
	}
	return err
}

// RemoveClaims ends a dead session, and with it its claims, if each of them is still
// its own and no instance of them lives. Their instances are removed by RemoveDead.
func (c *Client) RemoveClaims(ctx context.Context, session string, claims []lane.Claim) error {
	for _, cl := range claims {
		for _, name := range []string{cl.Service, IsolatedName(cl.Lane, cl.Service)} {
			now, err := c.entries(ctx, name, cl.ID)
			if err != nil {
				return err
			}
			if slices.ContainsFunc(now, func(n Entry) bool { return n.Alive }) {
				return &StillThereError{ID: cl.ID, Why: "its liveness check passes by now"}
			}
		}
	}
	return c.endDead(ctx, session)
}
