//go:build unix

package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// fault is one thing that goes wrong, while requests go on.
type fault struct {
	name  string
	shape shape
	// strike makes it happen and mend, and returns what is to be said of it. When it
	// returns, nothing is in the way of the registry's being right again.
	strike func(t *testing.T, w *world) (note string)
}

var faults = []fault{
	{"agent killed, back with its data", shape{}, func(t *testing.T, w *world) string {
		w.agent.Kill()
		pause(t, form(2*time.Second, 10*time.Second))
		w.agent.Restart(t, true)
		w.agent.Await(t)
		return ""
	}},
	{"agent killed, back without its data", shape{}, func(t *testing.T, w *world) string {
		w.agent.Kill()
		pause(t, form(2*time.Second, 10*time.Second))
		w.agent.Restart(t, false)
		w.agent.Await(t)
		w.baseline() // as what registered them does
		return "its indexes begin again; the baseline registers itself again"
	}},
	{"the developer's client agent killed, back without its data", shape{client: true, apart: true}, func(t *testing.T, w *world) string {
		w.agent.Kill()
		w.agent.Restart(t, false)
		w.agent.Await(t)
		return "the gateway has an agent of its own"
	}},
	{"agent held, answers nothing", shape{}, func(t *testing.T, w *world) string {
		d := form(5*time.Second, 30*time.Second)
		w.agent.Hold(t, true)
		pause(t, d)
		w.agent.Hold(t, false)
		return "for " + d.String()
	}},
	{"agent unreachable, connections broken off", shape{}, func(t *testing.T, w *world) string {
		d := form(5*time.Second, 30*time.Second)
		w.front.cut()
		pause(t, d)
		w.front.set(nil)
		return "for " + d.String()
	}},
	{"agent unreachable so long that Consul has removed everything", shape{vars: map[string]string{"LANE_MAX_STALE": "30m"}}, func(t *testing.T, w *world) string {
		w.front.cut()
		if *long {
			pause(t, 10*time.Minute)
			w.front.set(nil)
			return "for 10m0s, with `max_stale` 30m: by default, that a lane lacks a service is believed for 5 minutes"
		}
		pause(t, 3*time.Second)
		w.removeAll()
		w.front.set(nil)
		return "removed by hand in the short form"
	}},
	{"leader of three servers killed, a client agent in front", shape{servers: 3, client: true}, func(t *testing.T, w *world) string {
		w.agent.Leader(t, w.servers).Kill()
		w.agent.Await(t)
		return ""
	}},
	{"two of three servers killed: no leader", shape{servers: 3, client: true}, func(t *testing.T, w *world) string {
		for _, s := range w.servers[1:] {
			s.Kill()
		}
		await(t, "the session shows it", func() bool {
			st, err := w.ask()
			return err == nil && st.Registry.State != "fresh" && st.Services[0].State != "up"
		})
		// The agent still takes a registration; lane reads it back.
		vars := w.desk("bob")
		code, _, said := run(t, vars, "up", bob, "-s", "stock="+w.local.port(), "--plain")
		if code != 3 && code != 1 {
			t.Errorf("a session came up without a leader: %d\n%s", code, said)
		}
		pause(t, form(0, 30*time.Second))
		for _, s := range w.servers[1:] {
			s.Restart(t, true)
		}
		for _, s := range w.servers {
			s.Await(t)
		}
		return "a session that begins meanwhile is refused"
	}},
	{"indexes go backwards with every answer", shape{}, func(t *testing.T, w *world) string {
		d := form(5*time.Second, 30*time.Second)
		var index atomic.Uint64
		index.Store(1 << 40)
		var asked atomic.Int64
		w.front.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			asked.Add(1)
			q := r.URL.Query()
			q.Del("index") // it would wait for ever
			r.URL.RawQuery = q.Encode()
			next.ServeHTTP(&indexed{rw, index.Add(^uint64(0))}, r)
		})
		w.front.srv.CloseClientConnections()
		pause(t, d)
		w.front.set(nil)
		return fmt.Sprintf("for %s, in which session and gateway asked %d times", d, asked.Load())
	}},
	{"429 for everything", shape{}, func(t *testing.T, w *world) string {
		d := form(5*time.Second, 30*time.Second)
		w.front.status(http.StatusTooManyRequests, "too many concurrent connections")
		pause(t, d)
		w.front.set(nil)
		w.front.srv.CloseClientConnections()
		return "for " + d.String()
	}},
	{"default deny: both tokens lose node:read", shape{token: management}, func(t *testing.T, w *world) string {
		for name, whole := range map[string]string{alice: w.leastPolicy("direct", "--lane", alice, "-s", "orders"), "gateway": w.leastPolicy("gateway")} {
			less := strings.Replace(whole, `node_prefix "" { policy = "read" }`, "", 1)
			if less == whole {
				t.Fatalf("the policy has no node:read:\n%s", whole)
			}
			w.setPolicy(name, less)
			defer w.setPolicy(name, whole)
		}
		await(t, "Consul cuts its answers", func() bool { return w.filtered(w.vars["CONSUL_HTTP_TOKEN"]) })
		pause(t, form(5*time.Second, 30*time.Second))
		return "Consul then answers 200 with an empty list"
	}},
	{"another agent answers, behind a load balancer", shape{client: true, apart: true}, func(t *testing.T, w *world) string {
		other := w.client("desk-2")
		w.front.lead(other.Addr())
		w.agent, other = other, w.agent
		pause(t, form(8*time.Second, 2*time.Minute))
		if !*long { // Consul takes up to 105 s
			w.must(w.call(other, http.MethodPut, "/v1/agent/service/deregister/"+w.status.Services[0].ID, nil, nil))
		}
		return "what the first agent knows is removed by Consul, in the short form by hand"
	}},
}

