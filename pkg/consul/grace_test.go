package consul_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// graceful is quick with a grace that the test does not outlive.
func graceful(grace time.Duration) consul.WatchOptions {
	o := quick
	o.Grace = grace
	return o
}

func passing(w *consul.Watcher, service, id string) bool {
	s := w.Catalog().Service(service)
	if s == nil {
		return false
	}
	for i := range s.Instances {
		if s.Instances[i].ID == id {
			return s.Instances[i].Health == lane.Passing
		}
	}
	return false
}

// What an outage has made vanish counts until those who live have come back.
func TestAfterAnOutageWhatIsMissingIsNotGoneYet(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for _, c := range []struct {
			name  string
			grace time.Duration
			kept  bool
		}{{"in the grace", time.Hour, true}, {"after it", 300 * time.Millisecond, false}} {
			t.Run(c.name, func(t *testing.T) {
				f, direct := newFront(t, addr), open(t, addr)
				service, l := unique("stock"), unique("d")
				consul.RegisterBaseline(t, direct, service, service+"-1", "127.0.0.1", 9001, nil)
				consul.RegisterBaseline(t, direct, service, service+"-2", "127.0.0.1", 9002, nil)
				held := session(t, direct)
				if err := held.Claim(deadline(t), claim(l, service, "alice")); err != nil {
					t.Fatal(err)
				}
				w := watcher(t, open(t, f.addr), graceful(c.grace))
				need(t, w, service)
				eventually(t, "whole", func() bool {
					return passing(w, service, service+"-1") && passing(w, service, service+"-2") && len(w.Catalog().Service(service).Declared) == 1
				})
				f.cut()
				eventually(t, "unreachable", func() bool { return state(w) == lane.Unreachable })
				consul.RemoveBaseline(t, direct, service+"-1")
				consul.SetBaseline(t, direct, service+"-2", "critical", "TTL expired")
				if err := held.Destroy(deadline(t)); err != nil {
					t.Fatal(err)
				}
				// The twin: what somebody says counts at once.
				consul.RegisterBaseline(t, direct, service, service+"-3", "127.0.0.1", 9003, nil)
				consul.RegisterBaseline(t, direct, service, service+"-4", "127.0.0.1", 9004, nil)
				consul.SetBaseline(t, direct, service+"-4", "critical", "its disk is full")
				f.set(nil)
				eventually(t, "fresh, with what is new", func() bool { return state(w) == lane.Fresh && passing(w, service, service+"-3") })
				if passing(w, service, service+"-4") {
					t.Error("one that says that it is sick counts as well")
				}
				whole := func() bool {
					return passing(w, service, service+"-1") && passing(w, service, service+"-2") && len(w.Catalog().Service(service).Declared) == 1
				}
				if c.kept {
					if !whole() {
						t.Errorf("%+v", w.Catalog().Service(service))
					}
					return
				}
				eventually(t, "nobody has come back", func() bool {
					return !passing(w, service, service+"-1") && !passing(w, service, service+"-2") && len(w.Catalog().Service(service).Declared) == 0
				})
			})
		}
	})
}

// Without an outage, what is missing is gone.
func TestWithoutAnOutageThereIsNoGrace(t *testing.T) {
	addr := consultest.Embedded(t)
	c := open(t, addr)
	service := unique("stock")
	consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 9001, nil)
	w := watcher(t, c, graceful(time.Hour))
	need(t, w, service)
	consul.RemoveBaseline(t, c, service+"-1")
	eventually(t, "gone", func() bool { return len(w.Catalog().Service(service).Instances) == 0 })
}

// A registry that fails again and again keeps nobody for ever.
func TestTheGraceIsOne(t *testing.T) {
	addr := consultest.Embedded(t)
	f, direct := newFront(t, addr), open(t, addr)
	service := unique("stock")
	consul.RegisterBaseline(t, direct, service, service+"-1", "127.0.0.1", 9001, nil)
	w := watcher(t, open(t, f.addr), graceful(500*time.Millisecond))
	need(t, w, service)
	failing := 0
	f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == "/v1/status/leader" {
			if failing++; failing%2 == 0 {
				breakOff(rw)
			}
		}
		next.ServeHTTP(rw, r)
	})
	consul.RemoveBaseline(t, direct, service+"-1")
	eventually(t, "gone", func() bool { return len(w.Catalog().Service(service).Instances) == 0 })
}

