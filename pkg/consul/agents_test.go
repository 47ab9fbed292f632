package consul_test

import (
	"net/netip"
	"slices"
	"testing"

	"lane/pkg/consul/consultest"
)

func TestWhereTheRegistryListens(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		a, err := c.Agents(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at := netip.MustParseAddrPort(addr)
		if !slices.Contains(a.At, at) || !slices.Contains(a.Nodes, at.Addr()) || !a.Port(at.Port()) || !a.Port(8500) || a.Port(8080) || a.Port(0) {
			t.Errorf("%s: %+v", addr, a)
		}
	})
	gone := open(t, "127.0.0.1:1")
	a, err := gone.Agents(t.Context())
	if err == nil || !a.Port(8300) || !a.Port(1) || !slices.Contains(a.At, netip.MustParseAddrPort("127.0.0.1:1")) {
		t.Errorf("a registry that does not answer: %+v, %v", a, err)
	}
}
