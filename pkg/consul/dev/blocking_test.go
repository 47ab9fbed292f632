package dev_test

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
)

// soon is within what a wake-up may take on a busy machine; a wait that must
// last is shorter and is measured.
const (
	soon  = 10 * time.Second
	short = 150 * time.Millisecond
)

// answered is when a blocking query came back, and with which index.
type answered struct {
	index             uint64
	after, afterEvent time.Duration // since the question; since what was done meanwhile
}

// waits runs ask with an index and does act once it is blocked. act is nil for a
// wait that nothing ends but its time.
func waits(w *world, ask func(o *api.QueryOptions) (*api.QueryMeta, error), index uint64, wait time.Duration, act func()) answered {
	w.t.Helper()
	type result struct {
		qm  *api.QueryMeta
		err error
	}
	done := make(chan result, 1)
	start := time.Now()
	event := start
	go func() {
		o := (&api.QueryOptions{WaitIndex: index, WaitTime: wait}).WithContext(w.t.Context())
		qm, err := ask(o)
		done <- result{qm, err}
	}()
	if act != nil {
		select {
		case r := <-done:
			w.t.Fatalf("did not block: %+v %v", r.qm, r.err)
		case <-time.After(short):
		}
		event = time.Now()
		act()
	}
	select {
	case r := <-done:
		w.must(r.err)
		return answered{r.qm.LastIndex, time.Since(start), time.Since(event)}
	case <-time.After(wait + soon):
		w.t.Fatal("no answer")
		return answered{}
	}
}

// health asks for the row's service.
func (w *world) health(o *api.QueryOptions) (*api.QueryMeta, error) {
	_, qm, err := w.Health().Service(w.svc, "", false, o)
	return qm, err
}

func (w *world) index(ask func(o *api.QueryOptions) (*api.QueryMeta, error)) uint64 {
	w.t.Helper()
	qm, err := ask(nil)
	w.must(err)
	return qm.LastIndex
}

func wakes(w *world, ask func(o *api.QueryOptions) (*api.QueryMeta, error), act func()) {
	w.t.Helper()
	index := w.index(ask)
	got := waits(w, ask, index, soon, act)
	if got.afterEvent > soon/2 || got.index <= index {
		w.t.Errorf("woke after %s with index %d, want soon and more than %d", got.afterEvent, got.index, index)
	}
}

func sleeps(w *world, ask func(o *api.QueryOptions) (*api.QueryMeta, error), act func()) {
	w.t.Helper()
	index := w.index(ask)
	wait := 2 * short
	got := waits(w, ask, index, wait, act)
	if got.after < wait || got.index != index {
		w.t.Errorf("answered after %s with index %d, want %s and %d", got.after, got.index, wait, index)
	}
}

