package consul_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func blocking(r *http.Request) bool { return strings.Contains(r.URL.RawQuery, "index=") }

// hold keeps what waits for a change open and never answers it, as a path does
// that has died without a word; all else passes.
func hold(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if blocking(r) {
		<-r.Context().Done()
		return
	}
	next.ServeHTTP(w, r)
}

// anew are the requests that read path from the start.
func anew(f *front, path string) (n int) {
	for _, r := range f.requests() {
		if strings.HasPrefix(r, "GET "+path) && !strings.Contains(r, "index=") {
			n++
		}
	}
	return n
}

// A connection can outlive an outage, and what waits on it then waits for
// nothing: for the 45 s of a query, in which the catalog could not be fresh.
func TestQueriesThatSurviveAnOutageHoldNothingUp(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f, direct := newFront(t, addr), open(t, addr)
		c := open(t, f.addr)
		service, l := unique("stock"), unique("d")
		consul.RegisterBaseline(t, direct, service, service+"-1", "127.0.0.1", 9001, nil)
		isolated := claim(l, service, "alice")
		isolated.Mode, isolated.Registered = "isolated", consul.IsolatedName(lane.Name(l), service)
		if err := session(t, direct).Claim(deadline(t), isolated); err != nil {
			t.Fatal(err)
		}
		mine := session(t, c)
		own := unique("mine")
		if err := mine.Claim(deadline(t), claim(own, service, "alice")); err != nil {
			t.Fatal(err)
		}
		f.set(hold)
		background(t, mine.Run)
		w := watcher(t, c, quick)
		need(t, w, service)
		consul.PutKey(t, direct, "lane/switches/active/"+service, "blue")
		defer consul.PutKey(t, direct, "lane/switches/active/"+service, "")

		// The outage: what is new fails, what waits goes on waiting.
		f.set(func(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) })
		eventually(t, "unreachable", func() bool { return state(w) == lane.Unreachable })
		consul.RegisterBaseline(t, direct, service, service+"-2", "127.0.0.1", 9002, nil)
		consul.RegisterBaseline(t, direct, isolated.Registered, isolated.Registered+"-1", "127.0.0.1", 9003,
			map[string]string{"lane": l, "lane-local": "true"})
		if err := session(t, direct).Claim(deadline(t), claim(unique("other"), service, "bob")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the session has noticed", func() bool {
			for _, r := range f.requests() {
				if strings.HasPrefix(r, "PUT /v1/session/renew") {
					return true
				}
			}
			return false
		})
		f.set(nil)
		eventually(t, "fresh", func() bool { return state(w) == lane.Fresh })
		got := w.Catalog()
		if s := got.Service(service); len(s.Instances) != 3 || len(s.Declared) != 3 || got.Switches.ActiveGroup[service] != "blue" {
			t.Errorf("fresh, and still the old picture: %+v, %+v", s, got.Switches)
		}
		// A query waits longer than the test does: who asks now has given it up.
		eventually(t, "the session's own watch asks anew", func() bool { return anew(f, "/v1/kv/lane/declared/"+own+"/?") > 0 })
	})
}

// One ask for the leader that gets no answer says nothing of the registry, but
// something of the way to it.
func TestAfterAnAskWithoutAnAnswerTheWatchesAskAnew(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	service := unique("stock")
	f.set(hold)
	w := watcher(t, open(t, f.addr), quick)
	need(t, w, service)
	spoilOnce := func(spoil func(http.ResponseWriter)) {
		var once, after atomic.Int32
		f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Path == "/v1/status/leader" {
				if once.Add(1) == 1 {
					spoil(rw)
					return
				}
				after.Add(1)
			}
			hold(rw, r, next)
		})
		eventually(t, "asks for the leader go on", func() bool { return after.Load() > 2 })
	}
	f.requests()
	spoilOnce(func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusTooManyRequests) })
	if n := anew(f, "/v1/health/service/"+service); n != 0 {
		t.Errorf("the agent answers, and %d watches started over", n)
	}
	spoilOnce(breakOff)
	eventually(t, "asks anew", func() bool { return anew(f, "/v1/health/service/"+service) > 0 })
	if state(w) != lane.Fresh {
		t.Errorf("%v", w.Trust())
	}
}

// Consul answers 404 for a prefix that must not be read, as for an empty one.
func TestClaimsThatMustNotBeReadProveNoAbsence(t *testing.T) {
	const path = "/v1/kv/lane/declared/"
	hidden := func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.URL.Path == path && !r.URL.Query().Has("recurse") {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		answers(path, http.StatusNotFound, "")(rw, r, next)
	}
	for name, spoil := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"refused":        answers(path, http.StatusForbidden, "ACL not found"),
		"left out":       hidden,
		"marked as less": header(path, "X-Consul-Results-Filtered-By-ACLs", "true"),
	} {
		t.Run(name, func(t *testing.T) {
			addr := consultest.Embedded(t)
			f := newFront(t, addr)
			service := unique("stock")
			consul.RegisterBaseline(t, open(t, addr), service, service+"-1", "127.0.0.1", 9001, nil)
			r, err := lane.NewRouter(lane.DefaultPolicy())
			if err != nil {
				t.Fatal(err)
			}
			decide := func(c *lane.Catalog, tag string) lane.Reason {
				d := r.Decide(c, lane.Request{Service: service, Tag: lane.ParseTag(tag), Now: time.Now()})
				return d.Reason
			}
			o := quick
			o.Wait = 20 * time.Millisecond
			f.set(spoil)
			w := watcher(t, open(t, f.addr), o)
			need(t, w, service)
			c := w.Catalog()
			if !c.ClaimsUnknown || !c.ClaimsDenied || decide(c, "gray") != lane.ReasonAbsenceNotTrusted || decide(c, "") != lane.ReasonUntagged {
				t.Errorf("unknown %v: %s, untagged %s", c.ClaimsUnknown, decide(c, "gray"), decide(c, ""))
			}
			f.set(nil)
			eventually(t, "known", func() bool { return !w.Catalog().ClaimsUnknown })
			if got := decide(w.Catalog(), "gray"); got != lane.ReasonLaneAbsent {
				t.Errorf("known: %s", got)
			}
			f.set(spoil)
			eventually(t, "unknown again", func() bool { return w.Catalog().ClaimsUnknown })
		})
	}
	t.Run("not even asked for", func(t *testing.T) {
		w := consul.NewWatcher(open(t, closedPort(t)), consul.WatchOptions{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ctx); err != nil || !w.Catalog().ClaimsUnknown || w.Catalog().ClaimsDenied {
			t.Errorf("%v, unknown %v, denied %v", err, w.Catalog().ClaimsUnknown, w.Catalog().ClaimsDenied)
		}
	})
}
