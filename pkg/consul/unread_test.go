package consul_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// unread answers like a server that leads already and has not read its log yet: it
// holds nothing, and says so to everybody but to who wants a consistent answer. asked
// counts those.
func unread(asked *atomic.Int64) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		of := func(prefix string) bool { return strings.HasPrefix(r.URL.Path, prefix) }
		switch {
		case of("/v1/status/"), of("/v1/agent/"):
			next.ServeHTTP(w, r)
			return
		case r.Method == http.MethodGet && r.URL.Query().Has("consistent"):
			asked.Add(1)
			http.Error(w, "Not ready to serve consistent reads", http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Consul-Index", "1")
		w.Header().Set("X-Consul-KnownLeader", "true")
		w.Header().Set("X-Consul-LastContact", "0")
		if of("/v1/kv/") || of("/v1/session/renew/") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("[]"))
	}
}

// A registry that was away comes back, and has not read its log again when it leads:
// nobody takes that for an absence.
func TestAServerThatHasNotReadItsLogProvesNothing(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	c := open(t, f.addr)
	service, l := unique("orders"), lane.Name("dev-alice")
	consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, nil)
	_, _, err := c.PushRules(deadline(t), draft(0, "one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Kill(deadline(t), "dev-bob", false, false); err != nil {
		t.Fatal(err)
	}
	reopened := make(chan struct{}, 8)
	alice, err := c.OpenSession(deadline(t), consul.SessionOptions{Reopened: func() { reopened <- struct{}{} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alice.Destroy(deadline(t)) })
	if err := alice.Claim(deadline(t), claim(string(l), service, "alice")); err != nil {
		t.Fatal(err)
	}
	background(t, alice.Run) // which fails the test with what it has lost
	w := watcher(t, c, quick)
	need(t, w, service)
	rules := ruleWatch(t, c)
	whole := func() bool {
		cat := w.Catalog()
		s := cat.Service(service)
		return s != nil && len(s.Instances) == 1 && len(s.Declared) == 1 && len(cat.Claims) > 0 && len(cat.Switches.KilledLanes) == 1 &&
			rules.State().Applied == 1 && rules.State().Why == nil
	}
	eventually(t, "all is there", whole)

	f.cut()
	eventually(t, "unreachable", func() bool { return state(w) == lane.Unreachable })
	var asked atomic.Int64
	f.set(unread(&asked))
	alice.Check()
	eventually(t, "everybody has asked for a consistent answer, more than once", func() bool {
		if !whole() {
			t.Fatalf("an absence is believed: %+v, claims %+v, switches %+v, rules %+v", w.Catalog().Service(service), w.Catalog().Claims, w.Catalog().Switches, rules.State())
		}
		return asked.Load() >= 20
	})
	if err := alice.Claim(deadline(t), claim(string(l), unique("stock"), "alice")); err == nil {
		t.Error("claimed, by a registry that answers nothing")
	}
	id := alice.ID()
	f.set(nil)
	eventually(t, "fresh", func() bool { return state(w) == lane.Fresh && whole() })
	if got, err := c.Claims(deadline(t), l); err != nil || len(got) != 1 || got[0].Session != id || len(reopened) > 0 {
		t.Errorf("%+v, %v; %d times another session", got, err, len(reopened))
	}

	// The twin: what is proven to be gone is.
	consul.DestroySession(t.Context(), c, id)
	eventually(t, "the session is opened again", func() bool {
		alice.Check()
		return len(reopened) > 0 && alice.ID() != id
	})
	consul.RemoveBaseline(t, c, service+"-1")
	eventually(t, "no instance", func() bool { return len(w.Catalog().Service(service).Instances) == 0 })
	consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, nil) // for its cleanup
}

// A renewal that finds no session, on a server that has not read its log yet, is no end
// of it: none is opened in its place, and the claims stay where they are.
func TestASessionThatIsNotRenewedIsLookedFor(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service, l := unique("orders"), unique("dev-alice")
		s, err := c.OpenSession(deadline(t), consul.SessionOptions{Reopened: func() { t.Error("opened again, and the registry has it") }})
		if err != nil {
			t.Fatal(err)
		}
		id := s.ID()
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		var renewals atomic.Int64
		f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasPrefix(r.URL.Path, "/v1/session/renew/") {
				renewals.Add(1)
				http.Error(w, "Session id '"+id+"' not found", http.StatusNotFound)
				return
			}
			next.ServeHTTP(w, r)
		})
		background(t, s.Run) // an error of it fails the test
		eventually(t, "it is renewed three times", func() bool {
			s.Check()
			return renewals.Load() >= 3
		})
		if got := claims(t, open(t, addr), lane.Name(l)); s.ID() != id || len(got) != 1 || got[0].Session != id {
			t.Errorf("%s is %s now, and holds %+v", id, s.ID(), got)
		}
		f.set(nil)
		if err := s.Destroy(deadline(t)); err != nil {
			t.Error(err)
		}
	})
}