func blocking(t *testing.T) {
	key := func(w *world) func(*api.QueryOptions) (*api.QueryMeta, error) {
		return func(o *api.QueryOptions) (*api.QueryMeta, error) {
			_, qm, err := w.KV().Get(w.svc, o)
			return qm, err
		}
	}
	tree := func(w *world) func(*api.QueryOptions) (*api.QueryMeta, error) {
		return func(o *api.QueryOptions) (*api.QueryMeta, error) {
			_, qm, err := w.KV().List(w.svc+"/", o)
			return qm, err
		}
	}
	set := func(w *world, key, value string) {
		_, err := w.KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil)
		w.must(err)
	}
	runConformance(t, []conformance{
		{"a service's new instance wakes", func(w *world) {
			w.register(w.svc + "-1")
			wakes(w, w.health, func() { w.register(w.svc + "-2") })
		}},
		{"the first instance wakes", func(w *world) {
			wakes(w, w.health, func() { w.register(w.svc + "-1") })
		}},
		{"a deregistration wakes", func(w *world) {
			w.register(w.svc + "-1")
			w.register(w.svc + "-2")
			wakes(w, w.health, func() { w.must(w.Agent().ServiceDeregister(w.svc + "-2")) })
		}},
		{"the last deregistration wakes", func(w *world) {
			w.register(w.svc + "-1")
			wakes(w, w.health, func() { w.must(w.Agent().ServiceDeregister(w.svc + "-1")) })
		}},
		{"a status wakes", func(w *world) {
			w.register(w.svc+"-1", ttl("critical"))
			wakes(w, w.health, func() { w.must(w.Agent().UpdateTTL("service:"+w.svc+"-1", "", "pass")) })
		}},
		{"changed metadata wakes", func(w *world) {
			w.register(w.svc + "-1")
			wakes(w, w.health, func() { w.register(w.svc+"-1", metadata("lane-draining", "true")) })
		}},
		{"the same registration again does not wake", func(w *world) {
			w.register(w.svc+"-1", ttl("passing"))
			sleeps(w, w.health, func() { w.register(w.svc+"-1", ttl("passing")) })
		}},
		{"the same status again does not wake", func(w *world) {
			w.register(w.svc+"-1", ttl("passing"))
			w.must(w.Agent().UpdateTTL("service:"+w.svc+"-1", "ok", "pass"))
			sleeps(w, w.health, func() { w.must(w.Agent().UpdateTTL("service:"+w.svc+"-1", "ok", "pass")) })
		}},
		{"another output does not wake", func(w *world) {
			w.register(w.svc+"-1", ttl("passing"))
			sleeps(w, w.health, func() { w.must(w.Agent().UpdateTTL("service:"+w.svc+"-1", "other", "pass")) })
		}},
		{"another service does not wake", func(w *world) {
			w.register(w.svc + "-1")
			other := &world{t: w.t, addr: w.addr, Client: w.Client, svc: w.svc + "-other"}
			sleeps(w, w.health, func() { other.register(w.svc + "-other-1") })
		}},
		{"another's removal does not wake a service that is not there", func(w *world) {
			other := &world{t: w.t, addr: w.addr, Client: w.Client, svc: w.svc + "-other"}
			other.register(w.svc + "-other-1")
			index := w.index(w.health)
			got := waits(w, w.health, index, 2*short, func() { w.must(w.Agent().ServiceDeregister(w.svc + "-other-1")) })
			if got.after < 2*short || got.index < index {
				w.t.Errorf("answered after %s with %d, want to wait and at least %d", got.after, got.index, index)
			}
		}},
		{"a key's write does not wake a service", func(w *world) {
			w.register(w.svc + "-1")
			sleeps(w, w.health, func() { set(w, w.svc, "v") })
		}},
		{"an index from the future waits and gives the real one", func(w *world) {
			w.register(w.svc + "-1")
			index := w.index(w.health)
			got := waits(w, w.health, index+1_000_000, 3*short, func() { w.register(w.svc + "-2") })
			if got.after < 3*short || got.index <= index || got.index > index+1000 {
				w.t.Errorf("after %s index %d, want the end of the wait and a bit more than %d", got.after, got.index, index)
			}
		}},
		{"an index from the past answers at once", func(w *world) {
			w.register(w.svc + "-1")
			got := waits(w, w.health, 1, soon, nil)
			if got.after > soon/2 || got.index <= 1 {
				w.t.Errorf("after %s index %d, want at once and more than 1", got.after, got.index)
			}
		}},
		{"a filter does not narrow what wakes", func(w *world) {
			w.register(w.svc+"-1", metadata("lane", "alice"))
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				if o == nil {
					o = &api.QueryOptions{}
				}
				o.Filter = `Service.Meta.lane == "alice"`
				return w.health(o)
			}
			wakes(w, ask, func() { w.register(w.svc+"-2", metadata("lane", "bob")) })
		}},
		{"a stale read blocks too", func(w *world) {
			w.register(w.svc + "-1")
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				if o == nil {
					o = &api.QueryOptions{}
				}
				o.AllowStale = true
				return w.health(o)
			}
			wakes(w, ask, func() { w.register(w.svc + "-2") })
		}},
		{"the list of services wakes for a new one", func(w *world) {
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Catalog().Services(o)
				return qm, err
			}
			wakes(w, ask, func() { w.register(w.svc + "-1") })
		}},
		{"the list of services does not wake for a status", func(w *world) {
			w.register(w.svc+"-1", ttl("critical"))
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Catalog().Services(o)
				return qm, err
			}
			sleeps(w, ask, func() { w.must(w.Agent().UpdateTTL("service:"+w.svc+"-1", "", "pass")) })
		}},
		{"the catalog of a service wakes", func(w *world) {
			w.register(w.svc + "-1")
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Catalog().Service(w.svc, "", o)
				return qm, err
			}
			wakes(w, ask, func() { w.register(w.svc + "-2") })
		}},
		{"checks in a state wake", func(w *world) {
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Health().State("any", o)
				return qm, err
			}
			wakes(w, ask, func() { w.register(w.svc+"-1", ttl("")) })
		}},
		{"a key wakes for its write", func(w *world) {
			set(w, w.svc, "1")
			wakes(w, key(w), func() { set(w, w.svc, "2") })
		}},
		{"a key wakes when it comes", func(w *world) {
			wakes(w, key(w), func() { set(w, w.svc, "1") })
		}},
		{"a key wakes when it goes", func(w *world) {
			set(w, w.svc, "1")
			wakes(w, key(w), func() { _, err := w.KV().Delete(w.svc, nil); w.must(err) })
		}},
		{"a key does not wake for the same value", func(w *world) {
			set(w, w.svc, "1")
			sleeps(w, key(w), func() { set(w, w.svc, "1") })
		}},
		{"a key does not wake for another", func(w *world) {
			set(w, w.svc, "1")
			sleeps(w, key(w), func() { set(w, w.svc+"x", "1") })
		}},
		{"a missing key does not wake for another", func(w *world) {
			index := w.index(key(w))
			got := waits(w, key(w), index, 2*short, func() { set(w, w.svc+"x", "1") })
			if got.after < 2*short {
				w.t.Errorf("woke after %s", got.after)
			}
		}},
		{"a prefix wakes for a write below", func(w *world) {
			set(w, w.svc+"/a", "1")
			wakes(w, tree(w), func() { set(w, w.svc+"/b", "1") })
		}},
		{"a prefix wakes for a removal below", func(w *world) {
			set(w, w.svc+"/a", "1")
			set(w, w.svc+"/b", "1")
			wakes(w, tree(w), func() { _, err := w.KV().Delete(w.svc+"/a", nil); w.must(err) })
		}},
		{"a prefix wakes when its last key goes", func(w *world) {
			set(w, w.svc+"/a", "1")
			wakes(w, tree(w), func() { _, err := w.KV().DeleteTree(w.svc+"/", nil); w.must(err) })
		}},
		{"a prefix does not wake for its neighbour", func(w *world) {
			set(w, w.svc+"/a", "1")
			sleeps(w, tree(w), func() { set(w, w.svc+"x", "1") })
		}},
		{"a lock wakes its key, and a session's end too", func(w *world) {
			set(w, w.svc, "1")
			id := w.session(&api.SessionEntry{Behavior: "delete", LockDelay: time.Millisecond})
			wakes(w, key(w), func() {
				ok, _, err := w.KV().Acquire(&api.KVPair{Key: w.svc, Value: []byte("1"), Session: id}, nil)
				w.must(err)
				w.equal("acquired", ok, true)
			})
			wakes(w, key(w), func() { _, err := w.Session().Destroy(id, nil); w.must(err) })
		}},
		{"sessions wake", func(w *world) {
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Session().List(o)
				return qm, err
			}
			wakes(w, ask, func() { w.session(&api.SessionEntry{}) })
		}},
		{"a session that is asked for wakes when it ends", func(w *world) {
			id := w.session(&api.SessionEntry{})
			ask := func(o *api.QueryOptions) (*api.QueryMeta, error) {
				_, qm, err := w.Session().Info(id, o)
				return qm, err
			}
			wakes(w, ask, func() { _, err := w.Session().Destroy(id, nil); w.must(err) })
		}},
		{"a service of the agent by its hash", func(w *world) {
			w.register(w.svc + "-1")
			first, _, err := w.Agent().Service(w.svc+"-1", nil)
			w.must(err)
			type result struct {
				svc *api.AgentService
				err error
			}
			done := make(chan result, 1)
			go func() {
				o := (&api.QueryOptions{WaitHash: first.ContentHash, WaitTime: soon}).WithContext(w.t.Context())
				svc, _, err := w.Agent().Service(w.svc+"-1", o)
				done <- result{svc, err}
			}()
			select {
			case r := <-done:
				w.t.Fatalf("did not block: %+v", r)
			case <-time.After(short):
			}
			w.register(w.svc+"-1", metadata("k", "v"))
			r := <-done
			w.must(r.err)
			w.equal("meta", r.svc.Meta, map[string]string{"k": "v"})
		}},
		{"a client that leaves ends its wait", func(w *world) {
			ctx, cancel := context.WithTimeout(w.t.Context(), short)
			defer cancel()
			o := (&api.QueryOptions{WaitIndex: 1_000_000_000, WaitTime: soon}).WithContext(ctx)
			if _, err := w.health(o); err == nil || ctx.Err() == nil {
				w.t.Errorf("error %v, context %v: want both", err, ctx.Err())
			}
		}},
	})
}

// session makes a session without node checks that ends with the row.
func (w *world) session(e *api.SessionEntry) string {
	w.t.Helper()
	id, _, err := w.Session().CreateNoChecks(e, nil)
	w.must(err)
	w.t.Cleanup(func() { _, _ = w.Session().Destroy(id, nil) })
	return id
}
