package proxy

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
)

const sidecarRules = `
entry: app
rules:
  - { id: alice, priority: 1, match: { header: { name: X-User, exact: u-1 } }, lane: dev-alice }
  - { id: bob, priority: 2, match: { header: { name: X-User, exact: u-2 } }, lane: dev-bob }
  - { id: admin, priority: 3, match: { path: { prefix: /admin } }, lane: dev-bob }
  - { id: buyers, priority: 5, whitelist: { route: buyers, header: X-Buyer }, lane: dev-bob }
  - { id: elsewhere, priority: 4, entry: next, match: { header: { name: X-User, exact: u-3 } }, lane: dev-bob }
`

// A sidecar with rules is an entry: what comes without a lane gets one, and goes where
// the lane serves. What has one keeps it.
func TestASidecarColors(t *testing.T) {
	h1 := &http.Transport{}
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	for protocol, tr := range map[string]*http.Transport{"HTTP/1.1": h1, "HTTP/2": h2} {
		t.Run(protocol, func(t *testing.T) {
			c := newEntry(t, sidecarRules, false, "traceparent")
			client := &http.Client{Transport: tr, Timeout: testLimit}
			t.Cleanup(tr.CloseIdleConnections)
			do(t, client, "GET", "http://"+c.inbound+"/", http.Header{"Traceparent": {parentA}, "X-Lane-Tag": {"dev-alice"}}, nil)
			trace := 0
			fresh := func() string {
				trace++
				return strings.Replace(parentB, "0abc", "0ab"+string(rune('0'+trace)), 1)
			}
			for name, at := range map[string]struct {
				path             string
				header           http.Header
				next, saw        string
				decision, counts string // of the rule that was counted
			}{
				"a lane that the service is not in": {header: http.Header{"X-User": {"u-1"}}, next: "next-dev-alice", saw: "dev-alice",
					decision: "FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=app-1; rev=7", counts: "alice"},
				"a lane with an instance of it": {header: http.Header{"X-User": {"u-2"}}, next: "bob's own", saw: "dev-bob",
					decision: "LANE_MATCH; lane=dev-bob; instance=app-bob; rev=7", counts: "bob"},
				"no tag that is one": {header: http.Header{"X-User": {"u-1"}, "X-Lane-Tag": {"Not a lane"}}, next: "next-dev-alice", saw: "dev-alice",
					decision: "FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=app-1; rev=7", counts: "alice"},
				"nobody":             {header: http.Header{}, next: "next-"},
				"another entry's":    {header: http.Header{"X-User": {"u-3"}}, next: "next-"},
				"a tag":              {header: http.Header{"X-User": {"u-2"}, "X-Lane-Tag": {"dev-alice"}}, next: "next-dev-alice", saw: "dev-alice"},
				"a wish for none":    {header: http.Header{"X-User": {"u-2"}, "X-Lane-Tag": {"baseline"}}, next: "next-", saw: "baseline"},
				"a lane's trace":     {header: http.Header{"X-User": {"u-2"}, "Traceparent": {parentA}}, next: "next-dev-alice", saw: "dev-alice"},
				"what a guard sends": {header: http.Header{"X-User": {"u-2"}, "X-Lane-Guard": {"bounced"}}, next: "next-"},
			} {
				t.Run(name, func(t *testing.T) {
					if at.header.Get("Traceparent") == "" {
						at.header.Set("Traceparent", fresh())
					}
					before := c.tr.Counts().Total(metricColor)
					a := do(t, client, "GET", "http://"+c.inbound+"/"+at.path, at.header, nil)
					if a.status != 200 || a.header.Get("X-Next") != at.next || a.header.Get("X-Saw") != at.saw {
						t.Errorf("%d, saw %q, its call went to %q", a.status, a.header.Get("X-Saw"), a.header.Get("X-Next"))
					}
					decision, rev, colored := a.header.Get("X-Lane-Decision"), a.header.Get("X-Lane-Rule-Rev"), c.tr.Counts().Total(metricColor)-before
					if decision != at.decision || (rev == "7") != (at.counts != "") || (colored == 1) != (at.counts != "") {
						t.Errorf("%q, revision %q, colored %d times", decision, rev, colored)
					}
				})
			}
		})
	}
	c := newEntry(t, sidecarRules, false, "traceparent")
	// A list that cannot be asked is no, and is counted.
	if a := do(t, http.DefaultClient, "GET", "http://"+c.inbound+"/", http.Header{"X-Buyer": {"b-1"}}, nil); a.status != 200 || a.header.Get("X-Saw") != "" || c.tr.Counts().Total(metricWhitelist) != 1 {
		t.Errorf("%d, saw %q, %d look-ups failed", a.status, a.header.Get("X-Saw"), c.tr.Counts().Total(metricWhitelist))
	}
	_, br := raw(t, c.inbound, "GET /x%2f..%2fadmin HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n")
	if a := response(t, br, "GET"); a.status != 400 || a.header.Get("X-Lane-Error") != string(CodeBadTarget) {
		t.Errorf("a path of two readings: %d %v", a.status, a.header)
	}
}

