package consul

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
)

// Deregister removes a lane's instance by its ID and returns when the catalog
// no longer shows it, or after 5 s with a *LeftoverError. It refuses IDs that
// are not a lane's: nobody else's instance is ever removed.
func (c *Client) Deregister(ctx context.Context, id string) error {
	l, service, ok := splitID(id)
	if !ok {
		return &ValidationError{Field: "ID", Value: id, Why: "is not a lane's instance, so it is not removed"}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	within := HoldOptions{}.Gone()
	return c.remove(ctx, id, within, service, IsolatedName(l, service))
}

// DeregisterAt is Deregister for what the agent knows at an address: where another
// process has registered under the same ID meanwhile, nothing is removed.
func (c *Client) DeregisterAt(ctx context.Context, id, address string, port int) error {
	if _, _, ok := splitID(id); !ok {
		return &ValidationError{Field: "ID", Value: id, Why: "is not a lane's instance, so it is not removed"}
	}
	var svc *api.AgentService
	err := c.do(ctx, "read "+id, "service:read", func(ctx context.Context) (err error) {
		svc, _, err = c.api.Agent().Service(id, query(ctx))
		return err
	})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return nil
	case err == nil && (svc.Address != address || svc.Port != port):
		return nil
	}
	return c.Deregister(ctx, id) // also where that cannot be read: what is missing, its holder registers again
}

// remove deregisters id and waits until none of the names shows it.
func (c *Client) remove(ctx context.Context, id string, within time.Duration, names ...string) error {
	err := c.do(ctx, "deregister "+id, fmt.Sprintf(`service:write on %q`, names[0]), func(ctx context.Context) error {
		return c.api.Agent().ServiceDeregisterOpts(id, local(ctx))
	})
	unknown := statusOf(err) == 404
	if err != nil && !unknown {
		if isDenied(err) {
			within = 0 // the agent removes it with the token that registered it, which may do nothing any more
		}
		return &LeftoverError{ID: id, Name: names[0], Address: c.Address(), Within: within, Err: err}
	}
	for _, name := range names {
		err := c.await(ctx, name, id, func(entries []*api.ServiceEntry, _ *api.QueryMeta) bool { return len(entries) == 0 })
		if err == nil {
			continue
		}
		if unknown && errors.Is(err, context.DeadlineExceeded) && !isUnreachable(err) {
			err = errors.New("the agent that answers does not know it, so it is registered with another agent: " +
				"use that agent's address, or wait")
		}
		return &LeftoverError{ID: id, Name: name, Address: c.Address(), Within: within, Err: err}
	}
	return nil
}

// await watches one ID under a name until done says so, at most until ctx ends.
func (c *Client) await(ctx context.Context, name, id string, done func([]*api.ServiceEntry, *api.QueryMeta) bool) error {
	var index uint64
	for {
		o := following(ctx, index, callTimeout)
		o.Filter = fmt.Sprintf("Service.ID == %q", id)
		entries, meta, err := c.api.Health().Service(name, "", false, o)
		if err != nil {
			if ctx.Err() != nil && index != 0 {
				return ctx.Err() // it answers, and does not show what we wait for
			}
			return c.explain(ctx, "read "+name+" from the catalog",
				fmt.Sprintf(`service:read on %q and node:read on every node (node_prefix "")`, name), err)
		}
		if done(entries, meta) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if meta.LastIndex < index {
			index = 0
			continue
		}
		index = max(meta.LastIndex, 1)
	}
}
