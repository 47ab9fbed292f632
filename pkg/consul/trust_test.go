package consul_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// quick are the watch's times for tests that wait for failures.
var quick = consul.WatchOptions{LeaderEvery: 40 * time.Millisecond, MinPause: 10 * time.Millisecond,
	MaxPause: 50 * time.Millisecond, Tolerate: 100 * time.Millisecond}

func state(w *consul.Watcher) lane.RegistryState { return w.Catalog().Trust.State }

func TestARegistryThatGoesAwayIsUnreachableAfterTwoAsks(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		c := open(t, f.addr)
		service := unique("stock")
		consul.RegisterBaseline(t, open(t, addr), service, service+"-1", "127.0.0.1", 9001, nil)
		w := consul.NewWatcher(c, quick)
		if got := w.Catalog(); got.Trust.State != lane.Unreachable || !got.Trust.Since.IsZero() {
			t.Errorf("before the first leader: %+v", got.Trust)
		}
		background(t, w.Run)
		need(t, w, service)
		if state(w) != lane.Fresh || w.Err() != nil {
			t.Fatalf("%v %v", w.Trust(), w.Err())
		}

		// One failed ask is none; then two in a row.
		failed := make(chan struct{}, 100)
		once := true
		f.set(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.URL.Path == "/v1/status/leader" && once {
				once = false
				failed <- struct{}{}
				breakOff(rw)
			}
			next.ServeHTTP(rw, r)
		})
		<-failed
		since := w.Trust().Since
		eventually(t, "fresh goes on", func() bool { return w.Trust().Since.After(since) })
		if state(w) != lane.Fresh {
			t.Errorf("after one failure: %v", state(w))
		}

		f.cut()
		eventually(t, "unreachable", func() bool { return state(w) == lane.Unreachable })
		if last := w.Catalog().Trust.Since; last.Before(since) {
			t.Errorf("fresh until %v, and it was so at %v", last, since)
		}
		var away *consul.UnreachableError
		if err := w.Err(); !errors.As(err, &away) || !strings.Contains(err.Error(), f.addr) {
			t.Errorf("%v", err)
		}
		if s := need(t, w, service); len(s.Instances) != 1 {
			t.Errorf("what was known stays: %+v", s.Instances)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if err := w.Need(ctx, unique("other")); !errors.As(err, &away) {
			t.Errorf("a new service: %v", err)
		}

		// Changes of the meantime are in the catalog when it says fresh again.
		consul.RegisterBaseline(t, open(t, addr), service, service+"-2", "127.0.0.1", 9002, nil)
		f.set(nil)
		eventually(t, "fresh", func() bool { return state(w) == lane.Fresh })
		if s := w.Catalog().Service(service); len(s.Instances) != 2 {
			t.Errorf("fresh, and still the old picture: %+v", s.Instances)
		}
		eventually(t, "no error", func() bool { return w.Err() == nil })
	})
}

func TestAnAgentWithoutALeaderIsStale(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for name, spoil := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
			"no leader":        answers("/v1/status/leader", 200, `""`),
			"a 500":            answers("/v1/status/leader", 500, "No cluster leader"),
			"old last contact": nil,
		} {
			t.Run(name, func(t *testing.T) {
				f := newFront(t, addr)
				service := unique("stock")
				if spoil == nil {
					spoil = header("/v1/health/service/"+service, "X-Consul-LastContact", "6000")
				}
				w := watcher(t, open(t, f.addr), consul.WatchOptions{LeaderEvery: 20 * time.Millisecond, Wait: 50 * time.Millisecond})
				need(t, w, service)
				if state(w) != lane.Fresh {
					t.Fatal("not fresh")
				}
				f.set(spoil)
				eventually(t, "stale", func() bool { return state(w) == lane.Stale })
				if w.Catalog().Trust.Since.IsZero() {
					t.Error("it was fresh once")
				}
				f.set(nil)
				eventually(t, "fresh again", func() bool { return state(w) == lane.Fresh })
			})
		}
	})
}

func TestAWatchThatFailsMakesTheCatalogStale(t *testing.T) {
	addr := consultest.Embedded(t)
	f := newFront(t, addr)
	service := unique("stock")
	o := quick
	o.Wait = 20 * time.Millisecond
	w := watcher(t, open(t, f.addr), o)
	need(t, w, service)
	f.set(answers("/v1/health/service/"+service, 500, "rpc error"))
	eventually(t, "stale", func() bool { return state(w) == lane.Stale })
	var answer *consul.AnswerError
	if err := w.Err(); !errors.As(err, &answer) || answer.Status != 500 {
		t.Errorf("%v", err)
	}
	f.set(nil)
	eventually(t, "fresh", func() bool { return state(w) == lane.Fresh })
}

