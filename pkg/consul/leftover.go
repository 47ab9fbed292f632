package consul

import (
	"context"
	"errors"

	"lane/pkg/lane"
)

// RemoveLeftover removes what a session that died has left: the instances of
// its claims, and the registry's session with the claims themselves. A claim
// that another session holds by now, and its instance, are not touched: a new
// session has the same IDs. It may be called again after an error.
func (c *Client) RemoveLeftover(ctx context.Context, session string, claims []lane.Claim) error {
	var errs []error
	for _, cl := range claims {
		now, ok, err := c.held(ctx, cl.Lane, cl.Service)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok && now.Session != "" && now.Session != session:
			// taken over
		default:
			errs = append(errs, c.Deregister(ctx, cl.ID))
		}
	}
	if err := errors.Join(errs...); err != nil || session == "" {
		return err
	}
	return c.do(ctx, "end the dead session", `session:write on every node (session_prefix "")`, func(ctx context.Context) error {
		_, err := c.api.Session().Destroy(session, write(ctx))
		return err
	})
}
