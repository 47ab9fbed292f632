package lane

import (
	"fmt"
	"testing"
	"time"
)

// fleet is a service with n instances: half of them baseline, a lane "gray" of a
// tenth, at least one, and other lanes.
func fleet(n int) *Service {
	in := make([]Instance, n)
	for i := range in {
		in[i] = Instance{ID: fmt.Sprintf("i%04d", i), Addr: fmt.Sprintf("10.0.%d.%d:8080", i/256, i%256),
			Env: "test", Zone: fmt.Sprintf("z%d", i%3), Weight: 1 + i%2}
		switch {
		case i%10 == 3:
			in[i].MetaLane = "gray"
		case i%2 == 1:
			in[i].MetaLane = fmt.Sprintf("dev-%d", i%7)
		}
	}
	return NewService("orders", in, []Name{"gray"})
}

func fleetCatalog(n int) *Catalog {
	return NewCatalog(Trust{}, nil, Switches{}, fleet(n))
}

func mustRouter(tb testing.TB, change func(*Policy)) *Router {
	tb.Helper()
	p := DefaultPolicy()
	if change != nil {
		change(&p)
	}
	r, err := NewRouter(p)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func tagged(tag string) Request {
	return Request{Service: "orders", Tag: ParseTag(tag), Caller: Caller{Env: "test", Self: "127.0.0.1:7474"},
		Now: time.Unix(1000, 0), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{10, 1000} {
		c := fleetCatalog(n)
		zoned := tagged("")
		zoned.Caller.Zone = "z1"
		for _, bc := range []struct {
			name string
			req  Request
			p    func(*Policy)
		}{
			{"lane", tagged("gray"), nil},
			{"baseline", tagged(""), nil},
			{"fallback", tagged("absent"), nil},
			{"zone", zoned, nil},
			{"proportional", tagged("gray"), func(p *Policy) { p.NoMatch, p.DegradeRatio = NoMatchProportional, 0.3 }},
		} {
			r := mustRouter(b, bc.p)
			b.Run(fmt.Sprintf("%s/%d", bc.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					d := r.Decide(c, bc.req)
					if d.Kind == KindError {
						b.Fatal(d.Reason)
					}
				}
			})
			b.Run(fmt.Sprintf("into/%s/%d", bc.name, n), func(b *testing.B) {
				b.ReportAllocs()
				var d Decision
				for b.Loop() {
					r.DecideInto(&d, c, &bc.req)
				}
			})
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 1000} {
		d := mustRouter(b, nil).Decide(fleetCatalog(n), tagged(""))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var i uint64
			for b.Loop() {
				i++
				Pick(&d, i)
			}
		})
	}
}

func BenchmarkCarriers(b *testing.B) {
	c := DefaultCarriers()
	h := map[string][]string{"Accept": {"*/*"}, "User-Agent": {"curl/8"}, "Accept-Encoding": {"gzip"},
		"Traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, "Content-Type": {"application/json"},
		"Baggage": {"userId=alice,serverNode=DF%2028,isProduction=false"}}
	c.Write(h, "gray")
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Read(h)
		}
	})
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.Write(h, "gray")
		}
	})
}

func BenchmarkNewService(b *testing.B) {
	s := fleet(1000)
	b.ReportAllocs()
	for b.Loop() {
		NewService(s.Name, s.Instances, s.Declared)
	}
}

// TestDecideAllocates pins that the common decisions leave no garbage: it counts,
// and measures no time.
func TestDecideAllocates(t *testing.T) {
	for _, n := range []int{10, 1000} {
		c, r := fleetCatalog(n), mustRouter(t, nil)
		var d Decision
		zoned := tagged("")
		zoned.Caller.Zone = "z1"
		for name, req := range map[string]Request{"lane": tagged("gray"), "baseline": tagged(""), "fallback": tagged("absent"), "zone": zoned} {
			r.DecideInto(&d, c, &req) // makes the memory that later ones use
			if got := testing.AllocsPerRun(100, func() { r.DecideInto(&d, c, &req) }); got != 0 {
				t.Errorf("DecideInto, %s of %d: %v allocations, want 0", name, n, got)
			}
		}
		for name, req := range map[string]Request{"lane": tagged("gray"), "baseline": tagged("")} {
			if got := testing.AllocsPerRun(100, func() { d = r.Decide(c, req) }); got != 0 {
				t.Errorf("Decide, %s of %d: %v allocations, want 0", name, n, got)
			}
		}
	}
}
