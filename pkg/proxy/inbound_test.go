package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// companion is a sidecar: its application calls svc "next" through the outbound
// proxy, passing on nothing but the trace headers that forward names.
type companion struct {
	*env
	traces  *tracemap.Map
	inbound string
	next    map[string]*backend // by lane, "" the baseline
}

func newCompanion(t *testing.T, stamped bool, forward ...string) *companion {
	t.Helper()
	return newEntry(t, "", stamped, forward...)
}

// newEntry is a companion that colors by a document of rules; empty: it does not.
func newEntry(t *testing.T, doc string, stamped bool, forward ...string) *companion {
	t.Helper()
	c := &companion{traces: tracemap.New(tracemap.Options{}), next: map[string]*backend{}}
	c.env = newEnv(t, func(cfg *Config) {
		cfg.Lane = ""
		cfg.TraceLane = c.traces.Get
	})
	var in []lane.Instance
	for _, l := range []string{"", "dev-alice", "dev-bob"} {
		b := newBackend(t, "next-"+l, nil)
		c.next[l] = b
		in = append(in, instance("next-"+l, b.addr(), l))
	}
	c.reg.set(service("next", in...))
	proxyURL := &url.URL{Scheme: "http", Host: c.addr}
	tr := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { return proxyURL, nil }, MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	app := newBackend(t, "app", func(w http.ResponseWriter, r *http.Request) {
		req, _ := http.NewRequestWithContext(r.Context(), "GET", "http://next/", nil)
		for _, name := range forward {
			if v := r.Header.Values(name); len(v) > 0 {
				req.Header[http.CanonicalHeaderKey(name)] = v
			}
		}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		defer resp.Body.Close()
		w.Header().Set("X-Next", resp.Header.Get("X-Who"))
		w.Header().Set("X-Saw", r.Header.Get("X-Lane-Tag"))
		_, _ = io.Copy(w, resp.Body)
	})
	cfg := InboundConfig{Service: "app", InstanceID: "app-1", App: []string{app.addr()}, Stamped: stamped, Drain: 2 * time.Second,
		Learn: c.traces.Put, Probes: []string{"/healthz"}}
	if doc != "" {
		bob := newBackend(t, "app-bob", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Saw", r.Header.Get("X-Lane-Tag"))
			w.Header().Set("X-Next", "bob's own")
		})
		c.reg.set(service("next", in...), service("app", instance("app-1", app.addr(), ""), instance("app-bob", bob.addr(), "dev-bob")))
		set, err := rules.Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		set = set.WithRevision(rules.Revision{Rev: "7"})
		cfg.Color = func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
			return set.Color(r, func(string, string) (bool, error) { return false, errors.New("the lists are away") }), set.Revision()
		}
	}
	front, err := NewInbound(c.tr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.inbound = c.serve(front.Serve)
	return c
}

func (c *companion) ask(client *http.Client, kv ...string) (next, saw string) {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	a := do(c.t, client, "GET", "http://"+c.inbound+"/", h, nil)
	if a.status != 200 {
		c.t.Errorf("%d %s", a.status, a.body)
	}
	return a.header.Get("X-Next"), a.header.Get("X-Saw")
}

const (
	parentA = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	parentB = "00-00000000000000000000000000000abc-00f067aa0ba902b7-01"
)

func TestSidecarRestoresTheTag(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testLimit}
	for _, tt := range []struct {
		name    string
		forward []string // what the application passes on
		kv      []string
		next    string
		missing uint64
	}{
		{"traceparent alone", []string{"traceparent"}, []string{"Traceparent", parentA, "x-lane-tag", "dev-alice"}, "next-dev-alice", 1},
		{"x-request-id alone", []string{"x-request-id"}, []string{"X-Request-Id", "19603cb9-4729-4b3d-aea1-8eb7b646c3e6", "x-lane-tag", "dev-bob"}, "next-dev-bob", 1},
		{"b3 alone, of several ids", []string{"b3"}, []string{"Traceparent", parentA, "B3", "80f198ee56343ba864fe8b2a57d3eff7-e457b5a2e4d86bd1-1", "x-lane-tag", "dev-alice"}, "next-dev-alice", 1},
		{"nothing: the tag is lost, and nothing breaks", nil, []string{"Traceparent", parentA, "x-lane-tag", "dev-alice"}, "next-", 0},
		{"the tag itself", []string{"x-lane-tag"}, []string{"x-lane-tag", "dev-alice"}, "next-dev-alice", 0},
		{"an untagged trace", []string{"traceparent"}, []string{"Traceparent", parentB}, "next-", 0},
		{"an explicit baseline", []string{"traceparent"}, []string{"Traceparent", parentB, "x-lane-tag", "baseline"}, "next-", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCompanion(t, false, tt.forward...)
			if next, _ := c.ask(client, tt.kv...); next != tt.next {
				t.Errorf("went on to %s, want %s", next, tt.next)
			}
			if n := c.tr.Counts().Total(metricTagMissing); n != tt.missing {
				t.Errorf("%d tags were missing, want %d", n, tt.missing)
			}
		})
	}
}

