package metrics

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func row(t *testing.T, s Stats, service, l string) Row {
	t.Helper()
	for _, r := range s.Rows {
		if r.Service == service && r.Lane == l {
			return r
		}
	}
	t.Fatalf("no row for %s in %s: %+v", service, l, s.Rows)
	return Row{}
}

func TestWindowsForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := meter(Options{}, "orders", "gray")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- m.Run(ctx) }()
		for range 100 {
			m.Done(exchange("orders", "gray", "o-1", 200, 10*time.Millisecond))
		}
		failed := exchange("orders", "gray", "o-2", 502, 20*time.Millisecond)
		failed.Kind = lane.KindFallback
		m.Done(failed)
		time.Sleep(5 * time.Second)
		r := row(t, m.Stats(), "orders", "gray")
		if r.Short.Requests != 101 || r.Short.Errors != 1 || r.Short.Fallbacks != 1 || r.Long.Requests != 101 ||
			r.Short.Seconds != 5 || r.Short.Rate < 20.1 || r.Short.Rate > 20.3 || r.Front != "gateway" {
			t.Errorf("after 5 s: %+v", r)
		}
		want := []InstanceCount{{"o-1", 100, 0}, {"o-2", 1, 1}}
		if !slices.Equal(r.Short.Instances, want) {
			t.Errorf("%+v", r.Short.Instances)
		}
		if r.Short.P50 < 9 || r.Short.P50 > 10 || r.Short.P99 > 20 {
			t.Errorf("p50 %v, p99 %v", r.Short.P50, r.Short.P99)
		}
		time.Sleep(20 * time.Second)
		r = row(t, m.Stats(), "orders", "gray")
		if r.Short.Requests != 0 || r.Short.P99 != 0 || len(r.Short.Instances) != 0 || r.Long.Requests != 101 {
			t.Errorf("after 25 s: %+v", r)
		}
		m.Done(exchange("orders", "gray", "o-1", 200, time.Second))
		time.Sleep(4 * time.Minute)
		m.Done(exchange("orders", "gray", "o-1", 200, time.Second))
		r = row(t, m.Stats(), "orders", "gray")
		if r.Short.Requests != 1 || r.Long.Requests != 1 || r.Long.Seconds < 60 || r.Long.Seconds > 62 || r.Short.Seconds > 12 {
			t.Errorf("after minutes: %+v", r)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSeriesOfWhatIsGoneGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := true
		m := New(Options{KnownLane: func(l lane.Name) bool { return l == "gray" || there }, KnownService: func(string) bool { return true }})
		m.Done(exchange("orders", "dev-gone", "o-1", 200, time.Millisecond))
		m.Done(exchange("orders", "gray", "o-1", 200, time.Millisecond))
		there = false
		hour := func(n int) {
			for range n {
				time.Sleep(sampleEvery)
				m.sample()
			}
		}
		hour(idleSamples)
		row(t, m.Stats(), "orders", "dev-gone")
		hour(4)
		s := m.Stats()
		if len(s.Rows) != 1 || s.Rows[0].Lane != "gray" || m.instances.Load() != 0 {
			t.Errorf("%d instances, %+v", m.instances.Load(), s.Rows)
		}
		// It counts from nothing when it is back, as after a restart.
		there = true
		m.Done(exchange("orders", "dev-gone", "o-1", 200, time.Millisecond))
		m.Done(exchange("orders", "gray", "o-1", 200, time.Millisecond))
		text, _ := scrape(t, m, "text/plain")
		all := parsed(t, text)
		if value(t, all, MetricRequests, "lane", "dev-gone") != 1 || value(t, all, MetricRequests, "lane", "gray") != 1 || m.instances.Load() != 2 {
			t.Errorf("%d instances\n%s", m.instances.Load(), text)
		}
	})
}

