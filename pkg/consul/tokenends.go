package consul

import (
	"context"
	"net/http"
	"time"

	"github.com/hashicorp/consul/api"
)

// TokenEnds is when the registry stops taking the client's token, which is fixed when
// the token is made. It is the zero time where nothing is known of that: without a token,
// with one that does not end or that has ended, and with a registry that has no access
// control or does not show a token itself. An error is one that may go away.
func (c *Client) TokenEnds(ctx context.Context) (time.Time, error) {
	if c.token == "" {
		return time.Time{}, nil
	}
	var token *api.ACLToken
	err := c.do(ctx, "ask when the token ends", "nothing", func(ctx context.Context) (err error) {
		token, _, err = c.api.ACL().TokenReadSelf(local(ctx))
		return err
	})
	switch status := statusOf(err); {
	case status >= http.StatusBadRequest && status < http.StatusInternalServerError:
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, err
	case token == nil || token.ExpirationTime == nil:
		return time.Time{}, nil
	}
	return *token.ExpirationTime, nil
}
