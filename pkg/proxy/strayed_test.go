package proxy

import (
	"net/netip"
	"testing"
)

// Told is who finds an instance and does not look at lanes, and nobody else.
func TestStrayed(t *testing.T) {
	abroad := func(netip.Addr) bool { return false }
	for name, c := range map[string]struct {
		change func(*GuardConfig)
		kv     []string
		told   bool
	}{
		"untagged":                 {told: true},
		"baseline's tag":           {kv: []string{"x-lane-tag", "baseline"}, told: true},
		"other lane":               {kv: []string{"x-lane-tag", "dev-bob"}, told: true},
		"no lane's name":           {kv: []string{"x-lane-tag", "Not A Lane"}, told: true},
		"rejected":                 {change: func(c *GuardConfig) { c.Reject = true }, told: true},
		"looks like a probe":       {kv: []string{"User-Agent", "curl, no kube-probe/"}, told: true},
		"its lane":                 {kv: []string{"x-lane-tag", "dev-alice"}},
		"this machine":             {change: func(c *GuardConfig) { c.Here = nil }},
		"probed path":              {change: func(c *GuardConfig) { c.Probes = []string{"/p"} }},
		"Consul's probe":           {kv: []string{"User-Agent", "Consul Health Check"}},
		"Kubernetes' probe":        {kv: []string{"User-Agent", "kube-probe/1.30"}},
		"sent on by another guard": {kv: []string{"x-lane-guard", "bounced"}},
	} {
		t.Run(name, func(t *testing.T) {
			told := make(chan netip.Addr, 4)
			s := newGuarded(t, func(g *GuardConfig) {
				g.Here, g.Strayed = abroad, func(a netip.Addr) { told <- a }
				if c.change != nil {
					c.change(g)
				}
			})
			s.ask("/p", c.kv...)
			s.exchange(1)
			want := 0
			if c.told {
				want = 1
			}
			if len(told) != want {
				t.Fatalf("told %d times, want %d", len(told), want)
			}
			if c.told {
				if a := <-told; !a.IsLoopback() {
					t.Errorf("the caller is %v", a)
				}
			}
		})
	}
}

// The instance has another ID once it stands under another name.
func TestGuardSaysWhereItStands(t *testing.T) {
	s := newGuarded(t, nil)
	g, err := NewGuard(s.tr, GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-alice", Local: []string{s.local.addr()}})
	if err != nil {
		t.Fatal(err)
	}
	s.addr = s.serve(g.Serve)
	for _, id := range []string{"o-alice", "o-alice-isolated"} {
		g.Moved(id)
		a := s.ask("/", "x-lane-tag", "dev-alice")
		if got, want := a.header.Get("X-Lane-Decision"), "LANE_MATCH; lane=dev-alice; instance="+id; got != want {
			t.Errorf("decision %q, want %q", got, want)
		}
	}
	if ex := s.exchange(2); ex.Instance != "o-alice-isolated" {
		t.Errorf("recorded %q", ex.Instance)
	}
}