// What is on its way out is still shown, and comes back as it was.
func TestWhatLeavesIsShownOnceMore(t *testing.T) {
	var tb table[string, int]
	fresh := func() *int { return new(int) }
	a := tb.put("a", fresh)
	tb.put("b", fresh)
	out := func(k string, _ *int) bool { return k == "a" }
	shown := func() (n int) {
		tb.each(func(string, *int) { n++ })
		return n
	}
	if n := tb.retire(out); n != 0 || tb.get("a") != nil || tb.get("b") == nil || shown() != 2 || tb.size() != 1 {
		t.Errorf("%d forgotten, %d shown", n, shown())
	}
	if tb.put("a", fresh) != a || shown() != 2 {
		t.Error("what was leaving was made anew")
	}
	tb.retire(out)
	if n := tb.retire(out); n != 1 || shown() != 1 {
		t.Errorf("%d forgotten, %d shown", n, shown())
	}
	if tb.put("a", fresh) == a {
		t.Error("what was forgotten is back")
	}
}

func TestQuantilesAreNearTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var h histogram
		var all []float64
		for range 5000 {
			d := time.Duration(r.ExpFloat64() * float64(20*time.Millisecond))
			h.observe(d)
			all = append(all, float64(d)/1e6)
		}
		slices.Sort(all)
		f := flow{}
		for i := range h.n {
			f.took.n[i].Store(h.n[i].Load())
		}
		m := New(Options{})
		w := m.since(&f, m.began, -1)
		for q, got := range map[float64]float64{.5: w.P50, .95: w.P95, .99: w.P99} {
			if want := all[int(q*5000)-1]; got < want*.93 || got > want*1.07 {
				t.Errorf("p%v = %v, want %v", q*100, got, want)
			}
		}
	}
	if Quantile(.5, nil) != 0 {
		t.Error("a quantile of nothing")
	}
	if got := Quantile(.99, []Bucket{{UpTo: 1, Count: 1}, {UpTo: 0, Count: 9}}); got != 100000 {
		t.Errorf("beyond the last bound: %v", got)
	}
}

func TestBucketsHoldTheBoundsThatAreShown(t *testing.T) {
	for _, s := range shown {
		d := time.Duration(s * 1e9)
		if i := bucketOf(d); time.Duration(bounds[i]) != d || bucketOf(d+1) != i+1 {
			t.Errorf("%v is no bound: %v", d, time.Duration(bounds[i]))
		}
	}
	for i := 1; i < nBounds; i++ {
		if step := float64(bounds[i]) / float64(bounds[i-1]); step <= 1 || step > 1.15 {
			t.Errorf("from %d to %d", bounds[i-1], bounds[i])
		}
	}
	if bounds[nBounds-1] != int64(100*time.Second) || bucketOf(0) != 0 || bucketOf(time.Hour) != nBounds {
		t.Error(bounds[nBounds-1])
	}
}

func TestWindowsAddUp(t *testing.T) {
	one, two, both := meter(Options{}, "orders"), meter(Options{}, "orders"), meter(Options{}, "orders")
	for i := range 500 {
		e := exchange("orders", "", fmt.Sprint("o-", i%3), 200+300*(i%2), time.Duration(i)*time.Millisecond)
		[]*Meter{one, two}[i%2].Done(e)
		both.Done(e)
	}
	at := func(m *Meter) *Window {
		f := m.flow(m.pair("orders", ""), frontGateway)
		w := m.since(f, m.began.Add(10*time.Second), -1)
		return &w
	}
	got, want := at(one), at(both)
	got.Add(at(two))
	if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", *want) {
		t.Errorf("%+v\n%+v", *got, *want)
	}
	if got.Requests != 500 || got.Errors != 250 || got.Rate != 50 || len(got.Instances) != 3 {
		t.Errorf("%+v", *got)
	}
}

