package lane

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseName(t *testing.T) {
	for _, good := range []string{"gray", "dev-alice", "a", "0", strings.Repeat("a", 63), "a--b"} {
		if n, err := ParseName(good); err != nil || string(n) != good {
			t.Errorf("%q: %q, %v", good, n, err)
		}
	}
	for given, suggest := range map[string]string{
		"": "", "-": "", "Gray": "gray", "Dev Alice!": "dev-alice", "-a-": "a", "a_b": "a-b", "ä": "", "gräy": "gr-y",
		strings.Repeat("a", 64): strings.Repeat("a", 32), "prod": "dev-prod", "baseline": "dev-baseline", "all": "dev-all", "PROD": "", "a\nb": "a-b",
	} {
		_, err := ParseName(given)
		var bad *NameError
		if !errors.As(err, &bad) || bad.Suggest != suggest || bad.Given != given || !strings.Contains(err.Error(), "lane name") {
			t.Errorf("%q: %v, want the suggestion %q", given, err, suggest)
		}
	}
}

func TestNewRouterNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Policy){
		"mode":            func(p *Policy) { p.Mode = "" },
		"no_match":        func(p *Policy) { p.NoMatch = "random" },
		"degrade_ratio":   func(p *Policy) { p.DegradeRatio = math.NaN() },
		"invalid_tag":     func(p *Policy) { p.InvalidTag = "x" },
		"unhealthy_lane":  func(p *Policy) { p.UnhealthyLane = "x" },
		"zone_mode":       func(p *Policy) { p.Zone = "x" },
		"max_cross":       func(p *Policy) { p.MaxCross = math.Inf(1) },
		"on_empty":        func(p *Policy) { p.OnEmpty = "x" },
		"min_local":       func(p *Policy) { p.MinLocal = -1 },
		"warmup_s":        func(p *Policy) { p.Warmup = -1 },
		"warmup_curve":    func(p *Policy) { p.Curve = "x" },
		"max_stale_s":     func(p *Policy) { p.MaxStale = -time.Second },
		"max_hops":        func(p *Policy) { p.MaxHops = 0 },
		"baseline_static": func(p *Policy) { p.BaselineStatic = map[string][]string{"orders": {""}} },
	} {
		p := DefaultPolicy()
		change(&p)
		r, err := NewRouter(p)
		var bad *PolicyError
		if !errors.As(err, &bad) || bad.Field != field || r != nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := NewRouter(Policy{}); err == nil {
		t.Error("the zero policy is accepted")
	}
	r := mustRouter(t, func(p *Policy) { p.Mode, p.NoMatch, p.UnhealthyLane = Strict, NoMatchProportional, UnhealthyFallback })
	if p := r.Policy(); p.NoMatch != NoMatchFail || p.InvalidTag != InvalidReject || p.UnhealthyLane != UnhealthyError {
		t.Errorf("strict leaves %+v", p)
	}
}

func TestCodes(t *testing.T) {
	for code, want := range map[Code][2]int{
		"": {0, 0}, CodeTagInvalid: {400, 3}, CodeLaneNoMatch: {503, 14}, CodeLaneUnhealthy: {503, 14}, CodeNoBaseline: {503, 14},
		CodeBaselineUnhealthy: {503, 14}, CodeNoInstances: {503, 14}, CodeHardConstraint: {503, 9}, CodeRegistryUnavailable: {503, 14},
		CodeRegistryStale: {503, 14}, CodeZoneCap: {503, 8}, CodeLoopDetected: {508, 9}, CodeUpstreamConnect: {502, 14},
	} {
		if got := [2]int{code.HTTP(), code.GRPC()}; got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
		d := Decision{Kind: KindError, Code: code, Service: "orders", Lane: "gray"}
		if code != "" && (!strings.Contains(d.Message(), " ") || d.Hint() == "") {
			t.Errorf("%s has the message %q and the hint %q", code, d.Message(), d.Hint())
		}
	}
}

