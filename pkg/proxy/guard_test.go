package proxy

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// guarded is a guard of dev-alice before a local process, and a baseline.
type guarded struct {
	*env
	local, base *backend
	addr        string // of the guard
}

func newGuarded(t testing.TB, change func(*GuardConfig)) *guarded {
	s := &guarded{local: newBackend(t, "local", nil), base: newBackend(t, "base", nil), env: newEnv(t, nil)}
	cfg := GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-alice", Local: []string{s.local.addr()}}
	if change != nil {
		change(&cfg)
	}
	s.addr = s.guard(cfg)
	s.reg.set(service("order-service", instance("o-base", s.base.addr(), ""), instance("o-alice", s.addr, "dev-alice")))
	return s
}

// ask calls the guard directly, as a caller that knows nothing of lanes.
func (s *guarded) ask(path string, kv ...string) answer {
	s.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	tr := &http.Transport{DisableCompression: true}
	s.t.Cleanup(tr.CloseIdleConnections)
	return do(s.t, &http.Client{Transport: tr}, "GET", "http://"+s.addr+path, h, nil)
}

func TestGuardPasses(t *testing.T) {
	s := newGuarded(t, nil)
	for i, kv := range [][]string{
		{"x-lane-tag", "dev-alice"},
		{"X-Lane-Tag", " dev-alice "},
		{"baggage", "user=1,lane=dev-alice;p=1"},
		{"baggage", "user=1,lane=dev-alice;p=1", "x-lane-tag", ""},
		{"x-lane-tag", "dev-alice", "x-lane-tag", "dev-alice"},
		{"x-lane-tag", "dev-alice", "x-lane-guard", "bounced"},
	} {
		a := s.ask("/a?b=c", kv...)
		if a.status != 200 || a.header.Get("X-Who") != "local" {
			t.Fatalf("%v: %d %s", kv, a.status, a.body)
		}
		if d := a.header.Get(lane.HeaderDecision); d != "LANE_MATCH; lane=dev-alice; instance=o-alice" {
			t.Errorf("decision %q", d)
		}
		h := s.local.header()
		if h.Get("X-Lane-Guard") != "" || h.Get("X-Lane-Hops") != "1" {
			t.Errorf("arrived with %v", h)
		}
		// Whatever carrier it came by, the header has it: many a process passes on no other.
		if got := strings.TrimSpace(h.Get("X-Lane-Tag")); got != "dev-alice" {
			t.Errorf("%v: arrived with the tag %q", kv, got)
		}
		if b := h.Get("Baggage"); kv[0] == "baggage" && b != kv[1] || kv[0] == "x-lane-tag" && kv[1] != "" && b != "" {
			t.Errorf("%v: arrived with the baggage %q", kv, b)
		}
		ex := s.exchange(uint64(i + 1))
		if ex.Guard != traffic.GuardPassed || ex.Front != traffic.FrontGuard || ex.Lane != "dev-alice" ||
			ex.Kind != lane.KindLaneMatch || ex.Instance != "o-alice" || ex.Service != "order-service" {
			t.Errorf("exchange %+v", ex)
		}
	}
}