// Before an instance of the baseline, a request of a lane is one that fell back.
func TestASidecarsRequestsOfALaneFellBack(t *testing.T) {
	m := meter(Options{Killed: func(l lane.Name) bool { return l == "dead" }}, "orders", "gray", "dead")
	for _, l := range []lane.Name{"gray", "dead", ""} {
		for _, front := range []traffic.Front{traffic.FrontSidecar, traffic.FrontGateway} {
			e := exchange("orders", l, "o-1", 200, time.Millisecond)
			e.Front, e.Kind = front, lane.KindBaseline
			m.Done(e)
		}
	}
	lost := exchange("orders", "gray", "", 502, time.Millisecond)
	lost.Front, lost.Code = traffic.FrontSidecar, lane.CodeUpstreamConnect
	m.Done(lost)
	for _, r := range m.Stats().Rows {
		want := uint64(0)
		if r.Lane == "gray" && r.Front == string(traffic.FrontSidecar) {
			want = 1
		}
		if r.Short.Fallbacks != want {
			t.Errorf("%s %s: %d fallbacks, want %d", r.Lane, r.Front, r.Short.Fallbacks, want)
		}
	}
}

func TestKnownNames(t *testing.T) {
	catalog := lane.NewCatalog(lane.Trust{}, []lane.Claim{{Lane: "dev-a", Service: "stock"}}, lane.Switches{KilledLanes: []lane.Name{"dev-k"}},
		lane.NewService("orders", []lane.Instance{{ID: "o", MetaLane: "gray"}, {ID: "p", MetaTag: "blue"}, {ID: "q"}, {ID: "r", MetaLane: "Not A Lane"}}, nil),
		lane.NewService("asked-for", nil, nil))
	k := NewKnown(func() *lane.Catalog { return catalog })
	for l, want := range map[lane.Name]bool{"dev-a": true, "gray": true, "blue": true, "dev-k": true, "dev-b": false, "Not A Lane": false, "": false} {
		if k.Lane(l) != want {
			t.Errorf("lane %q: %v", l, !want)
		}
	}
	if !k.Killed("dev-k") || k.Killed("dev-a") {
		t.Error("which lanes are killed")
	}
	for s, want := range map[string]bool{"orders": true, "stock": true, "asked-for": false, "made-up": false} {
		if k.Service(s) != want {
			t.Errorf("service %q: %v", s, !want)
		}
	}
	catalog = lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}, lane.NewService("orders", []lane.Instance{{ID: "o", MetaLane: "dev-b"}}, nil))
	if !k.Lane("dev-b") || k.Lane("gray") || k.Service("stock") {
		t.Error("the names of the old catalog")
	}
	catalog = nil
	if k.Lane("dev-b") || k.Service("orders") || k.Killed("dev-b") {
		t.Error("names of no catalog")
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, lanes := range []int{1, 100} {
		b.Run(fmt.Sprint(lanes), func(b *testing.B) {
			m := New(Options{KnownLane: func(lane.Name) bool { return true }, KnownService: func(string) bool { return true }})
			var names []lane.Name
			for i := range lanes {
				names = append(names, lane.Name(fmt.Sprint("dev-", i)))
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				d := decision("order-service", "", lane.Metric{Name: lane.MetricMatch})
				e := exchange("order-service", "", "lane:dev-alice:order-service:abc", 200, 3*time.Millisecond)
				for i := 0; pb.Next(); i++ {
					d.Lane = names[i%lanes]
					e.Lane = d.Lane
					m.Decided(d)
					m.Done(e)
				}
			})
		})
	}
}

// A lane that nobody knows is looked up each time.
func BenchmarkUnknownLane(b *testing.B) {
	catalog := lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}, lane.NewService("order-service", []lane.Instance{{ID: "o"}}, nil))
	k := NewKnown(func() *lane.Catalog { return catalog })
	m := New(Options{KnownLane: k.Lane, KnownService: k.Service})
	d := decision("order-service", "dev-made-up", lane.Metric{Name: lane.MetricFallback, Label: "reason", Value: "lane_absent"})
	e := exchange("order-service", "dev-made-up", "o", 200, 3*time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		m.Decided(d)
		m.Done(e)
	}
}
