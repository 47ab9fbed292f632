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

// mayStand reports whether the agent may know an ID at an address. At another one,
// another process has registered under it.
func (c *Client) mayStand(ctx context.Context, id, address string, port int) bool {
	var svc *api.AgentService
	err := c.do(ctx, "read "+id, "service:read", func(ctx context.Context) (err error) {
		svc, _, err = c.api.Agent().Service(id, query(ctx))
		return err
	})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return false
	case err != nil:
		return true // it cannot be read: what is missing then, its holder registers again
	}
	return svc.Address == address && svc.Port == port
}

// remove deregisters id and waits until none of the names shows it.
func (c *Client) remove(ctx context.Context, id string, within time.Duration, names ...string) error {
	_, err := c.removeTwice(ctx, id, within, names...)
	return err
}

// removeTwice is remove, and says whether the agent came to know id only after it was
// asked to remove it.
func (c *Client) removeTwice(ctx context.Context, id string, within time.Duration, names ...string) (late bool, err error) {
	left := func(err error) error {
		return &LeftoverError{ID: id, Name: names[0], Address: c.Address(), Within: within, Err: err}
	}
	known, err := c.deregister(ctx, id, names[0])
	if err == nil && !known {
		// Where nothing shows it, all is done. What the catalog shows has come to the
		// agent meanwhile, or is going from it, or is another agent's.
		shown := false
		for _, name := range names {
			if err = c.await(ctx, name, id, func(entries []*api.ServiceEntry, _ *api.QueryMeta) bool {
				shown = shown || len(entries) > 0
				return true
			}); err != nil {
				return false, left(err)
			}
		}
		if !shown {
			return false, nil
		}
		known, err = c.deregister(ctx, id, names[0])
		late = known
	}
	if err != nil {
		if isDenied(err) {
			within = 0 // the agent removes it with the token that registered it, which may do nothing any more
		}
		return false, left(err)
	}
	for _, name := range names {
		err := c.await(ctx, name, id, func(entries []*api.ServiceEntry, _ *api.QueryMeta) bool { return len(entries) == 0 })
		if err == nil {
			continue
		}
		if !known && errors.Is(err, context.DeadlineExceeded) && !isUnreachable(err) {
			err = errors.New("the agent that answers does not know it, so it is registered with another agent: " +
				"use that agent's address, or wait")
		}
		return late, left(err)
	}
	return late, nil
}

// deregister asks the agent to remove id; known is false if it does not know it.
func (c *Client) deregister(ctx context.Context, id, name string) (known bool, err error) {
	err = c.undo(ctx, "deregister "+id, fmt.Sprintf(`service:write on %q`, name), func(ctx context.Context) error {
		return c.api.Agent().ServiceDeregisterOpts(id, local(ctx))
	})
	if statusOf(err) == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
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
