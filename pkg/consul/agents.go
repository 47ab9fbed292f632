package consul

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// usualPorts are where Consul listens unless it is told otherwise: HTTP, HTTPS, gRPC with
// and without TLS, DNS, the servers' RPC, and gossip.
var usualPorts = []uint16{8300, 8301, 8302, 8500, 8501, 8502, 8503, 8600}

// Agents is where the registry itself listens: on its own nodes, and where this client
// asks it.
type Agents struct {
	Nodes []netip.Addr
	Ports []uint16 // of any of them
	At    []netip.AddrPort
}

// Port reports whether a port is one of Consul's.
func (a Agents) Port(p uint16) bool { return slices.Contains(a.Ports, p) }

// Agents asks where the registry listens. What can be known without an answer is in the
// result also with an error: the usual ports, and where this client asks.
func (c *Client) Agents(ctx context.Context) (Agents, error) {
	out := Agents{Ports: slices.Clone(usualPorts), At: c.asked(ctx)}
	for _, at := range out.At {
		out.Ports = append(out.Ports, at.Port())
	}
	out.Ports = append(out.Ports, c.selfPorts(ctx)...)
	var members []struct {
		Name, Addr string
		Port       uint16
		Tags       map[string]string
	}
	if err := c.do(ctx, "ask who belongs to the registry", needReads, func(ctx context.Context) error {
		_, err := c.api.Raw().Query("/v1/agent/members", &members, local(ctx))
		return err
	}); err != nil {
		return out, err
	}
	if len(members) == 0 { // there is one at least: that which answers
		return out, &DeniedError{What: "ask who belongs to the registry", Need: needReads}
	}
	names := map[string]bool{}
	for _, m := range members {
		names[m.Name] = true
		out.Nodes = appendAddr(out.Nodes, m.Addr)
		out.Ports = append(out.Ports, m.Port)
		for _, tag := range []string{"port", "wan_join_port", "grpc_port", "grpc_tls_port"} {
			if p, err := strconv.ParseUint(m.Tags[tag], 10, 16); err == nil {
				out.Ports = append(out.Ports, uint16(p))
			}
		}
	}
	// A node may have more addresses than the one that gossip has.
	var nodes []*api.Node
	if err := c.do(ctx, "read the registry's nodes", needReads, func(ctx context.Context) (err error) {
		nodes, _, err = c.api.Catalog().Nodes(local(ctx))
		return err
	}); err != nil {
		return out, err
	}
	for _, n := range nodes {
		if !names[n.Node] {
			continue // an external one, where no agent runs
		}
		out.Nodes = appendAddr(out.Nodes, n.Address)
		for _, a := range n.TaggedAddresses {
			out.Nodes = appendAddr(out.Nodes, a)
		}
	}
	slices.Sort(out.Ports)
	out.Ports = slices.DeleteFunc(slices.Compact(out.Ports), func(p uint16) bool { return p == 0 })
	return out, nil
}

func appendAddr(all []netip.Addr, text string) []netip.Addr {
	ip, err := netip.ParseAddr(text)
	if err != nil || slices.Contains(all, ip.Unmap()) {
		return all
	}
	return append(all, ip.Unmap())
}

// asked is where this client's requests go: each address of the host of the settings,
// and the one that took the last connection.
func (c *Client) asked(ctx context.Context) (out []netip.AddrPort) {
	if at := c.reached.Load(); at != nil {
		if a, err := netip.ParseAddrPort(*at); err == nil {
			out = append(out, netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port()))
		}
	}
	host, port, err := net.SplitHostPort(c.hostport)
	p, err2 := strconv.ParseUint(port, 10, 16)
	if errors.Join(err, err2) != nil { // a unix socket
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ips, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // what is not found took no connection
	for _, ip := range ips {
		if a := netip.AddrPortFrom(ip.Unmap().WithZone(""), uint16(p)); !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// selfPorts are the ports of the agent that answers; none where the token may not read
// that.
func (c *Client) selfPorts(ctx context.Context) (out []uint16) {
	var self struct {
		DebugConfig struct{ HTTPPort, HTTPSPort, GRPCPort, GRPCTLSPort, DNSPort, ServerPort, SerfPortLAN, SerfPortWAN int }
	}
	if err := c.do(ctx, "ask the agent about itself", `agent:read`, func(ctx context.Context) error {
		_, err := c.api.Raw().Query("/v1/agent/self", &self, local(ctx))
		return err
	}); err != nil {
		return nil
	}
	d := self.DebugConfig
	for _, p := range []int{d.HTTPPort, d.HTTPSPort, d.GRPCPort, d.GRPCTLSPort, d.DNSPort, d.ServerPort, d.SerfPortLAN, d.SerfPortWAN} {
		if p > 0 && p <= 65535 { // -1: it does not listen
			out = append(out, uint16(p))
		}
	}
	return out
}
