package consul

import (
	"context"
	"errors"
	"net/http"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// RemoveLeftover removes what a session that died has left: the instances of
// its claims, and the registry's session with the claims themselves. A claim
// that another session holds by now, and its instance, are not touched: a new
// session has the same IDs. mark is that of the dead session's registrations: one that
// bears another is a newer session's, which may have no claim, for it stands beside the
// instance of whoever has it. Without a mark, they are not told apart. It may be called
// again after an error.
func (c *Client) RemoveLeftover(ctx context.Context, session, mark string, claims []lane.Claim) error {
	var mine []string
	for _, cl := range claims {
		now, ok, err := c.held(ctx, cl.Lane, cl.Service)
		if err != nil {
			return err
		}
		// A new session of this machine has the same IDs. Those of another one never
		// are: an instance that had joined its holder's is ours to remove.
		if !ok || now.Session == "" || now.Session == session || now.Install != cl.Install {
			mine = append(mine, cl.ID)
		}
	}
	// The claims go first, as at a clean end: the other way round the lane would
	// be declared without an instance, which is an error for its callers.
	if session != "" {
		if err := c.endDead(ctx, session); err != nil {
			return err
		}
	}
	var errs []error
	for _, id := range mine {
		newer, err := c.bearsAnother(ctx, id, mark)
		if err != nil || newer {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, c.Deregister(ctx, id))
	}
	return errors.Join(errs...)
}

// bearsAnother reports whether what is registered under an ID bears the mark of another
// session. What the agent does not know bears none.
func (c *Client) bearsAnother(ctx context.Context, id, mark string) (bool, error) {
	if mark == "" {
		return false, nil
	}
	var svc *api.AgentService
	err := c.do(ctx, "read "+id, "service:read", func(ctx context.Context) (err error) {
		svc, _, err = c.api.Agent().Service(id, local(ctx))
		return err
	})
	switch {
	case statusOf(err) == http.StatusNotFound:
		return false, nil
	case err != nil:
		return false, err
	}
	of := svc.Meta[MetaSession]
	return of != "" && of != mark, nil
}

// EndIfEmpty ends a dead session that holds no claim any more.
func (c *Client) EndIfEmpty(ctx context.Context, session string) error {
	all, err := c.Claims(ctx, "")
	if err != nil {
		return err
	}
	for _, cl := range all {
		if cl.Session == session {
			return nil
		}
	}
	return c.endDead(ctx, session)
}

// RemoveSessions ends the registry's sessions that bear a name, with the claims that
// they hold. It is for a name that one session of ours alone gives.
func (c *Client) RemoveSessions(ctx context.Context, name string) error {
	_, err := c.removeSessions(ctx, name, "")
	return err
}

// removeSessions is RemoveSessions but for one ID, and says how many there were.
func (c *Client) removeSessions(ctx context.Context, name, spare string) (n int, err error) {
	var all []*api.SessionEntry
	err = c.do(ctx, "look for a dead session", needSession, func(ctx context.Context) (err error) {
		all, _, err = c.api.Session().List(query(ctx))
		return err
	})
	for _, s := range all {
		if name == "" || s.Name != name || s.ID == spare {
			continue
		}
		n++
		err = errors.Join(err, c.endDead(ctx, s.ID))
	}
	return n, err
}

const needSession = `session:write on every node (session_prefix "")`

// endDead ends a session behind which nobody stands.
func (c *Client) endDead(ctx context.Context, id string) error {
	return c.undo(ctx, "end the dead session", needSession, func(ctx context.Context) error {
		_, err := c.api.Session().Destroy(id, write(ctx))
		return err
	})
}
