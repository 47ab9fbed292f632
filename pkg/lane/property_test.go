package lane

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestDecideIsTheTable holds the indexed decision against a plain reading of the
// table, with all that is random.
func TestDecideIsTheTable(t *testing.T) {
	near := cmpopts.EquateApprox(0, 0.00011) // two roundings of one sum
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		d := s.router(t).Decide(s.c, s.req)
		if diff := cmp.Diff(model(s), d.Result(""), near); diff != "" {
			t.Fatalf("(-table +Decide):\n%s", diff)
		}
	})
}

// placeOf finds where a chosen instance belongs, by its metadata alone.
func placeOf(in *Instance) (Name, bool) {
	p := meta{keys: []string{"lane", "tag"}}.place(in)
	return p.lane, p.quarantine == ""
}

// TestNeverAThirdLane: what is chosen is the request's own lane or the baseline,
// never both, and nothing that is quarantined.
func TestNeverAThirdLane(t *testing.T) {
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		d := s.router(t).Decide(s.c, s.req)
		if d.Kind == KindStatic {
			return
		}
		for _, c := range d.Chosen {
			lane, ok := placeOf(c.Instance)
			switch {
			case !ok:
				t.Fatalf("%s is quarantined", c.Instance.ID)
			case d.Kind == KindLaneMatch && (lane != d.Lane || lane == ""):
				t.Fatalf("%s of lane %q in a match of lane %q", c.Instance.ID, lane, d.Lane)
			case d.Kind != KindLaneMatch && lane != "":
				t.Fatalf("%s of lane %q serves the baseline's request", c.Instance.ID, lane)
			}
		}
		wants := s.req.Tag.Lane
		if e := ParseTag(string(s.req.TraceLane)); e.Kind != TagNone {
			wants = e.Lane
		}
		if d.Lane != "" && (d.Lane != wants || s.req.ForceBaseline) {
			t.Fatalf("lane %q, the request asks for %q", d.Lane, wants)
		}
		if s.req.ForceBaseline && !reflect.DeepEqual(d.PassOn, s.req.Tag) && d.Kind != KindExternal {
			t.Fatalf("a turned away request goes on with %+v, came with %+v", d.PassOn, s.req.Tag)
		}
	})
}

// TestEveryFallbackIsCounted: a tagged request that the baseline serves is
// counted once, and nothing else is counted so.
func TestEveryFallbackIsCounted(t *testing.T) {
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		d := s.router(t).Decide(s.c, s.req)
		fallbacks, matches := 0, 0
		for _, m := range d.Metrics {
			switch m.Name {
			case MetricFallback:
				fallbacks++
				if m.Value != string(d.Reason) {
					t.Fatalf("counted as %s, the reason is %s", m, d.Reason)
				}
			case MetricMatch:
				matches++
			}
		}
		fell := len(d.Chosen) > 0 && d.Lane != "" && d.Kind != KindLaneMatch
		if fell != (d.Kind == KindFallback || d.Kind == KindDegraded) || fell != (fallbacks == 1) || fallbacks > 1 {
			t.Fatalf("%s of lane %q, %d fallbacks counted", d.Kind, d.Lane, fallbacks)
		}
		if (d.Kind == KindLaneMatch) != (matches == 1) {
			t.Fatalf("%s, %d matches counted", d.Kind, matches)
		}
		if (d.Kind == KindError) != (d.Code != "") || d.Kind == KindError && len(d.Chosen) > 0 {
			t.Fatalf("%s with code %q and %d instances", d.Kind, d.Code, len(d.Chosen))
		}
	})
}

// TestHardConstraintsHold: env, tenant, a required zone, health, draining, this
// proxy itself and refused instances are never relaxed by anything.
func TestHardConstraintsHold(t *testing.T) {
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		d := s.router(t).Decide(s.c, s.req)
		if d.Kind == KindStatic {
			return
		}
		c := s.req.Caller
		for _, k := range d.Chosen {
			in := k.Instance
			switch {
			case s.p.EnvRequired && c.Env != "" && in.Env != c.Env, c.Tenant != "" && in.Tenant != c.Tenant,
				s.p.Zone == ZoneRequired && in.Zone != c.Zone:
				t.Fatalf("%+v is not for caller %+v", in, c)
			case in.drains(), in.Health == Critical, in.Health == Warning && !s.p.AllowWarning:
				t.Fatalf("%+v must get no request", in)
			case c.Self != "" && in.Addr == c.Self:
				t.Fatalf("%+v is this proxy", in)
			case slices.Contains(s.req.Excluded, in.ID):
				t.Fatalf("%+v has just refused a connection", in)
			}
		}
	})
}

