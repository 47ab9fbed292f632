package lane

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// situation is a random decision's input.
type situation struct {
	c   *Catalog
	p   Policy
	req Request
}

var genNow = time.Unix(1_000_000, 0)

// Small alphabets, so that collisions, which are the interesting cases, happen.
func genInstance(i int) *rapid.Generator[Instance] {
	return rapid.Custom(func(t *rapid.T) Instance {
		pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		in := Instance{
			ID: fmt.Sprintf("%s%d", pick("id", "a", "b", "m"), i), Addr: fmt.Sprintf("10.0.0.%d:80", rapid.IntRange(1, 9).Draw(t, "addr")),
			MetaLane: pick("lane", "", "", "", "gray", "gray", "dev-bob", "baseline", "stable", "Bad Lane", " "),
			MetaTag:  pick("tag", "", "", "", "gray", "v2"),
			Env:      pick("env", "test", "test", "test", "prod", ""), Tenant: pick("tenant", "", "", "t1", "t2"),
			Zone: pick("zone", "", "z1", "z2"), Version: pick("version", "", "v1", "v2"), Group: pick("group", "", "", "", "blue", "green"),
			Health:   rapid.SampledFrom([]Health{Passing, Passing, Passing, Warning, Critical}).Draw(t, "health"),
			Weight:   rapid.SampledFrom([]int{1, 1, 1, 2, 4, 0, -1}).Draw(t, "weight"),
			Draining: rapid.IntRange(0, 9).Draw(t, "draining") == 0, Local: rapid.IntRange(0, 4).Draw(t, "local") == 0,
		}
		if up := rapid.SampledFrom([]int{-1000, -5, 0, 30, 60, 600}).Draw(t, "uptime"); up != -1000 {
			in.FirstSeen = genNow.Add(-time.Duration(up) * time.Second)
		}
		return in
	})
}

func genPolicy(t *rapid.T) Policy {
	p := DefaultPolicy()
	p.Mode = rapid.SampledFrom([]Mode{Relaxed, Relaxed, Relaxed, Strict}).Draw(t, "mode")
	p.NoMatch = rapid.SampledFrom([]NoMatch{NoMatchFallback, NoMatchFail, NoMatchProportional}).Draw(t, "no_match")
	p.DegradeRatio = rapid.SampledFrom([]float64{0, 0.3, 0.9999, 1}).Draw(t, "ratio")
	p.InvalidTag = rapid.SampledFrom([]InvalidTag{InvalidDrop, InvalidReject}).Draw(t, "invalid_tag")
	p.UnhealthyLane = rapid.SampledFrom([]UnhealthyLane{UnhealthyError, UnhealthyFallback}).Draw(t, "unhealthy")
	p.KnownLanes = rapid.SampledFrom([][]Name{nil, {}, {"gray"}}).Draw(t, "known")
	p.AllowWarning = rapid.Bool().Draw(t, "warning")
	p.EnvRequired = rapid.IntRange(0, 5).Draw(t, "env_required") > 0
	p.Zone = rapid.SampledFrom([]ZoneMode{ZoneOff, ZoneAffinity, ZoneAffinity, ZoneRequired}).Draw(t, "zone_mode")
	p.OnEmpty = rapid.SampledFrom([]OnEmpty{OnEmptyCross, OnEmptyCap, OnEmptyFail}).Draw(t, "on_empty")
	p.MinLocal = rapid.IntRange(0, 3).Draw(t, "min_local")
	p.Warmup = rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Minute}).Draw(t, "warmup")
	p.Curve = rapid.SampledFrom([]Curve{CurveLinear, CurveQuadratic}).Draw(t, "curve")
	p.StampedEntry = rapid.Bool().Draw(t, "stamped")
	if rapid.Bool().Draw(t, "static") {
		p.BaselineStatic = map[string][]string{"orders": {"10.9.9.9:80", "10.9.9.8:80"}}
	}
	return p
}

func genSituation(t *rapid.T) situation {
	instances := make([]Instance, rapid.IntRange(0, 8).Draw(t, "n"))
	for i := range instances {
		instances[i] = genInstance(i).Draw(t, "instance")
	}
	var services []*Service
	if rapid.IntRange(0, 9).Draw(t, "known") > 0 {
		s := NewService("orders", instances, rapid.SampledFrom([][]Name{nil, {"gray"}, {"dev-bob"}}).Draw(t, "declared"))
		s.HasSnapshot = rapid.IntRange(0, 9).Draw(t, "snapshot") > 0
		s.ACLFiltered = rapid.IntRange(0, 19).Draw(t, "acl") == 0
		services = append(services, s)
	}
	trust := Trust{State: rapid.SampledFrom([]RegistryState{Fresh, Fresh, Fresh, Stale, Unreachable}).Draw(t, "state"),
		Since: genNow.Add(-time.Duration(rapid.SampledFrom([]int{0, 42, 300, 301, 900}).Draw(t, "age")) * time.Second)}
	if rapid.IntRange(0, 19).Draw(t, "never") == 0 {
		trust.Since = time.Time{}
	}
	sw := Switches{KillAll: rapid.IntRange(0, 9).Draw(t, "kill") == 0,
		KilledLanes: rapid.SampledFrom([][]Name{nil, nil, {"gray"}, {"dev-bob", "Bad Tag!"}}).Draw(t, "killed")}
	if g := rapid.SampledFrom([]string{"", "", "blue", "green", "red"}).Draw(t, "active"); g != "" {
		sw.ActiveGroup = map[string]string{"orders": g}
	}
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	req := Request{Service: "orders", Now: genNow,
		External:  rapid.IntRange(0, 29).Draw(t, "external") == 0,
		Tag:       ParseTag(pick("request tag", "", "gray", "gray", "gray", "dev-bob", "nobody", "baseline", "stable", "Bad Tag!", " gray ")),
		TraceLane: Name(pick("trace_lane", "", "", "", "gray", "dev-bob", "baseline")),
		Hops:      rapid.SampledFrom([]int{0, 0, 0, 3, 15, 16, 99}).Draw(t, "hops"),
		TraceID:   pick("trace_id", "", "t-1"), StickyKey: pick("key", "", "u-1", "u-4", "u-7"),
		Version: pick("request version", "", "", "v1", "v9"),
		Caller: Caller{Env: pick("caller env", "test", "test", "", "prod"), Tenant: pick("caller tenant", "", "", "t1"),
			Zone: pick("caller zone", "", "z1", "z3"), InstanceID: pick("caller id", "", "a1", "b2"), Self: pick("self", "", "10.0.0.1:80", "10.0.0.2:80")},
		ForceBaseline: rapid.IntRange(0, 9).Draw(t, "force") == 0,
		Cross:         rapid.IntRange(0, 40).Draw(t, "cross"), Total: rapid.IntRange(0, 100).Draw(t, "total"),
	}
	if len(instances) > 0 && rapid.IntRange(0, 4).Draw(t, "exclude") == 0 {
		req.Excluded = []string{instances[rapid.IntRange(0, len(instances)-1).Draw(t, "excluded")].ID}
	}
	c := NewCatalog(trust, nil, sw, services...)
	c.ClaimsUnknown = rapid.IntRange(0, 9).Draw(t, "claims_unknown") == 0
	return situation{c: c, p: genPolicy(t), req: req}
}

func (s situation) router(t *rapid.T) *Router {
	r, err := NewRouter(s.p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// check runs a property often enough that each row of the table is reached.
func check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	for range 20 {
		rapid.Check(t, property)
	}
}