// A hard constraint that nobody fits is named with its values.
func TestMessageNamesTheConstraint(t *testing.T) {
	orders := NewService("orders", []Instance{{ID: "b1", Env: "test", Weight: 1, Health: Passing}}, nil)
	orders.HasSnapshot = true
	c := NewCatalog(Trust{State: Fresh}, nil, Switches{}, orders)
	for _, x := range []struct {
		p    Policy
		c    Caller
		want string
	}{
		{Policy{EnvRequired: true}, Caller{Env: "prdo"}, `no instance of orders is in the caller's env "prdo"`},
		{Policy{EnvRequired: true}, Caller{Env: "test", Tenant: "a\nb", Zone: "eu"}, `no instance of orders is in the caller's env "test", tenant "a?b"`},
		{Policy{Zone: ZoneRequired}, Caller{Zone: "eu"}, `no instance of orders is in the caller's zone "eu"`},
	} {
		p := DefaultPolicy()
		p.EnvRequired = x.p.EnvRequired
		if x.p.Zone != "" {
			p.Zone = x.p.Zone
		}
		r, err := NewRouter(p)
		if err != nil {
			t.Fatal(err)
		}
		d := r.Decide(c, Request{Service: "orders", Caller: x.c})
		if d.Message() != x.want {
			t.Errorf("%s, want %s", d.Message(), x.want)
		}
		if d := r.Decide(c, Request{Service: "orders", Caller: Caller{Env: "test"}}); x.p.Zone == "" && (d.Within != "" || d.Kind != KindBaseline) {
			t.Errorf("%+v", d)
		}
	}
}

// Where a switch leaves only one group, an error that comes of it says so, and one that
// does not come of it says nothing of it.
func TestErrorsNameTheActiveGroup(t *testing.T) {
	in := func(id, group string, h Health) Instance {
		return Instance{ID: id, Group: group, Health: h, Weight: 1}
	}
	for name, tc := range map[string]struct {
		group string
		in    []Instance
		code  Code
		want  string // in the message; empty: no word about a group
	}{
		"nobody in it":   {"blu", []Instance{in("a", "blue", Passing)}, CodeNoBaseline, "its group blu is switched on, and no instance is in it"},
		"hostile":        {"b\x1b[2J", []Instance{in("a", "blue", Passing)}, CodeNoBaseline, "its group b?[2J is switched on"},
		"sick":           {"blue", []Instance{in("a", "blue", Critical), in("b", "green", Passing)}, CodeBaselineUnhealthy, "its group blue is switched on"},
		"none is named":  {"blu", []Instance{in("a", "", Critical)}, CodeBaselineUnhealthy, ""},
		"nothing is set": {"", []Instance{in("a", "blue", Critical)}, CodeBaselineUnhealthy, ""},
		"it serves":      {"blue", []Instance{in("a", "blue", Passing)}, "", ""},
	} {
		c := NewCatalog(Trust{}, nil, Switches{ActiveGroup: map[string]string{"orders": tc.group}},
			NewService("orders", tc.in, nil))
		d := mustRouter(t, nil).Decide(c, Request{Service: "orders", Tag: ParseTag("")})
		said := d.Message() + " / " + d.Hint()
		if d.Code != tc.code || !strings.Contains(said, tc.want) || strings.Contains(said, "switch") != (tc.want != "") {
			t.Errorf("%s: %s %s", name, d.Code, said)
		}
	}
}

func TestBucket(t *testing.T) {
	for _, v := range []struct {
		salt, key string
		want      int
	}{
		{"gray", "u-1", 8494}, {"gray", "u-4", 438}, {"gray", "u-7", 5451}, {"gray", "buyer-123", 1905}, {"rule-5pct", "u-4", 9901},
	} {
		if got := Bucket(v.salt, v.key); got != v.want {
			t.Errorf("Bucket(%q, %q) = %d, want %d", v.salt, v.key, got, v.want)
		}
	}
	for _, v := range []struct {
		key   string
		share float64
		want  bool
	}{
		{"u-4", 0.0438, false}, {"u-4", 0.0439, true}, {"u-4", 0, false}, {"u-1", 1, true}, {"", 1, false},
	} {
		if got := InShare("gray", v.key, v.share); got != v.want {
			t.Errorf("InShare(%q, %v) = %v", v.key, v.share, got)
		}
	}
	if k := (&Request{TraceID: "t"}).Key(); k != "t" {
		t.Errorf("key %q", k)
	}
	if k := (&Request{TraceID: "t", StickyKey: "s"}).Key(); k != "s" {
		t.Errorf("key %q", k)
	}
}