// The local process is called for no request that is not its lane's.
func TestGuardTurnsAway(t *testing.T) {
	tests := []struct {
		name string
		kv   []string
		why  string // in reject mode
	}{
		{"untagged", nil, "untagged"},
		{"other lane", []string{"x-lane-tag", "dev-bob"}, "other-lane"},
		{"empty", []string{"x-lane-tag", ""}, "untagged"},
		{"white space", []string{"x-lane-tag", " \t"}, "untagged"},
		{"malformed", []string{"x-lane-tag", "Dev_Alice"}, "invalid-tag"},
		{"upper case", []string{"x-lane-tag", "DEV-ALICE"}, "invalid-tag"},
		{"prefix", []string{"x-lane-tag", "dev-alice2"}, "other-lane"},
		{"two lines", []string{"x-lane-tag", "dev-alice", "x-lane-tag", "dev-bob"}, "invalid-tag"},
		{"two spellings", []string{"x-lane-tag", "dev-alice", "X-LANE-TAG", "dev-bob"}, "invalid-tag"},
		{"one list", []string{"x-lane-tag", "dev-alice, dev-bob"}, "invalid-tag"},
		{"baseline", []string{"x-lane-tag", "baseline"}, "other-lane"},
		{"header wins over baggage", []string{"x-lane-tag", "dev-bob", "baggage", "lane=dev-alice"}, "other-lane"},
		{"other baggage", []string{"baggage", "lane=dev-bob"}, "other-lane"},
		{"foreign baggage", []string{"baggage", "xlane=dev-alice"}, "untagged"},
		{"named by Connection", []string{"x-lane-tag", "dev-bob", "Connection", "x-lane-tag"}, "other-lane"},
	}
	for _, mode := range []string{"bounce", "reject"} {
		s := newGuarded(t, func(c *GuardConfig) { c.Reject = mode == "reject" })
		for i, tt := range tests {
			t.Run(mode+"/"+tt.name, func(t *testing.T) {
				a := s.ask("/a%2Fb//c;d?x=1", tt.kv...)
				ex := s.exchange(uint64(i + 1))
				if s.local.hits.Load() != 0 {
					t.Fatal("the local process was called")
				}
				if mode == "reject" {
					if a.status != 421 || a.header.Get(lane.HeaderError) != string(CodeGuardRejected) ||
						a.header.Get("X-Lane-Guard") != tt.why || ex.Guard != traffic.GuardRejected {
						t.Errorf("%d %v %s", a.status, a.header, ex.Guard)
					}
					return
				}
				if a.status != 200 || a.header.Get("X-Who") != "base" || ex.Guard != traffic.GuardBounced ||
					ex.Kind != lane.KindBaseline || ex.Instance != "o-base" {
					t.Fatalf("%d %s %+v", a.status, a.body, ex)
				}
				h := s.base.header()
				if h.Get("X-Lane-Guard") != "bounced" || h.Get("X-Lane-Hops") != "1" {
					t.Errorf("arrived with %v", h)
				}
				// Carriers untouched.
				if tt.name == "other lane" && (h.Get("X-Lane-Tag") != "dev-bob" || h.Get("Baggage") != "") {
					t.Errorf("carriers %v", h)
				}
				if tt.name == "untagged" && (h["X-Lane-Tag"] != nil || h.Get("Baggage") != "") {
					t.Errorf("carriers %v", h)
				}
			})
		}
	}
}

