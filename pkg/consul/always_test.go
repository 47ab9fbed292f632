package consul_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// Services that are always watched are asked for before anybody needs them, and
// neither age nor others drive them out.
func TestServicesThatAreAlwaysWatched(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	real, empty, other := unique("stock"), unique("nobody"), unique("orders")
	consul.RegisterBaseline(t, c, real, real+"-1", "127.0.0.1", 9001, nil)
	consul.RegisterBaseline(t, c, other, other+"-1", "127.0.0.1", 9001, nil)
	clock := &clock{now: time.Now()}
	w := watcher(t, c, consul.WatchOptions{LeaderEvery: 10 * time.Millisecond, MaxWatches: 5, Idle: 10 * time.Second, IdleEmpty: time.Second,
		Always: []string{real, empty, real, "no name"}, Now: clock.Now})
	if err := w.Settle(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{real, empty} {
		if s := w.Catalog().Service(name); s == nil || !s.HasSnapshot {
			t.Errorf("%s: %+v", name, s)
		}
	}
	need(t, w, other)
	clock.Advance(14 * time.Second) // a machine that slept would ask anew
	eventually(t, "the other one has ended", func() bool { return w.Catalog().Service(other) == nil })
	for range 20 { // their bound is their own
		need(t, w, unique("nobody"))
	}
	if n := len(w.Catalog().Services()); n > 3+2 {
		t.Errorf("%d services are watched", n)
	}
	for _, name := range []string{real, empty} {
		if w.Catalog().Service(name) == nil {
			t.Errorf("%s has ended", name)
		}
	}
}

// Who waits for the start waits for what the registry says of them.
func TestTheStartWaitsForServicesThatAreAlwaysWatched(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	service := unique("stock")
	asked, answer := make(chan struct{}, 8), make(chan struct{})
	f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, service) {
			asked <- struct{}{}
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		next.ServeHTTP(w, r)
	})
	w := watcher(t, open(t, f.addr), consul.WatchOptions{Always: []string{service}})
	settled := make(chan error, 1)
	go func() { settled <- w.Settle(deadline(t)) }()
	select {
	case <-asked:
	case <-deadline(t).Done():
		t.Fatal("nobody asks")
	}
	select {
	case err := <-settled:
		t.Fatalf("settled, and nothing is known of %s: %v", service, err)
	default:
	}
	close(answer)
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
	if s := w.Catalog().Service(service); s == nil || !s.HasSnapshot {
		t.Errorf("%+v", s)
	}
	// The twin: one that nobody has named is not asked for.
	if w.Catalog().Service(unique("other")) != nil {
		t.Error("another one is watched")
	}
}