func TestPickOddDecisions(t *testing.T) {
	a, b := &Instance{ID: "a"}, &Instance{ID: "b"}
	for name, tc := range map[string]struct {
		chosen []Candidate
		want   string
	}{
		"no weights at all":         {[]Candidate{{a, 0}, {b, 0}}, "a"},
		"one without a weight":      {[]Candidate{{a, 0}, {b, 1}}, "b"},
		"shares that sum to little": {[]Candidate{{a, 0.1}, {b, 0.1}}, "ab"},
		"not a number":              {[]Candidate{{a, math.NaN()}, {b, 0.5}}, "ab"},
	} {
		d := Decision{Chosen: tc.chosen}
		for n := range uint64(100) {
			if got := Pick(&d, n*0x123456789abcdef); got == nil || !strings.Contains(tc.want, got.ID) {
				t.Errorf("%s: picked %v, want one of %q", name, got, tc.want)
			}
			if PickByKey(&d, "k") == nil {
				t.Errorf("%s: nothing for a key", name)
			}
		}
	}
	if Pick(&Decision{}, 1) != nil || PickByKey(&Decision{}, "k") != nil {
		t.Error("something was picked out of nothing")
	}
}

// A key stays with its instance as long as that is there.
func TestPickByKey(t *testing.T) {
	in := []Instance{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "d"}}
	var d, less Decision
	for i := range in {
		d.Chosen = append(d.Chosen, Candidate{&in[i], 0.25})
	}
	less.Chosen = slices.Clone(d.Chosen[:3])
	got := map[string]int{}
	for i := range 4000 {
		key := "u-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		before, after := PickByKey(&d, key), PickByKey(&less, key)
		got[before.ID]++
		if before.ID != "d" && before != after {
			t.Fatalf("key %q moved from %s to %s", key, before.ID, after.ID)
		}
	}
	for id, n := range got {
		if n < 800 || n > 1200 {
			t.Errorf("%s got %d of 4000 keys", id, n)
		}
	}
}