// management is the token that may do everything, where access control is on.
const management = "00000000-0000-4000-8000-000000000001"

// indexed answers with an index of its own.
type indexed struct {
	http.ResponseWriter
	index uint64
}

func (w *indexed) WriteHeader(code int) {
	if w.Header().Get("X-Consul-Index") != "" {
		w.Header().Set("X-Consul-Index", strconv.FormatUint(w.index, 10))
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *indexed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// removeAll removes the session's instance and claim, as Consul does in time.
func (w *world) removeAll() {
	w.t.Helper()
	w.must(w.call(w.agent, http.MethodPut, "/v1/agent/service/deregister/"+w.status.Services[0].ID, nil, nil))
	var sessions []struct{ ID string }
	w.must(w.call(w.agent, http.MethodGet, "/v1/session/list", nil, &sessions))
	for _, s := range sessions {
		w.must(w.call(w.agent, http.MethodPut, "/v1/session/destroy/"+s.ID, nil, nil))
	}
}

// Requests to what lives go on, and nothing is left behind.
func TestFaults(t *testing.T) {
	t.Parallel()
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, f.shape)
			w.remember()
			w.openGateway()
			w.up()
			w.wholeAgain() // the gateway hears of it a moment later
			stop := traffic(t, w.tally, w.streams())
			pause(t, time.Second)
			note := f.strike(t, w)
			again := w.wholeAgain()
			pause(t, time.Second)
			stop()
			w.judge(i, f.name, note, again)
			if code := w.end(); code != 130 {
				t.Errorf("the session ended with %d", code)
			}
			w.asBefore(limit, "after the end")
		})
	}
}

// judge reports what the requests came to, and fails for what must not be.
func (w *world) judge(order int, name, note string, again time.Duration) {
	w.t.Helper()
	strangers := w.local.strangers()
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	failed, which := count(w.tally.failed)
	misrouted, wrong := count(w.tally.misrouted)
	fell, why := count(w.tally.fellBack)
	report.add(w.t, row{order: order, fault: name, sent: w.tally.sent, failed: failed, misrouted: misrouted + len(strangers), fellBack: fell,
		again: again, note: note})
	if failed > 0 {
		w.t.Errorf("%d failed: %s", failed, which)
	}
	if misrouted > 0 || len(strangers) > 0 {
		w.t.Errorf("%d misrouted: %s; at the laptop: %v", misrouted+len(strangers), wrong, strangers)
	}
	if fell > 0 {
		w.t.Errorf("%d fell back: %s", fell, why)
	}
}
