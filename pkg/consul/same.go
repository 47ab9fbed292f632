package consul

import (
	"context"

	"lane/pkg/lane"
)

// ShowsInstance reports whether the registry holds an instance under a name. Where the
// token may not see all of that name, nobody knows: that is a *DeniedError.
func (c *Client) ShowsInstance(ctx context.Context, name, id string) (shown bool, err error) {
	if err := checkWatched(name); err != nil {
		return false, err
	}
	err = c.do(ctx, "read "+name, needReads, func(ctx context.Context) error {
		entries, meta, err := c.api.Health().Service(name, "", false, query(ctx))
		if err != nil {
			return err
		}
		for _, e := range entries {
			shown = shown || e.Service.ID == id
		}
		if !shown && meta.ResultsFilteredByACLs {
			return &DeniedError{What: "read " + name, Need: needReads}
		}
		return nil
	})
	return shown, err
}

// ShowsClaim reports whether the registry holds a claim that an install has on a
// service of a lane, with or without a session.
func (c *Client) ShowsClaim(ctx context.Context, l lane.Name, service, install string) (bool, error) {
	cl, ok, err := c.held(ctx, l, service)
	return ok && cl.Install == install, err
}