func TestDecisionHeader(t *testing.T) {
	hostile := &Instance{ID: "x; code=E\r\nSet-Cookie: a,\"ä"}
	for _, tc := range []struct {
		d    Decision
		in   *Instance
		want string
	}{
		{Decision{Kind: KindLaneMatch, Reason: ReasonLaneMatch, Lane: "dev-alice"}, &Instance{ID: "g1"}, "LANE_MATCH; lane=dev-alice; instance=g1"},
		{Decision{Kind: KindLaneMatch, Reason: ReasonLaneMatch, Lane: "dev-alice", RuleRev: "42"}, nil, "LANE_MATCH; lane=dev-alice; rev=42"},
		{Decision{Kind: KindBaseline, Reason: ReasonUntagged}, &Instance{ID: "b1"}, "BASELINE; instance=b1"},
		{Decision{Kind: KindBaseline, Reason: ReasonExplicitBaseline}, &Instance{ID: "b1"}, "BASELINE; reason=explicit_baseline; instance=b1"},
		{Decision{Kind: KindFallback, Reason: ReasonLaneAbsent, Lane: "a"}, &Instance{ID: "b1"}, "FALLBACK_BASELINE; lane=a; reason=lane_absent; instance=b1"},
		{Decision{Kind: KindError, Reason: ReasonNoInstances, Code: CodeNoInstances}, nil, "ERROR; reason=service_has_no_instances; code=E_NO_INSTANCES"},
		{Decision{Kind: KindLaneMatch, Lane: "a"}, hostile, "LANE_MATCH; lane=a; instance=x__code=E__Set-Cookie:_a___"},
	} {
		if got := tc.d.Header(tc.in); got != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
}

func TestWords(t *testing.T) {
	for want, d := range map[string]Decision{
		"orders is served by lane gray":                                                                                  {Kind: KindLaneMatch, Service: "orders", Lane: "gray"},
		"orders is served by the baseline: the request has no tag":                                                       {Kind: KindBaseline, Reason: ReasonUntagged, Service: "orders"},
		"orders is served by the baseline: a guard sent it on":                                                           {Kind: KindBaseline, Reason: ReasonForced, Service: "orders"},
		"orders is served by the baseline instead of lane gray: the lane has no instance":                                {Kind: KindFallback, Reason: ReasonLaneAbsent, Service: "orders", Lane: "gray"},
		"orders is served by the baseline instead of lane gray: the catalogue has no such lane":                          {Kind: KindFallback, Reason: ReasonLaneUnknown, Service: "orders", Lane: "gray"},
		"the service is served by the baseline: the kill switch is on":                                                   {Kind: KindKillSwitch},
		"the tag \"Bad?\" is no lane name":                                                                               {Kind: KindError, Code: CodeTagInvalid, PassOn: Tag{Kind: TagInvalid, Raw: "Bad\x1b"}},
		"lane gray has no instance of orders (the lane's instances drain), and the policy forbids the baseline":          {Kind: KindError, Code: CodeLaneNoMatch, Reason: ReasonLaneDrained, Service: "orders", Lane: "gray"},
		"lane gray holds orders, but no instance of it is registered here":                                               {Kind: KindError, Code: CodeLaneUnhealthy, Reason: ReasonLaneDeclaredAbsent, Service: "orders", Lane: "gray"},
		"orders is served by the baseline instead of lane gray: the lane's instances are in another env, tenant or zone": {Kind: KindFallback, Reason: ReasonLaneFilteredHard, Service: "orders", Lane: "gray"},
		"the registry shows only a part of orders: its ACL cut the answer":                                               {Kind: KindError, Code: CodeRegistryUnavailable, Reason: ReasonACLFiltered, Service: "orders"},
		"the host is no service: passed through without a tag":                                                           {Kind: KindExternal},
		"orders is served by the baseline instead of lane gray: the policy sends this share of requests there":           {Kind: KindDegraded, Reason: ReasonProportional, Service: "orders", Lane: "gray"},
		"orders is served by a configured baseline address: the registry cannot be asked":                                {Kind: KindStatic, Service: "orders"},
		"the request has passed too many proxies: it runs in a circle":                                                   {Kind: KindError, Code: CodeLoopDetected, Reason: ReasonMaxHops},
		"orders is served by the baseline: the tag is no lane name and was dropped":                                      {Kind: KindBaseline, Reason: ReasonTagInvalidDropped, Service: "orders"},
		"orders is served by the baseline instead of lane gray: the lane has no healthy instance":                        {Kind: KindFallback, Reason: ReasonLaneUnhealthy, Service: "orders", Lane: "gray"},
	} {
		if got := d.Message(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	d := Decision{Kind: KindError, Code: CodeTagInvalid, PassOn: Tag{Raw: "Dev Alice"}}
	if !strings.Contains(d.Hint(), `"dev-alice"`) {
		t.Errorf("hint %q", d.Hint())
	}
	d = Decision{Kind: KindFallback, Reason: ReasonLaneAbsent, Service: "orders", Lane: "gray"}
	if d.Hint() != "to serve it from the lane: lane up gray -s orders=PORT" {
		t.Errorf("hint %q", d.Hint())
	}
	if d := (Decision{Kind: KindLaneMatch}); d.Hint() != "" {
		t.Errorf("a match has the hint %q", d.Hint())
	}
}

func TestServiceOptions(t *testing.T) {
	in := []Instance{{ID: "a", MetaLane: "main", Weight: 1}, {ID: "b", MetaLane: "gray", MetaTag: "main", Weight: 1}}
	c := NewCatalog(Trust{}, nil, Switches{}, NewService("orders", in, nil, WithBaselineNames("main"), WithMetaKeys("tag", "lane")))
	d := mustRouter(t, nil).Decide(c, Request{Service: "orders"})
	if len(d.Chosen) != 2 || !slices.Equal(d.Warnings, []string{"meta_conflict:b"}) {
		t.Errorf("chosen %v, warnings %v", d.Chosen, d.Warnings)
	}
	plain := NewCatalog(Trust{}, nil, Switches{}, NewService("orders", in, nil))
	if d := mustRouter(t, nil).Decide(plain, Request{Service: "orders"}); d.Code != CodeNoBaseline {
		t.Errorf("without the options: %s", d.Header(nil))
	}
}