// TestSameInputSameDecision: also into used memory, and in any order of the
// registry's answer.
func TestSameInputSameDecision(t *testing.T) {
	var used Decision
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		r := s.router(t)
		first := r.Decide(s.c, s.req)
		want := first.Result("")
		r.DecideInto(&used, s.c, &s.req)
		if diff := cmp.Diff(want, used.Result("")); diff != "" {
			t.Fatalf("into used memory (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(want, first.Result("")); diff != "" {
			t.Fatalf("a later decision has changed an earlier one:\n%s", diff)
		}
		svc := s.c.Service("orders")
		if svc == nil {
			return
		}
		turned := slices.Clone(svc.Instances)
		slices.Reverse(turned)
		again := NewService("orders", turned, svc.Declared)
		again.HasSnapshot, again.ACLFiltered = svc.HasSnapshot, svc.ACLFiltered
		c := NewCatalog(s.c.Trust, nil, s.c.Switches, again)
		c.ClaimsUnknown = s.c.ClaimsUnknown
		d := r.Decide(c, s.req)
		if diff := cmp.Diff(want, d.Result(""), cmpopts.EquateApprox(0, 0.00011)); diff != "" {
			t.Fatalf("in another order (-first +second):\n%s", diff)
		}
	})
}

// TestPickFollowsShares: a counter gives each instance its share, to within two
// requests in a thousand, and never anything that is not chosen.
func TestPickFollowsShares(t *testing.T) {
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		d := s.router(t).Decide(s.c, s.req)
		start := rapid.Uint64().Draw(t, "start")
		if len(d.Chosen) == 0 {
			if got := Pick(&d, start); got != nil {
				t.Fatalf("picked %v out of nothing", got)
			}
			return
		}
		const n = 5000
		got := map[*Instance]int{}
		for i := range uint64(n) {
			got[Pick(&d, start+i)]++
		}
		sum := 0.0
		for _, c := range d.Chosen {
			sum += c.Weight
			if share := float64(got[c.Instance]) / n; math.Abs(share-c.Weight) > 0.002 {
				t.Fatalf("%s got %.4f of the requests, its share is %.4f", c.Instance.ID, share, c.Weight)
			}
			delete(got, c.Instance)
		}
		if math.Abs(sum-1) > 1e-9 || len(got) > 0 {
			t.Fatalf("shares sum to %v; %d picked that were not chosen", sum, len(got))
		}
	})
}

// TestExplainAgrees: the explanation marks exactly what the decision has chosen,
// and gives every other instance a reason.
func TestExplainAgrees(t *testing.T) {
	check(t, func(t *rapid.T) {
		s := genSituation(t)
		r := s.router(t)
		e := r.Explain(s.c, s.req)
		want := r.Decide(s.c, s.req)
		if diff := cmp.Diff(want.Result(""), e.Decision.Result("")); diff != "" {
			t.Fatal(diff)
		}
		chosen := 0
		for _, v := range e.Instances {
			if v.Chosen {
				chosen++
			}
			if v.Chosen == (v.Why != "") || v.Why == "not chosen" {
				t.Fatalf("%s: chosen %v, why %q, in %s", v.Instance.ID, v.Chosen, v.Why, want.Header(nil))
			}
		}
		if want.Kind != KindStatic && chosen != len(want.Chosen) {
			t.Fatalf("%d explained as chosen, %d are", chosen, len(want.Chosen))
		}
		if svc := s.c.Service("orders"); svc != nil && len(e.Instances) != len(svc.Instances) {
			t.Fatalf("%d of %d instances explained", len(e.Instances), len(svc.Instances))
		}
		if want.Message() == "" || want.Kind == KindError && want.Hint() == "" {
			t.Fatalf("no words for %s", want.Header(nil))
		}
	})
}
