package proxy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
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

// A user who says who he is stays in his version, also when an instance of it comes
// back under another ID; who does not, and who may not, gets both.
func TestUserStaysInVersion(t *testing.T) {
	key, err := rules.ParseKey("header=x-account")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := rules.ParseKey("header=x-user-id")
	if err != nil {
		t.Fatal(err)
	}
	v1, v2 := newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	versioned := func(id string, b *backend, lan string) lane.Instance {
		in := instance(id, b.addr(), lan)
		in.Version = b.name
		return in
	}
	for _, lan := range []string{"", "dev-alice"} {
		for _, way := range []string{"HTTP/1.1", "HTTP/2"} {
			t.Run(lan+"/"+way, func(t *testing.T) {
				e := policed(t, "", func(*lane.Policy) {}, func(c *Config) { c.Sticky = key })
				both := func(a, b string) {
					e.reg.set(service("order-service", versioned(a, v1, lan), versioned(b, v2, lan), instance("b", e.base.addr(), "")))
					if lan == "" {
						e.reg.set(service("order-service", versioned(a, v1, lan), versioned(b, v2, lan)))
					}
				}
				ask := func(kv ...string) string {
					if lan != "" {
						kv = append(kv, "x-lane-tag", lan)
					}
					return e.over(way, "/a", kv...).body
				}
				both("one", "two")
				seats := map[string]string{}
				for i := range 12 {
					user := fmt.Sprintf("u-%d", i)
					seats[user] = ask("X-Account", user)
					for range 3 {
						if got := ask("X-Account", user); got != seats[user] {
							t.Fatalf("%s got %s, and then %s", user, seats[user], got)
						}
					}
				}
				both("zwei", "another") // in another order, too
				seen := map[string]bool{}
				for user, was := range seats {
					if got := ask("X-Account", user); got != was {
						t.Errorf("%s: %s before the restart, %s after it", user, was, got)
					}
					seen[was] = true
				}
				if !seen["v1"] || !seen["v2"] {
					t.Errorf("all users in %v", seen)
				}
				for name, kv := range map[string][]string{"nobody": nil, "another header": {"X-Other", "u-1"}, "two users": {"X-Account", "u-1", "X-Account", "u-2"}} {
					if got := ask(kv...) + ask(kv...) + ask(kv...); got == "v1v1v1" || got == "v2v2v2" {
						t.Errorf("%s: %s", name, got)
					}
				}
			})
		}
	}
	// entryRules believe no X-User-Id of anybody: it is taken off.
	e := policed(t, "", func(*lane.Policy) {}, func(c *Config) { c.Sticky = identity })
	e.reg.set(service("order-service", versioned("one", v1, ""), versioned("two", v2, "")))
	got := ""
	for range 3 {
		got += e.ask("GET", "/a", "X-User-Id", "u-7").body
	}
	if got == "v1v1v1" || got == "v2v2v2" {
		t.Errorf("a client's own identity counts: %s", got)
	}
}

// A share of a lane's users goes to the baseline by the same key.
func TestUserStaysDegraded(t *testing.T) {
	key, _ := rules.ParseKey("cookie=uid")
	e := policed(t, "", func(p *lane.Policy) { p.NoMatch, p.DegradeRatio = lane.NoMatchProportional, 0.5 }, func(c *Config) { c.Sticky = key })
	seen := map[string]int{}
	for i := range 20 {
		user := fmt.Sprintf("u-%d", i)
		want := "alice"
		if lane.InShare("dev-alice", user, 0.5) {
			want = "base"
		}
		seen[want]++
		for _, trace := range []string{"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b74bf92f3577b34da6"} {
			a := e.ask("GET", "/a", "Cookie", "a=b; uid="+user, "x-lane-tag", "dev-alice", "traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
			if a.body != want {
				t.Errorf("%s in trace %s: %s, want %s", user, trace, a.body, want)
			}
		}
	}
	if len(seen) != 2 {
		t.Errorf("all in one: %v", seen)
	}
}
