package relay

import (
	"net"
	"net/netip"
	"testing"

	"lane/pkg/consul"
)

func TestWhereNobodyIsLed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	tunnels := netip.MustParseAddrPort(ln.Addr().String())
	at := func(ip string) string { return netip.AddrPortFrom(netip.MustParseAddr(ip), tunnels.Port()).String() }
	for _, c := range []struct {
		advertise, addr string
		want            bool
	}{
		{"10.1.2.3", "10.1.2.4:8080", true},
		{"10.1.2.3", "10.1.2.3:21000", true}, // another claim's port here: its guard stands before it
		{"10.1.2.3", "[2001:db8::1]:8080", true},
		{"10.1.2.3", "127.0.0.1:8080", false},
		{"10.1.2.3", "127.9.9.9:8080", false},
		{"10.1.2.3", "[::1]:8080", false},
		{"10.1.2.3", "[::ffff:127.0.0.1]:8080", false},
		{"10.1.2.3", "169.254.169.254:80", false},
		{"10.1.2.3", "[::ffff:169.254.169.254]:80", false},
		{"10.1.2.3", "[fe80::1]:80", false},
		{"10.1.2.3", "[fe80::1%eth0]:80", false},
		{"10.1.2.3", "[64:ff9b::a9fe:a9fe]:80", false},
		{"127.0.0.1", "[64:ff9b::7f00:1]:80", false},
		{"10.1.2.3", "[64:ff9b::a00:1]:80", true},
		{"10.1.2.3", "[64:ff9b::6464:64c8]:80", false},
		{"10.1.2.3", "[64:ff9b::a01:203]:9000", false}, // the admin port
		{"10.1.2.3", "[fd00:ec2::254]:80", false},
		{"10.1.2.3", "[fd00:ec2::253]:80", true},
		{"10.1.2.3", "100.100.100.200:80", false},
		{"10.1.2.3", "0.0.0.0:80", false},
		{"10.1.2.3", "[::]:80", false},
		{"10.1.2.3", "224.0.0.1:80", false},
		{"10.1.2.3", "relay.test.example:80", false},
		{"10.1.2.3", "10.1.2.4", false},
		{"10.1.2.3", "", false},
		{"10.1.2.3", at("10.1.2.3"), false},   // the tunnels' own port
		{"10.1.2.3", "10.1.2.3:9000", false},  // the admin port
		{"10.1.2.3", at("10.1.2.4"), true},    // another machine's
		{"127.0.0.1", "127.0.0.1:8080", true}, // all is on one machine
		{"127.0.0.1", at("127.0.0.1"), false},
		{"127.0.0.1", at("127.0.0.2"), false},
		{"127.0.0.1", "127.0.0.1:9000", false},
		{"127.0.0.1", "169.254.169.254:80", false},
	} {
		r := &relay{o: Options{Advertise: netip.MustParseAddr(c.advertise), Listener: ln, Own: []string{"0.0.0.0:9000"}}}
		if got, err := r.reachable(t.Context(), c.addr); (err == nil) != c.want {
			t.Errorf("at %s, %s: %v, %v", c.advertise, c.addr, got, err)
		}
	}
}

func TestWhereConsulListens(t *testing.T) {
	ip := netip.MustParseAddr
	far := consul.Agents{Nodes: []netip.Addr{ip("10.1.2.8"), ip("2001:db8::8")}, Ports: []uint16{8300, 8500, 18500},
		At: []netip.AddrPort{netip.MustParseAddrPort("10.1.2.9:443")}}
	beside := far
	beside.Nodes = []netip.Addr{ip("127.0.0.1")}
	asked := far
	asked.At = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:18500")}
	for _, c := range []struct {
		agents consul.Agents
		addr   string
		want   bool
	}{
		{far, "10.1.2.8:8500", true},
		{far, "[2001:db8::8]:8300", true},
		{far, "10.1.2.8:8080", false}, // an application beside an agent
		{far, "10.1.2.7:8500", false}, // a machine without one
		{far, "10.1.2.9:443", true},   // what balances the registry's load
		{far, "10.1.2.9:8500", false},
		{far, "10.1.2.8:443", false},
		{far, "10.1.2.3:8500", false}, // no agent is on the relay's machine
		{far, "127.0.0.1:8500", false},
		{beside, "10.1.2.3:8500", true}, // one is, and may listen on all addresses of it
		{beside, "127.0.0.2:8300", true},
		{beside, "10.1.2.3:8080", false},
		{beside, "10.1.2.8:8500", false},
		{asked, "10.1.2.3:18500", true},
		{asked, "127.0.0.2:18500", true},
		{asked, "10.1.2.7:18500", false},
	} {
		r := &relay{o: Options{Advertise: ip("10.1.2.3")}}
		if got := r.consuls(c.agents, netip.MustParseAddrPort(c.addr)); got != c.want {
			t.Errorf("%s with %+v: %v", c.addr, c.agents, got)
		}
	}
}
