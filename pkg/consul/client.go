package consul

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/hashicorp/consul/api"
)

// local makes the options of a read from which no absence is concluded, or of what the
// agent that answers knows by itself; the client adds datacenter, namespace and token.
func local(ctx context.Context) *api.QueryOptions { return (&api.QueryOptions{}).WithContext(ctx) }

// query makes the options of a read that asks the catalog, the key-value store or the
// sessions for what is now.
//
// It is a consistent one. A server that comes back, or is elected, answers any other
// read as soon as it leads, before it has read its own log again: with no services,
// no claims and no switches, and nothing in the answer says so. An absence that is
// concluded from that is none.
func query(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{RequireConsistent: true}).WithContext(ctx)
}

// following makes the options of a read that waits for what comes after index. Only one
// from the beginning has to be a consistent one: what comes later is newer than what
// is known, and to have the leader confirmed each time would cost the servers.
func following(ctx context.Context, index uint64, wait time.Duration) *api.QueryOptions {
	o := local(ctx)
	o.RequireConsistent, o.WaitIndex, o.WaitTime = index == 0, index, wait
	return o
}

func write(ctx context.Context) *api.WriteOptions {
	return (&api.WriteOptions{}).WithContext(ctx)
}

// Ping asks the registry for its leader. It returns a *NoLeaderError when the
// agent answers without one, an *UnreachableError when nothing answers.
func (c *Client) Ping(ctx context.Context) error {
	leader, err := c.leader(ctx)
	if err == nil && leader == "" {
		return &NoLeaderError{Address: c.Address()}
	}
	return err
}

// leader returns the leader's address, empty when the agent answers without one.
func (c *Client) leader(ctx context.Context) (string, error) {
	var leader string
	err := c.do(ctx, "ask for the registry's leader", "nothing", func(ctx context.Context) (err error) {
		leader, err = c.api.Status().LeaderWithQueryOptions(local(ctx))
		return err
	})
	var answer *AnswerError
	if errors.As(err, &answer) && answer.Hint == "" {
		switch answer.Status { // every Consul has an answer to this
		case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
			return "", &UnreachableError{Address: c.Address(), What: answer.What, Err: &foreignError{by: fmt.Sprintf("it answered %d", answer.Status)}}
		}
	}
	if statusOf(err) == 500 {
		return "", nil // an agent that has lost its servers says so with a 500
	}
	return leader, err
}

// LocalIP returns the address from which this machine reaches the registry: the
// one that the environment can most probably reach us at. Over a unix socket it
// is 127.0.0.1.
func (c *Client) LocalIP(ctx context.Context) (netip.Addr, error) {
	if c.socket != "" {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	var ip netip.Addr
	err := c.do(ctx, "find the local address towards the registry", "nothing", func(ctx context.Context) error {
		// A real connection, because a name may have addresses that nobody serves.
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.hostport)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		ip, err = ownIP(conn)
		return err
	})
	return ip, err
}

// RouteIP is the address from which the system would reach the registry now, where it
// last was. It sends nothing, and costs next to nothing.
func (c *Client) RouteIP(ctx context.Context) (netip.Addr, error) {
	at := c.reached.Load()
	if c.socket != "" || at == nil {
		return c.LocalIP(ctx)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", *at) // to connect is to look for a route
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = conn.Close() }()
	return ownIP(conn)
}

// ownIP is this machine's end of a connection.
func ownIP(conn net.Conn) (netip.Addr, error) {
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return local.Addr().Unmap().WithZone(""), err
}

// OwnDatacenter is the datacenter that this client reads: the one of the
// settings, else the agent's own. It is empty where the token may not read that:
// then every datacenter's names are taken for this one's.
func (c *Client) OwnDatacenter(ctx context.Context) string {
	if c.datacenter != "" {
		return c.datacenter
	}
	self, err := c.self(ctx)
	if err != nil {
		return ""
	}
	return self.Datacenter
}

// NodeName returns the name of the agent that answers. Behind a load balancer
// it differs from call to call, and registrations made there get lost.
func (c *Client) NodeName(ctx context.Context) (string, error) {
	self, err := c.self(ctx)
	return self.NodeName, err
}

// agent is what an agent says of itself.
type agent struct{ NodeName, Datacenter, Version string }

func (c *Client) self(ctx context.Context) (agent, error) {
	var out struct{ Config agent }
	err := c.do(ctx, "ask the agent about itself", `agent:read`, func(ctx context.Context) error {
		_, err := c.api.Raw().Query("/v1/agent/self", &out, local(ctx))
		return err
	})
	return out.Config, err
}
