package session_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/lane"
)

// A relay that registers in another registry than the session reads: that is said, with
// a way out, and nothing is said of neighbours that this registry knows nothing of.
func TestARelayOfAnotherRegistry(t *testing.T) {
	t.Parallel()
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		w.baseline(w.service("orders"))
		o := w.options("box")
		o.Relay, _ = w.relayed()
		other := consultest.Embedded(t)
		w.front.move(other)
		r := run(t, o)
		st := r.up()
		v := st.Services[0]
		if v.State != control.StateUnproved || !strings.Contains(v.Note, "another Consul than the one at http://"+w.front.addr) {
			t.Errorf("the service: %+v", v)
		}
		if len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "CONSUL_HTTP_ADDR (consul.address)") || !strings.Contains(st.Warnings[0], o.Relay.URL) {
			t.Errorf("warnings: %q", st.Warnings)
		}
		if len(w.instances()) != 2 || len(w.claims()) != 1 {
			t.Errorf("at the relay's: %v %v", w.instances(), w.claims())
		}
		// The registry of the relay comes to where the session reads: it is well then.
		w.front.move(addr)
		eventually(t, "up", func() bool { return r.status().Services[0].State == control.StateUp })
		if st := r.status(); len(st.Warnings) != 0 {
			t.Errorf("warnings: %q", st.Warnings)
		}
		// What it has shown once, it has lost, and is no other one.
		w.front.set(func(w http.ResponseWriter, r *http.Request, next http.Handler, put int) {
			if strings.HasPrefix(r.URL.Path, "/v1/health/service/") {
				_, _ = w.Write([]byte("[]"))
				return
			}
			next.ServeHTTP(w, r)
		})
		if st := r.status(); slices.ContainsFunc(st.Warnings, func(s string) bool { return strings.Contains(s, "another Consul") }) {
			t.Errorf("warnings: %q", st.Warnings)
		}
	})
}

// Where the token may not look at one of the two signs, nobody knows which registry it is.
func TestARegistryThatHidesIsNoOther(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]spoiler{
		"the instance": func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
			if strings.HasPrefix(r.URL.Path, "/v1/health/service/") {
				w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
			}
			next.ServeHTTP(w, r)
		},
		"the claim": func(w http.ResponseWriter, r *http.Request, next http.Handler, _ int) {
			if strings.HasPrefix(r.URL.Path, "/v1/kv/lane/declared/dev-alice") {
				http.Error(w, "Permission denied", http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, consultest.Embedded(t))
			o := w.options("box")
			o.Relay, _ = w.relayed()
			w.front.move(consultest.Embedded(t))
			w.front.set(spoil)
			r := run(t, o)
			v := r.up().Services[0]
			if v.State != control.StateUnproved || strings.Contains(v.Note, "another Consul") {
				t.Errorf("the service: %+v", v)
			}
		})
	}
}

// With the relay's own registry, a service without a baseline is what it was: a new one.
func TestNoBaselineByARelay(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Relay, _ = w.relayed()
	st := run(t, o).up()
	if len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], string(lane.CodeNoBaseline)) || st.Services[0].State != control.StateUp {
		t.Errorf("%q %+v", st.Warnings, st.Services[0])
	}
}
