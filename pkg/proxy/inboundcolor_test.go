package proxy

import (
	"net/http"
	"strings"
	"testing"
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
