package consul

import (
	"context"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// PortsAt are the ports of an address that this agent has instances at, each with the
// IDs of those.
func (c *Client) PortsAt(ctx context.Context, address string) (map[int][]string, error) {
	var all map[string]*api.AgentService
	err := c.do(ctx, "read what is registered at "+address, "service:read", func(ctx context.Context) (err error) {
		all, err = c.api.Agent().ServicesWithFilterOpts("Address == "+strconv.Quote(address), query(ctx))
		return err
	})
	if err != nil {
		return nil, err
	}
	out := map[int][]string{}
	for id, s := range all {
		out[s.Port] = append(out[s.Port], id)
	}
	return out, nil
}