// A request without a tag whose trace was in the lane has lost it on the way: it is sent
// on to the baseline as ever, and that is said, aloud once of each caller.
func TestGuardTellsALostTag(t *testing.T) {
	const other = "00-000000000000000000000000000000ff-00f067aa0ba902b7-01"
	var said bytes.Buffer
	s := &guarded{local: newBackend(t, "local", nil), base: newBackend(t, "base", nil), env: newEnv(t, func(c *Config) {
		c.Own, c.Logger = tracemap.New(tracemap.Options{Size: 10}), slog.New(slog.NewTextHandler(&said, nil))
	})}
	s.addr = s.guard(GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-alice", Local: []string{s.local.addr()}})
	s.reg.set(service("order-service", instance("o-base", s.base.addr(), ""), instance("o-alice", s.addr, "dev-alice")),
		service("inventory", instance("i-base", s.base.addr(), "")))
	seq := uint64(0)
	lost := func(want bool, what string) {
		t.Helper()
		seq++
		if got := slices.Contains(s.exchange(seq).Warnings, traffic.WarnTagLost); got != want {
			t.Errorf("%s: told %v, want %v", what, got, want)
		}
	}
	s.ask("/", "Traceparent", parentA)
	lost(false, "a trace that was never in the lane")
	s.get("http://inventory/", "Traceparent", parentA) // the developer's own call, colored by the proxy
	lost(false, "the call itself")
	for range 2 {
		if a := s.ask("/", "Traceparent", parentA); a.header.Get(lane.HeaderGuard) != "bounced" {
			t.Errorf("it was let in: %v", a.header)
		}
		lost(true, "the same trace without its tag")
	}
	s.ask("/", "Traceparent", parentA, "x-lane-tag", "baseline")
	lost(false, "a wish for the baseline")
	s.ask("/", "Traceparent", parentA, "x-lane-tag", "dev-bob")
	lost(false, "another lane")
	s.ask("/", "Traceparent", other)
	lost(false, "another trace")
	s.ask("/", "Traceparent", other, "x-lane-tag", "dev-alice")
	lost(false, "which comes into the lane")
	s.ask("/", "Traceparent", other)
	lost(true, "and comes once more without its tag")
	s.ask("/")
	lost(false, "no trace at all")
	if n := strings.Count(said.String(), "without its tag"); n != 1 || s.local.hits.Load() != 1 {
		t.Errorf("said %d times, and the local process was called %d times: %s", n, s.local.hits.Load(), said.String())
	}
}

func TestGuardBouncesOnce(t *testing.T) {
	s := newGuarded(t, nil)
	// A guard that somebody registered without a lane stands in the baseline.
	second := newBackend(t, "second", nil)
	other := s.guard(GuardConfig{Lane: "dev-bob", Service: "order-service", InstanceID: "o-bob", Local: []string{second.addr()}})
	s.reg.set(service("order-service", instance("o-bob", other, "")))
	a := s.ask("/", "x-lane-tag", "dev-carol")
	if a.status != 508 || a.header.Get(lane.HeaderError) != string(lane.CodeLoopDetected) {
		t.Errorf("%d %v", a.status, a.header)
	}
	if s.local.hits.Load()+second.hits.Load()+s.base.hits.Load() != 0 {
		t.Error("somebody was called")
	}
}

func TestGuardWithoutBaseline(t *testing.T) {
	s := newGuarded(t, nil)
	sick := instance("o-base", s.base.addr(), "")
	sick.Health = lane.Critical
	for _, tt := range []struct {
		code lane.Code
		in   []lane.Instance
	}{
		{lane.CodeNoBaseline, []lane.Instance{instance("o-alice", s.addr, "dev-alice")}},
		{lane.CodeBaselineUnhealthy, []lane.Instance{instance("o-alice", s.addr, "dev-alice"), sick}},
		{lane.CodeLoopDetected, []lane.Instance{instance("o-alice", s.addr, "")}}, // itself
	} {
		s.reg.set(service("order-service", tt.in...))
		a := s.ask("/")
		if a.header.Get(lane.HeaderError) != string(tt.code) || a.status != tt.code.HTTP() {
			t.Errorf("got %d %s, want %s", a.status, a.header.Get(lane.HeaderError), tt.code)
		}
	}
	if s.local.hits.Load()+s.base.hits.Load() != 0 {
		t.Error("somebody was called")
	}
}

func TestGuardLocalClosed(t *testing.T) {
	closed := closedAddr(t)
	s := newGuarded(t, func(c *GuardConfig) { c.Local = []string{closed}; c.Probes = []string{"/healthz"} })
	a := s.ask("/", "x-lane-tag", "dev-alice")
	if a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) || !strings.Contains(a.body, closed) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if ex := s.exchange(1); ex.Code != lane.CodeUpstreamConnect || ex.Guard != traffic.GuardPassed || ex.Err == "" {
		t.Errorf("%+v", ex)
	}
	if a := s.ask("/healthz"); a.status != 503 {
		t.Errorf("probe: %d", a.status)
	}
	// Untagged requests are served all the same.
	if a := s.ask("/"); a.status != 200 || a.header.Get("X-Who") != "base" {
		t.Errorf("untagged: %d", a.status)
	}
}

