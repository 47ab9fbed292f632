package proxy

import (
	"math"
	"testing"
	"time"

	"lane/pkg/lane"
)

// policed is a gateway that decides by the default policy with a change, in a zone.
func policed(t *testing.T, zone string, change func(*lane.Policy), more ...func(*Config)) *entrance {
	t.Helper()
	p := lane.DefaultPolicy()
	change(&p)
	router, err := lane.NewRouter(p)
	if err != nil {
		t.Fatal(err)
	}
	return newEntranceWith(t, entryRules, func(c *Config, _ *GatewayConfig) {
		c.Router, c.Caller.Zone = router, zone
		for _, f := range more {
			f(c)
		}
	})
}

// A new instance's share of the requests grows with its uptime, along the curve that
// is asked for: after a quarter of the warm-up it is a quarter of a warm one's, or a
// sixteenth.
func TestWarmUpFollowsItsCurve(t *testing.T) {
	for _, tt := range []struct {
		curve  lane.Curve
		warmup time.Duration
		share  float64 // of the new one, beside a warm one
	}{
		{lane.CurveLinear, 120 * time.Second, 0.2},
		{lane.CurveQuadratic, 120 * time.Second, 0.0588},
		{lane.CurveQuadratic, 0, 0.5}, // a curve of nothing
	} {
		t.Run(string(tt.curve)+" "+tt.warmup.String(), func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			e := policed(t, "", func(p *lane.Policy) { p.Warmup, p.Curve = tt.warmup, tt.curve },
				func(c *Config) { c.Now = func() time.Time { return now } })
			fresh := newBackend(t, "fresh", nil)
			one, warm := instance("fresh-1", fresh.addr(), ""), instance("warm-1", e.base.addr(), "")
			one.FirstSeen = now.Add(-30 * time.Second)
			e.reg.set(service("order-service", one, warm))
			const n = 200
			for range n {
				if a := e.ask("GET", "/a"); a.status != 200 {
					t.Fatal(a)
				}
			}
			if got := float64(fresh.hits.Load()) / n; math.Abs(got-tt.share) > 0.02 {
				t.Errorf("%v of the requests, want %v", got, tt.share)
			}
		})
	}
}
