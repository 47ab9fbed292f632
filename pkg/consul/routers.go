package consul

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// How gateways and sidecars are found: each is an instance of one of these
// services, and its metadata has the port of its admin listener.
const (
	GatewayService = "lane-gateway"
	SidecarService = "lane-sidecar"
	RelayService   = "lane-relay"
	MetaAdmin      = "lane-admin-port"
)

// Router is a gateway or a sidecar of the environment.
type Router struct {
	ID      string
	Service string // GatewayService or SidecarService
	Admin   string // host:port of its admin listener; empty: it names none
	Health  lane.Health
}

// RouterEntry is how a gateway or a sidecar is found: by its front's address, and the
// admin port at the address where that one is reached.
func RouterEntry(as string, front, admin netip.AddrPort) Registration {
	ip := admin.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = front.Addr().Unmap()
	}
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return Registration{ID: BaselineID(as, ip.String(), int(front.Port())), Name: as, Service: as, Baseline: true,
		Address: ip.String(), Port: int(front.Port()), Meta: map[string]string{MetaAdmin: strconv.Itoa(int(admin.Port()))}}
}

// Routers returns the gateways and sidecars in the registry, sorted by ID.
func (c *Client) Routers(ctx context.Context) ([]Router, error) {
	var out []Router
	for _, name := range []string{GatewayService, SidecarService} {
		var entries []*api.ServiceEntry
		err := c.do(ctx, "look for routers", needReads, func(ctx context.Context) (err error) {
			var meta *api.QueryMeta
			entries, meta, err = c.api.Health().Service(name, "", false, query(ctx))
			if err == nil && meta.ResultsFilteredByACLs {
				return &DeniedError{What: "look for routers", Need: needReads}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.Service == nil || e.Node == nil {
				continue
			}
			out = append(out, router(name, e))
		}
	}
	slices.SortFunc(out, func(a, b Router) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

func router(service string, e *api.ServiceEntry) Router {
	health, _ := worst(e.Checks)
	r := Router{ID: e.Service.ID, Service: service, Health: health}
	if port, err := strconv.Atoi(e.Service.Meta[MetaAdmin]); err == nil && port > 0 && port < 65536 {
		if host, _, err := net.SplitHostPort(dialAddr(e)); err == nil {
			r.Admin = net.JoinHostPort(host, strconv.Itoa(port))
		}
	}
	return r
}