func TestGuardProbesAndSecondAddress(t *testing.T) {
	local := newBackend(t, "local", nil)
	closed := closedAddr(t)
	s := newGuarded(t, func(c *GuardConfig) {
		c.Local = []string{closed, local.addr()}
		c.Probes = []string{"/healthz"}
	})
	if a := s.ask("/healthz"); a.status != 200 || a.body != "ok\n" {
		t.Errorf("probe: %d %q", a.status, a.body)
	}
	if local.hits.Load()+s.base.hits.Load() != 0 {
		t.Error("a probe was passed on")
	}
	if ex := s.exchange(1); ex.Guard != traffic.GuardProbe || ex.Status != 200 {
		t.Errorf("%+v", ex)
	}
	if a := s.ask("/healthz/more"); a.header.Get("X-Who") != "base" {
		t.Errorf("not a probe: %d", a.status)
	}
	if a := s.ask("/", "x-lane-tag", "dev-alice"); a.header.Get("X-Who") != "local" {
		t.Errorf("second address: %d %s", a.status, a.body)
	}
	if by := s.tr.Counts().By(traffic.CountGuard); by["probe"] != 1 || by["bounced"] != 1 || by["passed"] != 1 {
		t.Errorf("counts %v", by)
	}
}

// Forward and guard in one chain: what the caller sees is the nearest front's.
func TestForwardThroughGuard(t *testing.T) {
	s := newGuarded(t, nil)
	a := do(t, s.client(), "GET", "http://order-service/", nil, nil)
	if a.header.Get("X-Who") != "local" || len(a.header[lane.HeaderDecision]) != 1 {
		t.Fatalf("%d %v", a.status, a.header)
	}
	if h := s.local.header(); h.Get("X-Lane-Tag") != "dev-alice" || h.Get("Baggage") != "lane=dev-alice" || h.Get("X-Lane-Hops") != "2" {
		t.Errorf("arrived with %v", h)
	}
	// An inner hop's error passes through.
	s.reg.set(service("order-service", instance("o-alice", s.addr, "")))
	a = do(t, s.client(), "GET", "http://order-service/", http.Header{"X-Lane-Tag": {"baseline"}}, nil)
	if a.status != 508 || a.header.Get(lane.HeaderError) != string(lane.CodeLoopDetected) ||
		!strings.HasPrefix(a.header.Get(lane.HeaderDecision), "BASELINE; ") {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestGuardRawRequests(t *testing.T) {
	s := newGuarded(t, nil)
	tests := []struct {
		name, send string
		status     int
	}{
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and more\r\n\r\n", 400},
		{"CONNECT", "CONNECT order-service:80 HTTP/1.1\r\nHost: order-service:80\r\nx-lane-tag: dev-alice\r\n\r\n", 405},
		{"no path", "GET a:0 HTTP/1.1\r\nHost: a\r\nx-lane-tag: dev-alice\r\n\r\n", 400},
		{"absolute form goes nowhere else", "GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\n\r\n", 200},
		{"upgrade to h2c is none", "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, br := raw(t, s.addr, tt.send)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.StatusCode != tt.status {
				t.Errorf("got %d, want %d", resp.StatusCode, tt.status)
			}
		})
	}
	if s.local.hits.Load() != 0 {
		t.Error("the local process was called")
	}
	if h := s.base.header(); h.Get("Upgrade") != "" || h.Get("Http2-Settings") != "" {
		t.Errorf("h2c went on: %v", h)
	}
}

func TestGuardOptionsStar(t *testing.T) {
	got := make(chan string, 1)
	local := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
	local.Config.DisableGeneralOptionsHandler = true
	local.Start()
	defer local.Close()
	s := newGuarded(t, func(c *GuardConfig) { c.Local = []string{strings.TrimPrefix(local.URL, "http://")} })
	_, br := raw(t, s.addr, "OPTIONS * HTTP/1.1\r\nHost: a\r\nx-lane-tag: dev-alice\r\n\r\n")
	if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatal(line, err)
	}
	if uri := <-got; uri != "*" {
		t.Errorf("target %q", uri)
	}
}

