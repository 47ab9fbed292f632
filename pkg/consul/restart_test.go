package consul_test

import (
	"context"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// A registry that keeps nothing on disk comes back empty, with smaller indexes.
func TestEverythingComesBackAfterARegistryThatRestartsEmpty(t *testing.T) {
	other := consultest.Embedded(t)
	transport := &http.Transport{Proxy: nil}
	t.Cleanup(transport.CloseIdleConnections) // after the cleanups below
	f := newFront(t, consultest.Embedded(t))
	c := open(t, f.addr)
	service, l := unique("orders"), "dev-alice"
	h := held(t, c, service, consul.HoldOptions{App: true, Beat: 20 * time.Millisecond})
	background(t, h.Run)
	alice := session(t, c)
	if err := alice.Claim(deadline(t), claim(l, service, "alice")); err != nil {
		t.Fatal(err)
	}
	background(t, alice.Run)
	for range 50 { // drive the old registry's indexes up
		consul.PutKey(t, c, "lane/activity/x", time.Now().String())
	}
	w := watcher(t, c, quick)
	whole := func() bool {
		s := w.Catalog().Service(service)
		return state(w) == lane.Fresh && len(s.Instances) == 1 && s.Instances[0].Health == lane.Passing && len(s.Declared) == 1
	}
	need(t, w, service)
	eventually(t, "the lane is whole", whole)
	before := w.Catalog().Service(service)

	empty := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: other})
	empty.Transport = transport
	empty.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	f.cut()
	eventually(t, "unreachable", func() bool { return state(w) == lane.Unreachable })
	f.set(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { empty.ServeHTTP(w, r) })
	eventually(t, "the lane is whole again", func() bool {
		claims, err := c.Claims(deadline(t), lane.Name(l))
		ok, _ := h.State()
		return err == nil && len(claims) == 1 && claims[0].Session == alice.ID() && ok && whole() && w.Catalog().Service(service) != before
	})
}

func TestAMachineThatSleptAsksAnew(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	clock := &clock{now: time.Now()}
	w := watcher(t, open(t, f.addr), consul.WatchOptions{LeaderEvery: 10 * time.Millisecond, Now: clock.Now})
	service := unique("stock")
	need(t, w, service)
	asks := func() (n int) {
		for _, r := range f.requests() {
			if strings.HasPrefix(r, "GET /v1/health/service/"+service) && !strings.Contains(r, "index=") {
				n++
			}
		}
		return n
	}
	asks()
	since := w.Trust().Since
	clock.Advance(time.Second)
	eventually(t, "a few ticks", func() bool { return w.Trust().Since.After(since) })
	if n := asks(); n != 0 {
		t.Errorf("awake, and yet %d watches started over", n)
	}
	clock.Advance(40 * time.Second)
	eventually(t, "the watch starts over", func() bool { return asks() > 0 })
	eventually(t, "fresh", func() bool { return state(w) == lane.Fresh })
}

func TestNamesThatWaitAreBounded(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	f.set(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) { <-r.Context().Done() })
	w := watcher(t, open(t, f.addr), consul.WatchOptions{MaxWatches: 4})
	refused := make(chan error, 40)
	for range 40 {
		name := unique("nobody")
		background(t, func(ctx context.Context) error {
			refused <- w.Need(ctx, name)
			return nil
		})
	}
	for range 20 {
		if err := <-refused; err == nil {
			t.Error("nothing has answered")
		}
	}
}