// The baseline of a sidecar's service is its own application, whatever the registry has:
// a colored request whose lane is not here goes to it as a counted fallback, and not to
// an error. Where the lane is promised, or nobody knows, it stays one.
func TestASidecarsApplicationIsTheBaseline(t *testing.T) {
	client := &http.Client{Timeout: testLimit}
	t.Cleanup(client.CloseIdleConnections)
	claim := lane.Claim{Lane: "dev-alice", Service: "app", Session: "s"}
	sick := instance("other", "127.0.0.1:1", "")
	sick.Health = lane.Critical
	away := instance("other", "127.0.0.1:1", "")
	away.Env = "prod"
	blue := instance("other", "127.0.0.1:1", "")
	blue.Group = "blue"
	home := []string{"FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=app-1; rev=7", "app"}
	for name, at := range map[string]struct {
		app    *lane.Service
		claims []lane.Claim
		sw     lane.Switches
		blind  bool
		env    string
		want   []string // the decision, and who serves
	}{
		"not registered":          {app: service("app"), want: home},
		"only another lane":       {app: service("app", instance("app-bob", "127.0.0.1:1", "dev-bob")), want: home},
		"only a sick one":         {app: service("app", sick), want: home},
		"only in another env":     {app: service("app", away), env: "test", want: home},
		"another group is active": {app: service("app", blue), sw: lane.Switches{ActiveGroup: map[string]string{"app": "green"}}, want: home},
		"killed": {app: service("app"), sw: lane.Switches{KillAll: true},
			want: []string{"KILL_SWITCH_BASELINE; lane=dev-alice; reason=kill_switch; instance=app-1; rev=7", "app"}},
		"declared":            {app: service("app"), claims: []lane.Claim{claim}, want: []string{"ERROR; lane=dev-alice; reason=lane_declared_but_absent; code=E_LANE_UNHEALTHY", ""}},
		"claims not readable": {app: service("app"), blind: true, want: []string{"ERROR; lane=dev-alice; reason=absence_not_trusted; code=E_REGISTRY_STALE", ""}},
		"never heard of":      {want: []string{"ERROR; lane=dev-alice; reason=service_has_no_instances; code=E_NO_INSTANCES", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newEntry(t, sidecarRules, false, "traceparent")
			c.tr.caller.Env = at.env
			all := []*lane.Service{service("next", instance("next-", c.next[""].addr(), ""))}
			if at.app != nil {
				all = append(all, at.app)
			}
			cat := lane.NewCatalog(lane.Trust{State: lane.Fresh}, at.claims, at.sw, all...)
			cat.ClaimsUnknown = at.blind
			c.reg.cat.Store(cat)
			last := c.log.Last()
			a := do(t, client, "GET", "http://"+c.inbound+"/", http.Header{"X-User": {"u-1"}}, nil)
			if a.header.Get("X-Lane-Decision") != at.want[0] || (a.header.Get("X-Saw") == "dev-alice") != (at.want[1] == "app") {
				t.Errorf("%d %v %s", a.status, a.header, a.body)
			}
			falls := c.tr.Counts().Total(lane.MetricFallback)
			if want := strings.HasPrefix(at.want[0], "FALLBACK"); (falls == 1) != want {
				t.Errorf("%d fallbacks are counted", falls)
			}
			said := false
			for n := last + 1; n <= c.log.Last(); n++ {
				said = said || slices.Contains(c.exchange(n).Warnings, "not_registered:app")
			}
			if said != (at.want[1] == "app") {
				t.Errorf("said so: %t", said)
			}
			// Without a lane nobody is asked.
			if a := do(t, client, "GET", "http://"+c.inbound+"/", http.Header{}, nil); a.status != 200 || a.header.Get("X-Lane-Decision") != "" {
				t.Errorf("untagged: %d %v", a.status, a.header)
			}
		})
	}
}