// A beat that failed is tried again soon, and not only when it is time.
func TestABeatThatFailedIsTriedAgainSoon(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		h := held(t, c, unique("orders"), consul.HoldOptions{App: true, TTL: 2 * time.Hour, Beat: time.Hour})
		background(t, h.Run)
		f.cut()
		h.Beat()
		eventually(t, "not confirmed", func() bool { ok, err := h.State(); return !ok && err != nil })
		f.set(nil)
		eventually(t, "confirmed again", func() bool { ok, err := h.State(); return ok && err == nil })
	})
}

// An agent that loses its data takes an instance out of the catalog that lives on: its
// claim still names it.
func TestAnInstanceWhoseClaimStandsIsNotGoneYet(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), "dev-alice"
		r := registration(l, service)
		alone := unique("alone") // registered in the lane, and claimed by nobody
		for _, name := range []string{service, alone} {
			reg := registration(l, name)
			consul.RegisterBaseline(t, c, name, reg.ID, "127.0.0.1", 8080, map[string]string{"lane": l, "lane-local": "true"})
		}
		held := session(t, c)
		cl := claim(l, service, "alice")
		cl.ID = r.ID
		if err := held.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		kept, short := watcher(t, c, graceful(time.Hour)), watcher(t, c, graceful(300*time.Millisecond))
		for _, w := range []*consul.Watcher{kept, short} {
			need(t, w, service)
			need(t, w, alone)
			eventually(t, "whole", func() bool { return len(w.Catalog().Service(service).Declared) == 1 })
		}
		lost := "Agent not live or unreachable"
		consul.SetBaseline(t, c, r.ID, "critical", lost)
		consul.SetBaseline(t, c, registration(l, alone).ID, "critical", lost)
		eventually(t, "one that nobody claims is sick", func() bool { return !passing(kept, alone, registration(l, alone).ID) })
		eventually(t, "its agent does not come back", func() bool { return !passing(short, service, r.ID) })
		if !passing(kept, service, r.ID) {
			t.Errorf("sick, because its agent is lost: %+v", kept.Catalog().Service(service))
		}
		consul.RemoveBaseline(t, c, r.ID)
		consul.RemoveBaseline(t, c, registration(l, alone).ID)
		eventually(t, "one that nobody claims is gone", func() bool { return len(kept.Catalog().Service(alone).Instances) == 0 })
		eventually(t, "nobody has come back", func() bool { return len(short.Catalog().Service(service).Instances) == 0 })
		if !passing(kept, service, r.ID) {
			t.Errorf("gone, while its claim stands: %+v", kept.Catalog().Service(service))
		}
		if err := held.Destroy(deadline(t)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "gone with its claim", func() bool { return len(kept.Catalog().Service(service).Instances) == 0 })
	})
}

// A holder who takes his instance out and lets the claim stand, as a relay that ends does,
// says so in the claim: the instance is gone at once, and its place is missed.
func TestAnInstanceThatItsHolderTakesOutIsGone(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), "dev-alice"
		r := registration(l, service)
		there := func() {
			consul.RegisterBaseline(t, c, service, r.ID, "127.0.0.1", 8080, map[string]string{"lane": l, "lane-local": "true"})
		}
		there()
		consul.RegisterBaseline(t, c, service, service+"-base", "127.0.0.1", 8081, nil)
		held := session(t, c)
		cl := claim(l, service, "alice")
		cl.ID = r.ID
		if err := held.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		w := watcher(t, c, graceful(time.Hour))
		need(t, w, service)
		decide := func() lane.Decision {
			router, err := lane.NewRouter(lane.DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			return router.Decide(w.Catalog(), lane.Request{Service: service, Tag: lane.ParseTag(l), Now: time.Now()})
		}
		eventually(t, "whole", func() bool {
			return decide().Kind == lane.KindLaneMatch && len(w.Catalog().Service(service).Declared) == 1
		})
		cl.Vacant = true
		if err := held.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the claim says it", func() bool {
			all := w.Catalog().Claims
			return slices.ContainsFunc(all, func(c lane.Claim) bool { return c.ID == r.ID && c.Vacant })
		})
		if d := decide(); d.Kind != lane.KindLaneMatch { // what the registry still has is there
			t.Errorf("%+v", d)
		}
		consul.RemoveBaseline(t, c, r.ID)
		eventually(t, "missed", func() bool { return decide().Reason == lane.ReasonLaneDeclaredAbsent })

		// The next one has the place.
		cl.Vacant = false
		if err := held.Claim(deadline(t), cl); err != nil {
			t.Fatal(err)
		}
		there()
		eventually(t, "back", func() bool { return decide().Kind == lane.KindLaneMatch })
	})
}
