package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// out dials the instance that a call means: one that the registry holds at this
// moment under the service's name, by its ID. An address is never taken from whoever
// asks.
func (r *relay) out(ctx context.Context, o tunnel.Out) (net.Conn, string, error) {
	if infrastructure(o.Service) {
		return nil, "", refuse(http.StatusForbidden, "%s is no application's service, and through the relay those alone can be reached", o.Service)
	}
	names := []string{o.Service}
	if o.Lane != "" {
		if _, err := lane.ParseName(o.Lane); err != nil {
			return nil, "", refuse(http.StatusForbidden, "%v", err)
		}
		names = append(names, consul.IsolatedName(lane.Name(o.Lane), o.Service))
	}
	var all []lane.Instance
	for _, name := range names {
		found, err := r.client().InstancesOf(ctx, name)
		var bad *consul.ValidationError
		if errors.As(err, &bad) {
			return nil, "", refuse(http.StatusForbidden, "%v", bad)
		}
		if err != nil {
			return nil, "", refuse(http.StatusServiceUnavailable, "the registry does not say where %s is: %v", name, err)
		}
		all = append(all, found...)
	}
	in := meant(all, o.Facts[facts.Instance])
	if in == nil {
		return nil, "", refuse(http.StatusNotFound, "the relay's registry holds no instance %q of it", o.Facts[facts.Instance])
	}
	at, err := r.reachable(ctx, in.Addr)
	if err != nil {
		return nil, "", refuse(http.StatusForbidden, "%s is registered at %s: %v", in.ID, in.Addr, err)
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	conn, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, "", refuse(http.StatusBadGateway, "%s takes no connection at %s: %s", in.ID, at, proxy.Cause(err))
	}
	return conn, at.String(), nil
}

// meant finds an instance by its ID.
func meant(all []lane.Instance, id string) *lane.Instance {
	for i := range all {
		if id != "" && all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// embedded is the IPv4 address that a translator (NAT64, RFC 6052) makes of an IPv6 one;
// any other one is itself.
func embedded(ip netip.Addr) netip.Addr {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(ip) {
		return ip
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// metadata are the addresses of clouds' metadata that are not link-local: those of AWS by
// IPv6 and of Alibaba.
func metadata(ip netip.Addr) bool {
	return ip == netip.MustParseAddr("fd00:ec2::254") || ip == netip.MustParseAddr("100.100.100.200")
}

// reachable says where an address of the registry leads, or why nobody is led there, by
// the way out or as to a baseline. The registry is written by many: it must not become a
// way to what listens for this machine alone, to a cloud's metadata, or to the registry
// itself. Only where the whole environment is on one machine, the relay's own address
// included, are instances on the loopback ones.
func (r *relay) reachable(ctx context.Context, addr string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return at, errors.New("that is no IP address and port")
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	ip := embedded(at.Addr())
	switch {
	case ip.IsUnspecified(), ip.IsMulticast(), ip.Zone() != "":
		return at, errors.New("that is nobody's address")
	case ip.IsLinkLocalUnicast():
		return at, errors.New("link-local addresses are not dialled")
	case metadata(ip):
		return at, errors.New("that is where a cloud answers about its machines")
	case ip.IsLoopback() && (ip != at.Addr() || !r.o.Advertise.IsLoopback()):
		return at, errors.New("that is this relay's own machine")
	}
	for _, own := range append([]string{r.o.Listener.Addr().String()}, r.o.Own...) {
		mine, err := netip.ParseAddrPort(own)
		if err == nil && mine.Port() == at.Port() && (ip == mine.Addr().Unmap() || r.here(ip)) {
			return at, fmt.Errorf("that is a port of this relay itself")
		}
	}
	return at, r.notConsul(ctx, netip.AddrPortFrom(ip, at.Port()))
}

// barred is reachable for the guards, which send on to a baseline: a claim's port can be
// called by the way out.
func (r *relay) barred(ctx context.Context, addr string) error {
	_, err := r.reachable(ctx, addr)
	return err
}

// here reports whether an address is this machine's.
func (r *relay) here(ip netip.Addr) bool {
	if ip.IsLoopback() || ip == r.o.Advertise {
		return true
	}
	all, err := machine()
	return err != nil || slices.Contains(all, ip) // in doubt it is
}

// machine are the addresses of this machine.
func machine() (out []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, err
}

// notConsul refuses the registry itself, which its own service's name does not keep
// anybody from: an instance of any name may be registered where Consul listens. Only an
// address with a port that is Consul's is asked about.
func (r *relay) notConsul(ctx context.Context, at netip.AddrPort) error {
	if known := r.agents.Load(); known == nil || !known.Port(at.Port()) {
		return nil
	}
	now, err := r.o.Client.Agents(ctx)
	if err != nil {
		return fmt.Errorf("port %d may be one of Consul's, and that says nothing now: %w", at.Port(), err)
	}
	if r.consuls(now, at) {
		return errors.New("that is Consul itself")
	}
	return nil
}

// consuls decides whether Consul listens at an address. An agent may listen on all
// addresses of its machine, and which those are is known of this one alone.
func (r *relay) consuls(a consul.Agents, at netip.AddrPort) bool {
	if slices.Contains(a.At, at) {
		return true
	}
	if !a.Port(at.Port()) {
		return false
	}
	beside := slices.ContainsFunc(a.Nodes, r.here) || slices.ContainsFunc(a.At, func(a netip.AddrPort) bool { return r.here(a.Addr()) })
	return slices.Contains(a.Nodes, at.Addr()) || beside && r.here(at.Addr())
}

// learnAgents finds out which ports are Consul's. What was known stays where it does not
// answer.
func (r *relay) learnAgents(ctx context.Context) {
	if now, err := r.o.Client.Agents(ctx); err == nil || r.agents.Load() == nil {
		r.agents.Store(&now)
	}
}
