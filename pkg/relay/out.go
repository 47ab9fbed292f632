package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
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
	at, err := r.reachable(in.Addr)
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
// the zero value for any other.
func embedded(ip netip.Addr) netip.Addr {
	if !netip.MustParsePrefix("64:ff9b::/96").Contains(ip) {
		return netip.Addr{}
	}
	b := ip.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// metadata are the addresses of clouds' metadata that are not link-local: those of AWS by
// IPv6 and of Alibaba.
func metadata(ip netip.Addr) bool {
	return ip == netip.MustParseAddr("fd00:ec2::254") || ip == netip.MustParseAddr("100.100.100.200") || embedded(ip) == netip.MustParseAddr("100.100.100.200")
}

// reachable says where an address of the registry leads, or why nobody is led there.
// The registry is written by many: it must not become a way to what listens for this
// machine alone, or to a cloud's metadata. Only where the whole environment is on one
// machine, the relay's own address included, are instances on the loopback ones.
func (r *relay) reachable(addr string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return at, errors.New("that is no IP address and port")
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	ip := at.Addr()
	switch {
	case ip.IsUnspecified(), ip.IsMulticast(), ip.Zone() != "":
		return at, errors.New("that is nobody's address")
	case ip.IsLinkLocalUnicast(), embedded(ip).IsLinkLocalUnicast():
		return at, errors.New("link-local addresses are not dialled")
	case metadata(ip):
		return at, errors.New("that is where a cloud answers about its machines")
	case embedded(ip).IsLoopback(), ip.IsLoopback() && !r.o.Advertise.IsLoopback():
		return at, errors.New("that is this relay's own machine")
	}
	for _, own := range append([]string{r.o.Listener.Addr().String()}, r.o.Own...) {
		mine, err := netip.ParseAddrPort(own)
		if err == nil && mine.Port() == at.Port() && (ip.IsLoopback() || ip == r.o.Advertise || ip == mine.Addr().Unmap()) {
			return at, fmt.Errorf("that is a port of this relay itself")
		}
	}
	return at, nil
}
