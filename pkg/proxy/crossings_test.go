package proxy

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/lane"
)

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(c.at.Load(), 0) }

func (c *clock) use(cfg *Config) {
	c.at.Store(1_700_000_000)
	cfg.Now = c.now
}

// zoned is an instance in a zone.
func zoned(b *backend, zone, lan string) lane.Instance {
	in := instance(b.name, b.addr(), lan)
	in.Zone = zone
	return in
}

// What a caller in a zone gets, and how it is counted. The first request of all finds
// nothing that was asked before: it would be all that has left, and no cap lets it.
func TestZonesThroughAGateway(t *testing.T) {
	near, far, lan := newBackend(t, "near", nil), newBackend(t, "far", nil), newBackend(t, "lane", nil)
	one := []lane.Instance{zoned(near, "z1", ""), zoned(far, "z2", "")}
	for _, tt := range []struct {
		name   string
		set    func(*lane.Policy)
		in     []lane.Instance
		tag    string
		bodies string // of the first requests, in order; E is E_ZONE_CAP
		counts string // cross by reason, denied
	}{
		{"the own zone only", nil, one, "", "near near near near", "map[] 0"},
		{"the lane comes before the zone", nil, append(one[:2:2], zoned(lan, "z2", "dev-alice")), "dev-alice", "lane lane", "map[local_empty:2] 0"},
		{"nothing here: all goes", nil, one[1:], "", "far far", "map[local_empty:2] 0"},
		{"nothing here, with a cap", func(p *lane.Policy) { p.OnEmpty = lane.OnEmptyCap }, one[1:], "", "E E E far E E far", "map[local_empty:2] 5"},
		{"nothing here, and none may", func(p *lane.Policy) { p.OnEmpty = lane.OnEmptyFail }, one[1:], "", "E E E E E", "map[] 5"},
		{"too few here, with a cap", func(p *lane.Policy) { p.MinLocal = 2 }, one, "", "near near near", "map[] 3"},
		{"too few here, and all may go", func(p *lane.Policy) { p.MinLocal, p.MaxCross = 2, 1 }, one, "", "*", "map[local_insufficient:10] 0"},
		{"nobody says where he is", func(p *lane.Policy) { p.OnEmpty = lane.OnEmptyFail }, []lane.Instance{instance("far", far.addr(), "")}, "", "far far", "map[] 0"},
		{"zones are off", func(p *lane.Policy) { p.Zone, p.OnEmpty = lane.ZoneOff, lane.OnEmptyFail }, one[1:], "", "far far", "map[] 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c clock
			e := policed(t, "z1", func(p *lane.Policy) {
				if tt.set != nil {
					tt.set(p)
				}
			}, c.use)
			e.reg.set(service("order-service", tt.in...))
			ask := func() string {
				kv := []string{"x-lane-tag", tt.tag}
				if tt.tag == "" {
					kv = nil
				}
				a := e.ask("GET", "/a", kv...)
				if code := a.header.Get(lane.HeaderError); code == string(lane.CodeZoneCap) && a.status == 503 {
					return "E"
				}
				return a.body
			}
			if tt.bodies == "*" { // a share, by turns
				seen := map[string]int{}
				for range 10 {
					seen[ask()]++
				}
				if seen["near"]+seen["far"] != 10 || seen["near"] == 0 || seen["far"] == 0 {
					t.Errorf("%v", seen)
				}
			} else {
				got := ""
				for range len(tt.bodies) {
					if len(got) < len(tt.bodies) {
						got += ask() + " "
					}
				}
				if got != tt.bodies+" " {
					t.Errorf("got  %s\nwant %s", got, tt.bodies)
				}
			}
			got := fmt.Sprint(e.tr.Counts().By(lane.MetricCrossZone), " ", e.tr.Counts().Total(lane.MetricCrossZoneDenied))
			if got != tt.counts {
				t.Errorf("counted %s, want %s", got, tt.counts)
			}
		})
	}
}

