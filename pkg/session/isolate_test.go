package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
)

// baseline registers an instance of the service that is nobody's lane.
func (w *world) baseline(service string) {
	w.t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "baseline") }))
	w.t.Cleanup(srv.Close)
	addr := srv.Listener.Addr().(*net.TCPAddr)
	body, err := json.Marshal(map[string]any{"ID": service + "-base", "Name": service, "Address": "127.0.0.1", "Port": addr.Port})
	if err != nil {
		w.t.Fatal(err)
	}
	w.put("/v1/agent/service/register", body)
	w.t.Cleanup(func() { w.put("/v1/agent/service/deregister/"+service+"-base", nil) })
}

func (w *world) put(path string, body []byte) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+w.addr+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := direct.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("PUT %s: %s", path, res.Status)
	}
}

// registry is a client of the registry itself.
func (w *world) registry() *consul.Client {
	w.t.Helper()
	c, err := consul.Open(consul.Config{Address: w.addr, Getenv: func(string) string { return "" }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// stray calls a guard as somebody does who has never heard of lanes.
func (w *world) stray(guard string, header ...string) string {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+guard+"/", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := direct.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

func (w *world) auto(install string) session.Options {
	o := session.Strangers(w.options(install))
	o.Mode = session.ModeAuto
	return o
}

// lanes are the lane's own instances by name, without the baseline's.
func (w *world) names() string {
	var out []string
	for _, in := range w.instances() {
		if strings.HasPrefix(in.ID, "lane:") {
			out = append(out, in.Name)
		}
	}
	return strings.Join(out, ",")
}

func TestACallerThatIgnoresLanesIsolates(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		orders := w.service("orders")
		isolated := consul.IsolatedName(w.lane, orders)
		w.baseline(orders)
		c := w.registry()
		r := run(t, w.auto("box"))
		st := r.up()
		if v := st.Services[0]; v.Mode != session.ModeShared || v.Registered != orders || w.names() != orders {
			t.Fatalf("it begins as %+v, in the registry %s", v, w.names())
		}

		// A colleague's session of another service in the same lane calls all the time.
		caller := w.options("desk")
		caller.Services = nil
		proxy := run(t, caller).up().Proxy
		calls := w.calls(proxy, "http://"+orders+"/")
		calls.more("", 20)

		if got := w.stray(st.Services[0].Guard); got != "200 baseline" {
			t.Errorf("the stray caller got %q", got)
		}
		eventually(t, "only the isolated name", func() bool { return w.names() == isolated })
		calls.more("", 50)
		calls.stop("200 local")
		now := r.status()
		if v := now.Services[0]; v.Mode != session.ModeIsolated || v.Registered != isolated || v.State != control.StateUp {
			t.Errorf("its status is %+v", v)
		}
		if got := strings.Join(now.Warnings, "\n"); !strings.Contains(got, "127.0.0.1 called") || !strings.Contains(got, "lane policy clear "+orders) {
			t.Errorf("it warns %q", got)
		}
		if code, body, err := w.ask(now, "/"); code != 200 || body != "local" || err != nil {
			t.Errorf("through the guard: %d %q %v", code, body, err)
		}
		p, ok, err := c.ServicePolicy(t.Context(), orders)
		if err != nil || !ok || p.Mode != session.ModeIsolated || p.Caller != "127.0.0.1" || p.By != "alice on desk-1" || p.Since == "" {
			t.Errorf("remembered: %+v %v %v", p, ok, err)
		}
		if err := r.stop(); err == nil {
			t.Error("no cause of the end")
		}
		if got := w.names(); got != "" {
			t.Errorf("left: %s", got)
		}

		again := run(t, w.auto("box"))
		st = again.up()
		if v := st.Services[0]; v.Mode != session.ModeIsolated || w.names() != isolated || !strings.Contains(strings.Join(st.Warnings, "\n"), "because 127.0.0.1") {
			t.Errorf("the next session begins as %+v, %q", v, st.Warnings)
		}
		if err := c.ClearPolicy(t.Context(), orders); err != nil {
			t.Error(err)
		}
		eventually(t, "the policy is said to be cleared", func() bool {
			said := strings.Join(again.status().Warnings, "\n")
			return strings.Contains(said, "the policy for that is cleared") && !strings.Contains(said, "lane policy clear")
		})
		if v := again.status().Services[0]; v.Mode != session.ModeIsolated || w.names() != isolated {
			t.Errorf("without its policy the session has moved: %+v", v)
		}
		_ = again.stop()
		third := run(t, w.auto("box"))
		if v := third.up().Services[0]; v.Mode != session.ModeShared {
			t.Errorf("without the policy it begins as %+v", v)
		}
		_ = third.stop()
		if got := w.names(); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

func fetch(c *http.Client, u string) string {
	res, err := c.Get(u)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(res.StatusCode, " ", string(body))
}

// What is nobody who ignores lanes moves nothing; and neither does a policy that
// says shared, nor a name that has no isolated form.
func TestItStaysUnderItsOwnName(t *testing.T) {
	long := strings.Repeat("x", 40)
	for name, c := range map[string]struct {
		change func(*session.Options)
		policy string
		header []string
		note   string
	}{
		"health probe":   {header: []string{"User-Agent", "kube-probe/1.30"}},
		"probed path":    {change: func(o *session.Options) { o.Probes = []string{"/"} }},
		"said so":        {change: func(o *session.Options) { o.Mode = session.ModeShared }},
		"pinned":         {policy: session.ModeShared, note: "its policy says shared"},
		"no such name":   {change: func(o *session.Options) { o.Services[0].Name += long }, note: "it stays under its own name"},
		"policy, long":   {change: func(o *session.Options) { o.Services[0].Name += long }, policy: session.ModeIsolated, note: "stays under its own name all the same"},
		"its lane's tag": {header: []string{"x-lane-tag", "LANE"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.auto("box")
			if c.change != nil {
				c.change(&o)
			}
			service := o.Services[0].Name
			w.baseline(service)
			if c.policy != "" {
				if err := w.registry().SetPolicy(t.Context(), consul.ServicePolicy{Service: service, Mode: c.policy}); err != nil {
					t.Fatal(err)
				}
			}
			r := run(t, o)
			st := r.up()
			for i, h := range c.header {
				c.header[i] = strings.ReplaceAll(h, "LANE", string(w.lane))
			}
			for range 3 {
				w.stray(st.Services[0].Guard, c.header...)
			}
			noted := func() bool { return strings.Contains(strings.Join(r.status().Warnings, "\n"), c.note) }
			eventually(t, "a note", noted)
			if err := r.stop(); err == nil {
				t.Error("no cause of the end")
			}
			for _, put := range w.front.writes() {
				if strings.Contains(put, "lane/policy") {
					t.Errorf("it has written %s", put)
				}
			}
			if v := st.Services[0]; v.Mode != session.ModeShared || v.Registered != service {
				t.Errorf("its status is %+v", v)
			}
			for _, cl := range w.isolatedEver() {
				t.Errorf("it was registered as %s", cl)
			}
		})
	}
}

// isolatedEver are the registrations under an isolated name that the session has
// sent.
func (w *world) isolatedEver() []string {
	var out []string
	for _, put := range w.front.writes() {
		if strings.HasSuffix(put, "-isolated:live") || strings.HasSuffix(put, "-isolated:app") {
			out = append(out, put)
		}
	}
	return out
}

// Both places are removed by an end that comes in the middle of the move, and by
// one after a registry that went away in it.
func TestAnEndInTheMiddleOfAMoveLeavesNothing(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		for _, spoil := range []spoiler{refuse, unheard} {
			for n := range 4 {
				w := newWorld(t, addr)
				w.baseline(w.service("orders"))
				o := w.auto("box")
				r := run(t, o)
				st := r.up()
				// The writes of a move: claim, registration, two checks, and beats between.
				w.front.set(from(n+1, spoil))
				w.stray(st.Services[0].Guard)
				eventually(t, "the write", func() bool { return len(w.front.writes()) > n })
				w.front.set(nil)
				_ = r.stop()
				if got := w.names(); got != "" {
					t.Errorf("write %d: left %s", n, got)
				}
				if got := w.claims(); len(got) > 0 {
					t.Errorf("write %d: left %s", n, got)
				}
				if err := w.registry().ClearPolicy(t.Context(), w.service("orders")); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