func TestClaimsThatCannotBeReadAreNotAbsent(t *testing.T) {
	f := newFront(t, consultest.Embedded(t))
	f.set(answers("/v1/kv/lane/declared/", 500, "rpc error"))
	w := watcher(t, open(t, f.addr), quick)
	need(t, w, unique("stock"))
	if state(w) != lane.Stale {
		t.Errorf("%v", w.Trust())
	}
}

func TestAnswersCutByTheACL(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		service := unique("stock")
		consul.RegisterBaseline(t, open(t, addr), service, service+"-1", "127.0.0.1", 9001, nil)
		path := "/v1/health/service/" + service
		f.set(header(path, "X-Consul-Results-Filtered-By-ACLs", "true"))
		o := quick
		o.Wait = 20 * time.Millisecond
		w := watcher(t, open(t, f.addr), o)
		if s := need(t, w, service); !s.ACLFiltered {
			t.Error("not marked")
		}
		f.set(nil)
		eventually(t, "whole again", func() bool { return !w.Catalog().Service(service).ACLFiltered })
		f.set(answers(path, 403, "Permission denied"))
		eventually(t, "denied is cut, too", func() bool { return w.Catalog().Service(service).ACLFiltered })
		var denied *consul.DeniedError
		if err := w.Err(); !errors.As(err, &denied) || !strings.Contains(denied.Need, "service:read") {
			t.Errorf("%v", err)
		}
		if state(w) != lane.Fresh {
			t.Error("other services are as fresh as before")
		}
	})
}

func TestAnIndexThatGoesBackStartsOver(t *testing.T) {
	for _, c := range []struct{ prev, last, want uint64 }{
		{0, 0, 1}, {0, 7, 7}, {7, 7, 7}, {7, 8, 8}, {8, 7, 0}, {1000075, 75, 0},
	} {
		if got := consul.NextIndex(c.prev, c.last); got != c.want {
			t.Errorf("after %d the index %d: wait on %d, want %d", c.prev, c.last, got, c.want)
		}
	}
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		service := unique("stock")
		path := "/v1/health/service/" + service
		f.set(header(path, "X-Consul-Index", "1000000"))
		w := watcher(t, open(t, f.addr), consul.WatchOptions{Wait: 100 * time.Millisecond})
		need(t, w, service)
		f.set(nil)
		f.requests()
		eventually(t, "asks without an index", func() bool {
			for _, r := range f.requests() {
				if strings.Contains(r, path) && !strings.Contains(r, "index=") {
					return true
				}
			}
			return false
		})
		consul.RegisterBaseline(t, open(t, addr), service, service+"-1", "127.0.0.1", 9001, nil)
		eventually(t, "the change is seen", func() bool { return len(w.Catalog().Service(service).Instances) == 1 })
	})
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestAnOutageIsShownAtOnceAndToldTwice(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f := newFront(t, addr)
		service := unique("stock")
		var log syncBuffer
		o := quick
		o.Tolerate, o.Log = time.Hour, slog.New(slog.NewTextHandler(&log, nil))
		o.LeaderEvery = 300 * time.Millisecond
		w := watcher(t, open(t, f.addr), o)
		need(t, w, service)
		eventually(t, "well", func() bool { return w.Shown().State == lane.Fresh && w.Err() == nil })
		for range 2 {
			began := time.Now()
			f.cut()
			eventually(t, "shown", func() bool { return w.Shown().State == lane.Unreachable })
			eventually(t, "warned of", func() bool {
				by := w.Catalog().Trust
				return by.State != lane.Fresh || by.Doubt == lane.Unreachable
			})
			since := w.Shown().Since
			if since.After(began.Add(time.Minute)) || since.Before(began.Add(-time.Minute)) {
				t.Errorf("away since %v, cut at %v", since, began)
			}
			eventually(t, "it counts", func() bool { return state(w) == lane.Unreachable })
			if got := w.Shown().Since; !got.Equal(since) {
				t.Errorf("since %v, and later since %v", since, got)
			}
			f.set(nil)
			eventually(t, "back", func() bool { return w.Shown().State == lane.Fresh })
			eventually(t, "without a warning", func() bool { by := w.Catalog().Trust; return by.State == lane.Fresh && by.Doubt == lane.Fresh })
		}
		away, back := strings.Count(log.String(), "does not answer as it should"), strings.Count(log.String(), "answers again")
		if away != 2 || back != 2 || !strings.Contains(log.String(), "since=20") || !strings.Contains(log.String(), f.addr) {
			t.Errorf("told %d and %d times of two outages:\n%s", away, back, log.String())
		}
	})
}