// The share is of the last minute, and of one service: what was before it neither
// allows nor denies anything.
func TestCrossingsOfAMinute(t *testing.T) {
	var c clock
	far := newBackend(t, "far", nil)
	e := policed(t, "z1", func(p *lane.Policy) { p.OnEmpty = lane.OnEmptyCap }, c.use)
	e.reg.set(service("order-service", zoned(far, "z2", "")))
	left := func(n int) int64 {
		before := far.hits.Load()
		for range n {
			e.ask("GET", "/a")
		}
		return far.hits.Load() - before
	}
	if got := left(100); got < 27 || got > 30 {
		t.Errorf("%d of 100 requests left the zone, and 0.3 may", got)
	}
	c.at.Add(59)
	if got := left(10); got > 3 {
		t.Errorf("%d of 10 after 59 s, of a window with 100", got)
	}
	c.at.Add(1) // the 100 are too old now, and the 10 are not
	w := e.tr.crossed.window("order-service")
	req := lane.Request{Service: "order-service", Now: c.now()}
	if e.tr.crossed.ask(&req); req.Total != 10 {
		t.Errorf("%d requests in the window, want the last 10", req.Total)
	}
	c.at.Add(60)
	if got := left(3); got != 0 {
		t.Errorf("%d of 3 in a new window", got)
	}
	c.at.Add(-30) // a clock that was put back
	if got := left(4); got != 2 {
		t.Errorf("%d of 4 more", got)
	}
	if w != e.tr.crossed.window("order-service") || len(e.tr.crossed.of) != 1 {
		t.Errorf("windows: %v", e.tr.crossed.of)
	}
	req = lane.Request{Service: "inventory", Now: c.now()}
	if e.tr.crossed.ask(&req); req.Total != 0 {
		t.Error("another service has this one's counts")
	}
	// A service that is nowhere takes no memory.
	e.reg.set()
	for range 3 {
		e.ask("GET", "/a")
	}
	var d lane.Decision
	e.tr.decide(&d, e.reg.Catalog(), &lane.Request{Service: "no-such", Now: c.now()})
	if len(e.tr.crossed.of) != 1 {
		t.Errorf("windows: %v", e.tr.crossed.of)
	}
}

// Many at once hold the cap but for those between the question and the count.
func TestCrossingsAtOnce(t *testing.T) {
	var c clock
	far, near := newBackend(t, "far", nil), newBackend(t, "near", nil)
	e := policed(t, "z1", func(p *lane.Policy) { p.MinLocal = 2 }, c.use)
	e.reg.set(service("order-service", zoned(near, "z1", ""), zoned(far, "z2", "")))
	const callers, each = 8, 50
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				if a := e.ask("GET", "/a"); a.status != 200 {
					t.Errorf("%v", a)
				}
			}
		})
	}
	wg.Wait()
	if got := far.hits.Load(); got == 0 || got > callers*each*3/10+callers {
		t.Errorf("%d of %d left the zone, and 0.3 may", got, callers*each)
	}
}

// A window costs a request no memory.
func TestCrossingsTakeNoMemory(t *testing.T) {
	var x crossings
	p := lane.DefaultPolicy()
	p.OnEmpty = lane.OnEmptyCap
	x.start(p, "z1")
	in := &lane.Instance{ID: "far", Zone: "z2"}
	req := &lane.Request{Service: "order-service", Now: time.Unix(1_700_000_000, 0)}
	d := &lane.Decision{Chosen: []lane.Candidate{{Instance: in, Weight: 1}}, Metrics: []lane.Metric{{Name: lane.MetricCrossZone, Label: "reason", Value: "local_empty"}}}
	if n := testing.AllocsPerRun(200, func() {
		req.Now = req.Now.Add(100 * time.Millisecond)
		x.ask(req)
		x.decided(req, d)
		x.sent(req, d, in)
	}); n > 0 {
		t.Errorf("%v allocations a request", n)
	}
	if x.ask(req); req.Cross != 201 || req.Total != 201 {
		t.Errorf("%d of %d", req.Cross, req.Total)
	}
}