func TestGuardConfig(t *testing.T) {
	e := newEnv(t, nil)
	for _, cfg := range []GuardConfig{
		{Service: "a", Local: []string{"127.0.0.1:1"}},
		{Lane: "a", Local: []string{"127.0.0.1:1"}},
		{Lane: "a", Service: "a"},
	} {
		if _, err := NewGuard(e.tr, cfg); err == nil {
			t.Error(fmt.Sprintf("%+v", cfg), "accepted")
		}
	}
}

// A killed lane is killed at its guard too: not everybody who finds the instance and
// passes on the tag is a router that knows of the switch. Its requests go to the baseline
// as a router would send them, tag and all; another lane's switch changes nothing.
func TestGuardOfAKilledLane(t *testing.T) {
	kill := func(s *guarded, sw lane.Switches) {
		s.reg.cat.Store(lane.NewCatalog(lane.Trust{State: lane.Fresh}, nil, sw,
			service("order-service", instance("o-base", s.base.addr(), ""), instance("o-alice", s.addr, "dev-alice"))))
	}
	for name, sw := range map[string]lane.Switches{"lane": {KilledLanes: []lane.Name{"dev-alice"}}, "all": {KillAll: true}} {
		t.Run(name, func(t *testing.T) {
			s := newGuarded(t, nil)
			kill(s, sw)
			for protocol, ask := range map[string]func() answer{
				"HTTP/1.1": func() answer { return s.ask("/a", "x-lane-tag", "dev-alice") },
				"HTTP/2":   func() answer { return h2Get(t, s.addr, "/a", http.Header{"x-lane-tag": {"dev-alice"}}) },
			} {
				n, counted := s.log.Last(), s.tr.Counts().Total(lane.MetricKillSwitch)
				a := ask()
				if a.status != 200 || a.header.Get("X-Who") != "base" || a.header.Get("X-Lane-Guard") != "bounced" ||
					a.header.Get(lane.HeaderDecision) != "KILL_SWITCH_BASELINE; lane=dev-alice; reason=kill_switch; instance=o-base" {
					t.Errorf("%s: %d %v", protocol, a.status, a.header)
				}
				if h := s.base.header(); h.Get("X-Lane-Tag") != "dev-alice" {
					t.Errorf("%s: arrived with %v", protocol, h)
				}
				ex := s.exchange(n + 1)
				if ex.Guard != traffic.GuardBounced || ex.Kind != lane.KindKillSwitch || s.tr.Counts().Total(lane.MetricKillSwitch) != counted+1 {
					t.Errorf("%s: recorded %+v", protocol, ex)
				}
			}
			if s.local.hits.Load() != 0 {
				t.Error("the local process was called")
			}
			if a := s.ask("/a", "x-lane-tag", "dev-bob"); !strings.HasPrefix(a.header.Get(lane.HeaderDecision), "BASELINE; reason=forced_baseline") {
				t.Errorf("another lane's: %v", a.header)
			}
			kill(s, lane.Switches{KilledLanes: []lane.Name{"dev-bob"}})
			if a := s.ask("/a", "x-lane-tag", "dev-alice"); a.header.Get("X-Who") != "local" {
				t.Errorf("unkilled: %v", a.header)
			}
		})
	}
	s := newGuarded(t, func(c *GuardConfig) { c.Reject = true })
	kill(s, lane.Switches{KillAll: true})
	if a := s.ask("/a", "x-lane-tag", "dev-alice"); a.status != 421 || a.header.Get("X-Lane-Guard") != "killed" || !strings.Contains(a.body, "lane dev-alice is killed") || !strings.Contains(a.body, "lane unkill") {
		t.Errorf("rejects: %d %v %s", a.status, a.header, a.body)
	}
	if a := s.ask("/a"); a.header.Get("X-Lane-Guard") != "untagged" {
		t.Errorf("untagged: %v", a.header)
	}
	inner := newGuarded(t, func(c *GuardConfig) { c.Reject, c.Inner = true, true })
	kill(inner, lane.Switches{KillAll: true})
	if a := inner.ask("/a", "x-lane-tag", "dev-alice"); a.status != 200 || a.header.Get("X-Who") != "local" {
		t.Errorf("behind another guard: %d %v", a.status, a.header)
	}
}