// An application that passes on no trace id loses the tag, and the sidecar says so: once
// aloud, and of each such call.
func TestSidecarSaysThatNoTraceIDIsPassedOn(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testLimit}
	for _, tt := range []struct {
		name    string
		forward []string
		calls   int
	}{{"nothing", nil, 3}, {"another header", []string{"x-other"}, 3}, {"the trace id", []string{"traceparent"}, 0}, {"the tag", []string{"x-lane-tag"}, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCompanion(t, false, tt.forward...)
			var said bytes.Buffer
			c.tr.logger = slog.New(slog.NewTextHandler(&said, nil)) // before the first call
			for range 3 {
				c.ask(client, "Traceparent", parentA, "x-lane-tag", "dev-alice", "X-Other", "1")
			}
			warned := 0
			for seq := range uint64(6) { // the application's calls, and those that it was called by
				if slices.Contains(c.exchange(seq+1).Warnings, traffic.WarnNoTraceID) {
					warned++
				}
			}
			if n := strings.Count(said.String(), "NO_TRACE_ID"); warned != tt.calls || n != min(1, tt.calls) {
				t.Errorf("%d calls are warned of, want %d; said %d times: %s", warned, tt.calls, n, said.String())
			}
		})
	}
}

// The decision nearest to the entry counts, and a rewritten tag is counted.
func TestSidecarHealsAndOverrules(t *testing.T) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testLimit}
	c := newCompanion(t, true, "traceparent")
	c.ask(client, "Traceparent", parentA, "x-lane-tag", "dev-alice")
	// The same trace, with the tag lost on the way, and with another one.
	for _, kv := range [][]string{{"Traceparent", parentA}, {"Traceparent", parentA, "X-Lane-Tag", "dev-bob"}} {
		if next, saw := c.ask(client, kv...); next != "next-dev-alice" || saw != "dev-alice" {
			t.Errorf("%v: the application saw %q, and its call went to %s", kv, saw, next)
		}
	}
	if n := c.tr.Counts().Total(metricTagConflict); n != 1 {
		t.Errorf("%d conflicts", n)
	}
	// A tag that came by another carrier is in the header too, which many an application
	// passes on alone.
	if next, saw := c.ask(client, "Traceparent", parentA, "baggage", "lane=dev-alice"); next != "next-dev-alice" || saw != "dev-alice" {
		t.Errorf("by baggage: the application saw %q, and its call went to %s", saw, next)
	}
	// A request that never had one: the entry gives each request a tag.
	if next, saw := c.ask(client, "Traceparent", parentB); next != "next-" || saw != "" {
		t.Errorf("%s %q", next, saw)
	}
	if n := c.tr.Counts().Total(metricTagMissing); n < 2 {
		t.Errorf("%d missing", n)
	}
	ex := c.exchange(1)
	for seq := uint64(1); ex.Front != traffic.FrontSidecar; seq++ {
		ex = c.exchange(seq)
	}
	if ex.Service != "app" || ex.Instance != "app-1" {
		t.Errorf("recorded %+v", ex)
	}
}

// Many traces at once, each with its own lane: not one goes astray.
func TestSidecarMixesNothing(t *testing.T) {
	c := newCompanion(t, false, "traceparent")
	tr := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr, Timeout: 60 * time.Second}
	var wg sync.WaitGroup
	for g := range 50 {
		wg.Go(func() {
			for i := range 20 {
				tag := [...]string{"dev-alice", "dev-bob", "baseline"}[rand.IntN(3)]
				want := "next-" + tag
				if tag == "baseline" {
					want = "next-"
				}
				trace := fmt.Sprintf("00-%016x%016x-00f067aa0ba902b7-01", g+1, uint64(g)<<32+uint64(i)+1)
				if next, _ := c.ask(client, "Traceparent", trace, "x-lane-tag", tag); next != want {
					t.Errorf("%s went to %s", tag, next)
				}
			}
		})
	}
	wg.Wait()
}

// A sidecar whose application is itself calls nobody.
func TestSidecarBeforeItself(t *testing.T) {
	e := newEnv(t, nil)
	addr := closedAddr(t)
	front, err := NewInbound(e.tr, InboundConfig{Service: "app", App: []string{addr}, Learn: func(*tracemap.Keys, lane.Name) lane.Name { return "" }, Drain: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- front.Serve(ctx, ln) }()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testLimit}
	if a := do(t, client, "GET", "http://"+addr+"/", nil, nil); a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
		t.Errorf("%d %v", a.status, a.header)
	}
	e.exchange(1)
	if n := e.log.Last(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
