package lane

import (
	"strings"
	"testing"
)

// edges are more inputs at the borders of the table, in the snapshot form. want
// is the kind, reason, code, and the chosen ids; counts and warnings where they
// matter.
var edges = []struct {
	name, input, want string
	has               []string // metrics and warnings that must be there
	not               []string // and those that must not
}{
	{"a tag of 63 characters", `{"tag":"` + strings.Repeat("a", 63) + `","instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_absent [b]", nil, nil},
	{"a tag of 64 characters", `{"tag":"` + strings.Repeat("a", 64) + `","instances":[{"id":"b"}]}`, "BASELINE tag_invalid_dropped [b]", []string{"lane_tag_rejected_total{reason=invalid}"}, nil},
	{"a tag that ends with a hyphen", `{"tag":"gray-","instances":[{"id":"b"},{"id":"g","lane":"gray"}]}`, "BASELINE tag_invalid_dropped [b]", nil, nil},
	{"a tag with letters of another script", `{"tag":"gräy","cfg":{"invalid_tag":"reject"},"instances":[{"id":"b"}]}`, "ERROR tag_invalid E_LANE_TAG_INVALID []", nil, nil},
	{"a tag with a no-break space", `{"tag":"\u00a0gray","cfg":{"invalid_tag":"reject"},"instances":[{"id":"b"}]}`, "ERROR tag_invalid E_LANE_TAG_INVALID []", nil, nil},
	{"a tag in spaces and tabs", `{"tag":" \tgray\t ","instances":[{"id":"b"},{"id":"g","lane":" gray "}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"a reserved name is only a name on the way", `{"tag":"prod","instances":[{"id":"b"},{"id":"p","lane":"prod"}]}`, "LANE_MATCH lane_match [p]", nil, nil},
	{"an alias of the baseline", `{"tag":"base","instances":[{"id":"b","lane":"stable"},{"id":"g","lane":"gray"}]}`, "BASELINE explicit_baseline [b]", nil, nil},
	{"metadata of the baseline's name on a laptop", `{"instances":[{"id":"b"},{"id":"l","lane":"baseline","local":true}]}`, "BASELINE untagged [b]", []string{"quarantined:l"}, nil},
	{"an invalid lane hides no valid older key", `{"tag":"v2","instances":[{"id":"b"},{"id":"q","lane":"Bad","tag":"v2"}]}`, "FALLBACK_BASELINE lane_absent [b]", []string{"quarantined:q", "meta_conflict:q"}, nil},
	{"the older key first, where configured", `{"tag":"v2","cfg":{"meta_keys":["tag","lane"]},"instances":[{"id":"c","lane":"gray","tag":"v2"}]}`, "LANE_MATCH lane_match [c]", []string{"meta_conflict:c"}, nil},
	{"the older key alone", `{"cfg":{"meta_keys":["tag"]},"instances":[{"id":"c","lane":"gray"}]}`, "BASELINE untagged [c]", nil, []string{"meta_conflict:c"}},
	{"only quarantined instances are registered", `{"instances":[{"id":"q","lane":"Bad"}]}`, "ERROR no_baseline_registered E_NO_BASELINE []", []string{"quarantined:q"}, nil},
	{"quarantined elsewhere satisfies no hard constraint here", `{"caller":{"env":"test"},"instances":[{"id":"q","lane":"Bad","env":"prod"}]}`, "ERROR no_instance_satisfies_env_tenant_zone E_HARD_CONSTRAINT []", nil, []string{"quarantined:q"}},
	{"negative weight drains", `{"tag":"gray","instances":[{"id":"b"},{"id":"g","lane":"gray","weight":-3}]}`, "FALLBACK_BASELINE lane_drained [b]", nil, nil},
	{"a draining critical instance is drained, not unhealthy", `{"tag":"gray","instances":[{"id":"b"},{"id":"g","lane":"gray","draining":true,"health":"critical"}]}`, "FALLBACK_BASELINE lane_drained [b]", nil, nil},
	{"one drains, one is critical: unhealthy", `{"tag":"gray","instances":[{"id":"b"},{"id":"g","lane":"gray","draining":true},{"id":"h","lane":"gray","health":"critical"}]}`, "ERROR lane_registered_unhealthy E_LANE_UNHEALTHY []", nil, nil},
	{"declared and draining is drained", `{"tag":"gray","declared":["gray"],"instances":[{"id":"b"},{"id":"g","lane":"gray","draining":true}]}`, "FALLBACK_BASELINE lane_drained [b]", nil, nil},
	{"declared, absent, with the opt-in", `{"tag":"gray","declared":["gray"],"cfg":{"unhealthy_lane":"fallback"},"instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_unhealthy [b]", []string{"lane_fallback_total{reason=lane_unhealthy}"}, nil},
	{"strict takes the opt-in away", `{"tag":"gray","declared":["gray"],"cfg":{"unhealthy_lane":"fallback","mode":"strict"},"instances":[{"id":"b"}]}`, "ERROR lane_declared_but_absent E_LANE_UNHEALTHY []", nil, nil},
	{"another lane's declaration is not ours", `{"tag":"gray","declared":["dev-bob"],"instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_absent [b]", nil, nil},
	{"maintenance is critical", `{"instances":[{"id":"b","health":"maintenance"}]}`, "ERROR no_healthy_baseline E_BASELINE_UNHEALTHY []", nil, nil},
	{"all of the baseline drains", `{"instances":[{"id":"b","draining":true}]}`, "ERROR no_healthy_baseline E_BASELINE_UNHEALTHY []", nil, nil},
	{"a fallback that finds no baseline is no fallback", `{"tag":"gray","instances":[{"id":"z","lane":"dev-bob"}]}`, "ERROR no_baseline_registered E_NO_BASELINE []", nil, []string{"lane_fallback_total{reason=lane_absent}"}},
	{"the kill switch covers an invalid tag", `{"tag":"Bad!","cfg":{"kill_switch":true,"invalid_tag":"reject"},"instances":[{"id":"b"}]}`, "KILL_SWITCH_BASELINE kill_switch [b]", []string{"lane_kill_switch_total"}, []string{"lane_fallback_total{reason=lane_absent}"}},
	{"the kill switch leaves the baseline's name alone", `{"tag":"baseline","cfg":{"kill_switch":true},"instances":[{"id":"b"}]}`, "BASELINE explicit_baseline [b]", nil, []string{"lane_kill_switch_total"}},
	{"the kill switch leaves no tag alone", `{"cfg":{"kill_switch":true},"instances":[{"id":"b"}]}`, "BASELINE untagged [b]", nil, []string{"lane_kill_switch_total"}},
	{"a killed lane that the trace knows", `{"trace_lane":"gray","cfg":{"killed_lanes":["gray"]},"instances":[{"id":"b"},{"id":"g","lane":"gray"}]}`, "KILL_SWITCH_BASELINE kill_switch [b]", []string{"lane_tag_missing_total{reason=trace_mapped}"}, nil},
	{"killed without a baseline", `{"tag":"gray","cfg":{"killed_lanes":["gray"]},"instances":[{"id":"g","lane":"gray"}]}`, "ERROR no_baseline_registered E_NO_BASELINE []", []string{"lane_kill_switch_total"}, nil},
	{"the trace's lane over an invalid tag", `{"tag":"Bad!","trace_lane":"gray","cfg":{"invalid_tag":"reject"},"instances":[{"id":"g","lane":"gray"}]}`, "LANE_MATCH lane_match [g]", []string{"tag_conflict:Bad!!=gray", "lane_tag_conflict_total"}, []string{"lane_tag_rejected_total{reason=invalid}"}},
	{"the trace's lane over the baseline's name", `{"tag":"baseline","trace_lane":"gray","instances":[{"id":"b"},{"id":"g","lane":"gray"}]}`, "LANE_MATCH lane_match [g]", []string{"tag_conflict:baseline!=gray"}, nil},
	{"two names of the baseline agree", `{"tag":"stable","trace_lane":"baseline","instances":[{"id":"b"}]}`, "BASELINE explicit_baseline [b]", nil, []string{"lane_tag_conflict_total"}},
	{"hops under the limit", `{"hops":15,"instances":[{"id":"b"}]}`, "BASELINE untagged [b]", nil, nil},
	{"an external host is asked for nothing else", `{"host_class":"external","hops":99,"tag":"Bad!","cfg":{"mode":"strict"},"registry":{"state":"unreachable"},"instances":[]}`, "PASSTHROUGH_EXTERNAL external_host []", nil, []string{"lane_registry_stale_total"}},
	{"stale without a snapshot, tagged, with a static baseline", `{"tag":"gray","cfg":{"baseline_static":["1.2.3.4:80"]},"registry":{"state":"stale","has_snapshot":false},"instances":[]}`, "ERROR registry_stale E_REGISTRY_UNAVAILABLE []", nil, nil},
	{"static, for the baseline by name", `{"tag":"baseline","cfg":{"baseline_static":["1.2.3.4:80"]},"registry":{"state":"stale","has_snapshot":false},"instances":[]}`, "BASELINE_STATIC registry_stale [1.2.3.4:80]", nil, nil},
	{"static is not for a fresh registry", `{"cfg":{"baseline_static":["1.2.3.4:80"]},"registry":{"has_snapshot":false},"instances":[]}`, "ERROR service_has_no_instances E_NO_INSTANCES []", nil, nil},
	{"an age of exactly the limit is trusted", `{"tag":"gray","registry":{"state":"stale","age_s":300},"instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_absent [b]", []string{"registry_stale_age_300s"}, nil},
	{"a second more is not", `{"tag":"gray","registry":{"state":"stale","age_s":301},"instances":[{"id":"b"}]}`, "ERROR absence_not_trusted E_REGISTRY_STALE []", nil, nil},
	{"nor does draining prove an absence then", `{"tag":"gray","registry":{"state":"stale","age_s":301},"instances":[{"id":"b"},{"id":"g","lane":"gray","draining":true}]}`, "ERROR absence_not_trusted E_REGISTRY_STALE []", nil, nil},
	{"the age of a fresh registry does not count", `{"tag":"gray","registry":{"age_s":9000},"instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_absent [b]", nil, []string{"lane_registry_stale_total"}},
	{"an absurd age", `{"tag":"gray","registry":{"state":"unreachable","age_s":1e300},"instances":[{"id":"b"}]}`, "ERROR absence_not_trusted E_REGISTRY_STALE []", nil, nil},
	{"a caller without an env sees all", `{"tag":"gray","instances":[{"id":"b","env":"test"},{"id":"g","lane":"gray","env":"prod"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"an env that need not match", `{"tag":"gray","caller":{"env":"test"},"cfg":{"env_required":false},"instances":[{"id":"g","lane":"gray","env":"prod"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"tenant and env together", `{"caller":{"env":"test","tenant":"t1"},"instances":[{"id":"a","env":"test"},{"id":"b","tenant":"t1"},{"id":"c","env":"test","tenant":"t1"}]}`, "BASELINE untagged [c]", nil, nil},
	{"a zone required of a caller without one", `{"cfg":{"zone_mode":"required"},"instances":[{"id":"a","zone":"z1"},{"id":"b"}]}`, "BASELINE untagged [b]", nil, nil},
	{"a zone required that nobody has", `{"caller":{"zone":"z9"},"cfg":{"zone_mode":"required"},"instances":[{"id":"a","zone":"z1"},{"id":"b"}]}`, "ERROR no_instance_satisfies_env_tenant_zone E_HARD_CONSTRAINT []", nil, nil},
	{"zones off", `{"caller":{"zone":"z1"},"cfg":{"zone_mode":"off"},"instances":[{"id":"a","zone":"z1"},{"id":"b","zone":"z2"}]}`, "BASELINE untagged [a b]", nil, nil},
	{"no candidate has a zone", `{"caller":{"zone":"z1"},"cfg":{"on_empty":"fail"},"instances":[{"id":"a"},{"id":"b"}]}`, "BASELINE untagged [a b]", nil, []string{"lane_cross_zone_denied_total"}},
	{"no local candidate, and none wanted elsewhere", `{"caller":{"zone":"z1"},"cfg":{"on_empty":"fail"},"instances":[{"id":"a","zone":"z2"},{"id":"b"}]}`, "ERROR cross_zone_not_allowed E_ZONE_CAP []", []string{"lane_cross_zone_denied_total"}, nil},
	{"the cap allows the first of many", `{"caller":{"zone":"z1"},"cfg":{"on_empty":"cap"},"counters":{"cross":29,"total":99},"instances":[{"id":"a","zone":"z2"}]}`, "BASELINE untagged [a]", []string{"lane_cross_zone_total{reason=local_empty}"}, nil},
	{"an error behind the zone counts no match", `{"tag":"gray","caller":{"zone":"z1"},"cfg":{"on_empty":"fail"},"instances":[{"id":"g","lane":"gray","zone":"z2"}]}`, "ERROR cross_zone_not_allowed E_ZONE_CAP []", nil, []string{"lane_match_total"}},
	{"a version lost on the way to an error is not counted", `{"version":"v9","caller":{"zone":"z1"},"cfg":{"on_empty":"fail"},"instances":[{"id":"b","zone":"z2"}]}`, "ERROR cross_zone_not_allowed E_ZONE_CAP []", nil, []string{"lane_version_fallback_total"}},
	{"the version that is there", `{"version":"v2","instances":[{"id":"a","version":"v1"},{"id":"b","version":"v2"}]}`, "BASELINE untagged [b]", nil, []string{"lane_version_fallback_total"}},
	{"the caller itself and this proxy", `{"self_endpoint":"h:1","caller":{"instance_id":"a"},"instances":[{"id":"a","addr":"h:2"},{"id":"b","addr":"h:1"}]}`, "BASELINE untagged [a]", nil, nil},
	{"an active group nobody names", `{"cfg":{"active_group":"green"},"instances":[{"id":"a"},{"id":"b"}]}`, "BASELINE untagged [a b]", nil, nil},
	{"an active group that has nobody", `{"cfg":{"active_group":"green"},"instances":[{"id":"a","group":"blue"},{"id":"b"}]}`, "ERROR no_baseline_registered E_NO_BASELINE []", nil, nil},
	{"an active group is no matter of lanes", `{"tag":"gray","cfg":{"active_group":"green"},"instances":[{"id":"a","group":"green"},{"id":"g","lane":"gray","group":"blue"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"a fallback goes to the active group", `{"tag":"gray","cfg":{"active_group":"green"},"instances":[{"id":"a","group":"green"},{"id":"b","group":"blue"}]}`, "FALLBACK_BASELINE lane_absent [a]", nil, nil},
	{"all of a ratio, but an absent lane has no key", `{"tag":"gray","cfg":{"no_match":"proportional","degrade_ratio":1},"instances":[{"id":"b"}]}`, "ERROR lane_absent E_LANE_NO_MATCH []", nil, nil},
	{"the trace id is a key", `{"tag":"gray","trace_id":"t","cfg":{"no_match":"proportional","degrade_ratio":1},"instances":[{"id":"b"}]}`, "DEGRADED_BASELINE proportional [b]", nil, nil},
	{"a ratio of nothing", `{"tag":"gray","trace_id":"t","cfg":{"no_match":"proportional"},"instances":[{"id":"b"},{"id":"g","lane":"gray"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"a degrade without a healthy baseline stays in the lane", `{"tag":"gray","trace_id":"t","cfg":{"no_match":"proportional","degrade_ratio":1},"instances":[{"id":"b","health":"critical"},{"id":"g","lane":"gray"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"an empty catalogue knows no lane", `{"tag":"gray","cfg":{"known_lanes":[]},"instances":[{"id":"b"}]}`, "FALLBACK_BASELINE lane_unknown [b]", nil, nil},
	{"a lane that is not in the catalogue still matches", `{"tag":"gray","cfg":{"known_lanes":[]},"instances":[{"id":"g","lane":"gray"}]}`, "LANE_MATCH lane_match [g]", nil, nil},
	{"negative uptime of one", `{"cfg":{"warmup_s":60},"instances":[{"id":"a","uptime_s":-5},{"id":"b"}]}`, "BASELINE untagged [a b]", nil, []string{"all_weights_zero_equalised"}},
	{"one cold candidate is always it", `{"cfg":{"warmup_s":60},"instances":[{"id":"a","uptime_s":0}]}`, "BASELINE untagged [a]", nil, nil},
	{"the same id on two nodes", `{"instances":[{"id":"a","addr":"h:1"},{"id":"a","addr":"h:2"}]}`, "BASELINE untagged [a a]", nil, nil},
	{"no instances at all", `{"instances":[]}`, "ERROR service_has_no_instances E_NO_INSTANCES []", nil, nil},
	{"the ACL comes before the absence of all", `{"registry":{"acl_filtered":true},"instances":[]}`, "ERROR acl_filtered E_REGISTRY_UNAVAILABLE []", nil, nil},
}

func TestEdges(t *testing.T) {
	for _, tc := range edges {
		t.Run(tc.name, func(t *testing.T) {
			s, err := ParseSnapshots(strings.NewReader(tc.input))
			if err != nil {
				t.Fatal(err)
			}
			got := s[0].Decide()
			word := string(got.Kind) + " " + string(got.Reason)
			if got.Code != nil {
				word += " " + string(*got.Code)
			}
			word += " [" + strings.Join(got.Chosen, " ") + "]"
			if word != tc.want {
				t.Errorf("got %s, want %s", word, tc.want)
			}
			seen := strings.Join(append(append([]string{""}, got.Metrics...), got.Warnings...), "\n") + "\n"
			for _, m := range tc.has {
				if !strings.Contains(seen, "\n"+m+"\n") {
					t.Errorf("%s is missing in %q", m, seen)
				}
			}
			for _, m := range tc.not {
				if strings.Contains(seen, "\n"+m+"\n") {
					t.Errorf("%s must not be in %q", m, seen)
				}
			}
		})
	}
}

// What a kill switch has turned away is named, if it has a name.
func TestKilledIsNamed(t *testing.T) {
	instances := []Instance{{ID: "b1", Weight: 1}, {ID: "g1", MetaLane: "gray", Weight: 1}}
	for _, tc := range []struct {
		sw       Switches
		tag      string
		named    Name
		decision string
	}{
		{Switches{KilledLanes: []Name{"gray"}}, "gray", "gray", "KILL_SWITCH_BASELINE; lane=gray; reason=kill_switch; instance=b1"},
		{Switches{KillAll: true}, "dev-bob", "dev-bob", "KILL_SWITCH_BASELINE; lane=dev-bob; reason=kill_switch; instance=b1"},
		{Switches{KillAll: true}, "Bad!", "", "KILL_SWITCH_BASELINE; reason=kill_switch; instance=b1"},
		{Switches{KillAll: true}, "", "", "BASELINE; instance=b1"},
		{Switches{KillAll: true}, "baseline", "", "BASELINE; reason=explicit_baseline; instance=b1"},
		{Switches{KilledLanes: []Name{"dev-bob"}}, "gray", "gray", "LANE_MATCH; lane=gray; instance=g1"},
	} {
		c := NewCatalog(Trust{}, nil, tc.sw, NewService("orders", instances, nil))
		d := mustRouter(t, nil).Decide(c, Request{Service: "orders", Tag: ParseTag(tc.tag)})
		if got := d.Header(Pick(&d, 0)); got != tc.decision || d.Named() != tc.named {
			t.Errorf("%q: %s, named %q, want %s", tc.tag, got, d.Named(), tc.decision)
		}
	}
}

func TestExcluded(t *testing.T) {
	instances := []Instance{{ID: "b1", Weight: 1}, {ID: "b2", Weight: 1}, {ID: "g1", MetaLane: "gray", Weight: 1}, {ID: "g2", MetaLane: "gray", Weight: 1}}
	c := NewCatalog(Trust{}, nil, Switches{}, NewService("orders", instances, nil))
	degrade := func(p *Policy) { p.NoMatch, p.DegradeRatio = NoMatchProportional, 1 }
	for _, tc := range []struct {
		name     string
		policy   func(*Policy)
		tag      string
		excluded []string
		want     string
	}{
		{"one of the lane", nil, "gray", []string{"g1"}, "LANE_MATCH; lane=gray; instance=g2"},
		{"all of the lane", nil, "gray", []string{"g1", "g2"}, "ERROR; lane=gray; reason=lane_registered_unhealthy; code=E_LANE_UNHEALTHY"},
		{"one of the baseline", nil, "", []string{"b1"}, "BASELINE; instance=b2"},
		{"all of the baseline", nil, "", []string{"b2", "b1"}, "ERROR; reason=no_healthy_baseline; code=E_BASELINE_UNHEALTHY"},
		{"all of the baseline of a fallback", nil, "dev-bob", []string{"b2", "b1"}, "ERROR; lane=dev-bob; reason=no_healthy_baseline; code=E_BASELINE_UNHEALTHY"},
		{"somebody else", nil, "gray", []string{"b1", "x"}, "LANE_MATCH; lane=gray; instance=g1"},
		{"a degraded request does not go to the lane instead", degrade, "gray", []string{"b1", "b2"}, "ERROR; lane=gray; reason=no_healthy_baseline; code=E_BASELINE_UNHEALTHY"},
		{"a degraded request tries the other", degrade, "gray", []string{"b1"}, "DEGRADED_BASELINE; lane=gray; reason=proportional; instance=b2"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := mustRouter(t, tc.policy).Decide(c, Request{Service: "orders", Tag: ParseTag(tc.tag), TraceID: "t", Excluded: tc.excluded})
			if got := d.Header(Pick(&d, 0)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestForceBaseline(t *testing.T) {
	instances := []Instance{{ID: "b1", Weight: 1}, {ID: "g1", MetaLane: "gray", Weight: 1}}
	c := NewCatalog(Trust{}, nil, Switches{KillAll: true}, NewService("orders", instances, []Name{"gray"}))
	r := mustRouter(t, func(p *Policy) { p.Mode, p.StampedEntry = Strict, true })
	for _, tag := range []Tag{ParseTag("gray"), ParseTag("Bad!"), ParseTag("baseline"), {Kind: TagInvalid, Raw: "a, b", Conflict: []string{"a", "b"}}, {}} {
		req := Request{Service: "orders", Tag: tag, TraceLane: "gray", ForceBaseline: true}
		d := r.Decide(c, req)
		want := "BASELINE; reason=forced_baseline; instance=b1"
		if tag.Kind == TagNone {
			want = "BASELINE; instance=b1"
		}
		if got := d.Header(Pick(&d, 7)); got != want || d.PassOn.Raw != tag.Raw || d.PassOn.Kind != tag.Kind || len(d.Metrics)+len(d.Warnings) > 0 {
			t.Errorf("tag %+v: %s, passes on %+v, counts %v, warns %v", tag, got, d.PassOn, d.Metrics, d.Warnings)
		}
		req.Hops = 16
		if d := r.Decide(c, req); d.Code != CodeLoopDetected {
			t.Errorf("tag %+v: a loop of guards is not seen: %s", tag, d.Header(nil))
		}
	}
}

func TestPassOn(t *testing.T) {
	c := NewCatalog(Trust{}, nil, Switches{KilledLanes: []Name{"killed"}}, NewService("orders", []Instance{{ID: "b1", Weight: 1}}, nil))
	r := mustRouter(t, nil)
	for _, tc := range []struct{ tag, trace, want string }{
		{"gray", "", "gray"},
		{" gray", "", " gray"},
		{"", "gray", "gray"},
		{"blue", "gray", "gray"},
		{"killed", "", "killed"},
		{"baseline", "", "baseline"},
		{"Bad!", "", ""},
		{"", "", ""},
	} {
		d := r.Decide(c, Request{Service: "orders", Tag: ParseTag(tc.tag), TraceLane: Name(tc.trace)})
		if d.PassOn.Raw != tc.want {
			t.Errorf("tag %q, trace %q: passes on %q, want %q", tc.tag, tc.trace, d.PassOn.Raw, tc.want)
		}
	}
}

func TestCarrierConflictIsCounted(t *testing.T) {
	carriers := DefaultCarriers()
	tag := carriers.Read(headerMap{"X-Lane-Tag": {"gray"}, "Baggage": {"lane=blue\x1b[31m"}})
	d := mustRouter(t, nil).Decide(fleetCatalog(10), Request{Service: "orders", Tag: tag})
	got := d.Result("")
	if got.Kind != KindLaneMatch || len(got.Metrics) != 2 || len(got.Warnings) != 1 || got.Warnings[0] != "tag_conflict:blue?[31m in baggage!=gray in x-lane-tag" {
		t.Errorf("%+v", got)
	}
}

// A catalog that nobody has made, a service that is a literal, and nothing at all
// have decisions too.
func TestUnmadeCatalogs(t *testing.T) {
	r := mustRouter(t, nil)
	if d := r.Decide(nil, Request{Service: "orders"}); d.Code != CodeNoInstances {
		t.Errorf("nil catalog: %s", d.Header(nil))
	}
	if d := r.Decide(&Catalog{}, Request{}); d.Code != CodeNoInstances {
		t.Errorf("empty catalog: %s", d.Header(nil))
	}
	if e := r.Explain(nil, Request{Service: "orders"}); e.Decision.Code != CodeNoInstances || len(e.Instances) > 0 {
		t.Errorf("nil catalog explained: %+v", e)
	}
	literal := &Service{Name: "orders", HasSnapshot: true, Instances: []Instance{{ID: "b1", Weight: 1}, {ID: "g1", MetaLane: "gray", Weight: 1}}}
	d := r.Decide(NewCatalog(Trust{}, nil, Switches{}, literal), Request{Service: "orders", Tag: ParseTag("gray")})
	if got := d.Header(Pick(&d, 1)); got != "LANE_MATCH; lane=gray; instance=g1" {
		t.Errorf("literal service: %s", got)
	}
	unheard := NewCatalog(Trust{State: Unreachable}, nil, Switches{}, &Service{Name: "orders"})
	if d := r.Decide(unheard, Request{Service: "orders"}); d.Code != CodeRegistryUnavailable {
		t.Errorf("a service never answered for: %s", d.Header(nil))
	}
	never := NewCatalog(Trust{State: Stale}, nil, Switches{}, NewService("orders", []Instance{{ID: "b1", Weight: 1}}, nil))
	if d := r.Decide(never, Request{Service: "orders", Tag: ParseTag("gray")}); d.Code != CodeRegistryStale {
		t.Errorf("a registry that never was fresh proves no absence: %s", d.Header(nil))
	}
}

// Instances of several envs are one sorted set for a caller that sees them all
// but one tenant's.
func TestChosenAreSorted(t *testing.T) {
	in := []Instance{{ID: "c", Env: "x", Tenant: "t", Weight: 1}, {ID: "a", Env: "y", Tenant: "t", Weight: 1}, {ID: "b", Env: "z", Tenant: "t", Weight: 2}, {ID: "d", Weight: 1}}
	c := NewCatalog(Trust{}, nil, Switches{}, NewService("orders", in, nil))
	d := mustRouter(t, nil).Decide(c, Request{Service: "orders", Caller: Caller{Tenant: "t"}})
	var got []string
	for _, k := range d.Chosen {
		got = append(got, k.Instance.ID)
	}
	if strings.Join(got, "") != "abc" || d.Chosen[1].Weight != 0.5 {
		t.Errorf("chosen %v", d.Chosen)
	}
}
