package consul_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

func TestTheBoundOnWatches(t *testing.T) {
	addr := consultest.Embedded(t)
	c := open(t, addr)
	w := watcher(t, c, consul.WatchOptions{MaxWatches: 5})
	real := unique("stock")
	consul.RegisterBaseline(t, c, real, real+"-1", "127.0.0.1", 9001, nil)
	need(t, w, real)
	for range 20 { // made-up names drive out each other, and not a real service
		need(t, w, unique("nobody"))
	}
	if n := len(w.Catalog().Services()); n > 3 {
		t.Errorf("%d services are watched", n)
	}
	if w.Catalog().Service(real) == nil {
		t.Error("the real service gave way")
	}
	var names []string
	for range 10 { // real ones in use may pass the bound, up to twice
		name := unique("real")
		consul.RegisterBaseline(t, c, name, name+"-1", "127.0.0.1", 9001, nil)
		need(t, w, name)
		names = append(names, name)
	}
	if n := len(w.Catalog().Services()); n < 4 || n > 6 {
		t.Errorf("%d services are watched", n)
	}
	for _, name := range names { // and whoever needs one that gave way gets it back
		if s := need(t, w, name); len(s.Instances) != 1 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestIdleWatchesEnd(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	real, empty := unique("stock"), unique("nobody")
	consul.RegisterBaseline(t, c, real, real+"-1", "127.0.0.1", 9001, nil)
	clock := &clock{now: time.Now()}
	w := watcher(t, c, consul.WatchOptions{LeaderEvery: 10 * time.Millisecond, Idle: 10 * time.Second, IdleEmpty: time.Second, Now: clock.Now})
	need(t, w, real)
	need(t, w, empty)
	clock.Advance(2 * time.Second)
	eventually(t, "the empty one has ended", func() bool {
		if err := w.Need(deadline(t), real); err != nil {
			t.Fatal(err)
		}
		return w.Catalog().Service(empty) == nil
	})
	if w.Catalog().Service(real) == nil {
		t.Error("one that is used has ended")
	}
	clock.Advance(11 * time.Second) // a leap of more than 15 s would be a machine that slept
	eventually(t, "the idle one has ended", func() bool { return w.Catalog().Service(real) == nil })
	need(t, w, real)
}

func TestNeedEndsWithItsContextAndWithTheWatcher(t *testing.T) {
	c := open(t, consultest.Embedded(t))
	w := consul.NewWatcher(c, consul.WatchOptions{}) // not running
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	var away *consul.UnreachableError
	if err := w.Need(ctx, "stock"); !errors.As(err, &away) {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	running := make(chan error, 1)
	go func() { running <- w.Run(ctx) }()
	need(t, w, "stock")
	cancel()
	if err := <-running; err != nil {
		t.Error(err)
	}
	if err := w.Need(deadline(t), "other"); err == nil {
		t.Error("nothing is watched any more")
	}
}

func TestThePaceOfAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if d := consul.PaceOf(10); d != 0 {
			t.Errorf("a burst of ten waits %v", d)
		}
		if d := consul.PaceOf(250); d < 59*time.Second || d > 61*time.Second {
			t.Errorf("250 requests take %v, want a quarter of a second each after the burst", d)
		}
	})
}

func BenchmarkNeed(b *testing.B) {
	c, err := consul.Open(consul.Config{Address: consultest.Embedded(b), Getenv: env()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	w := consul.NewWatcher(c, consul.WatchOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() { cancel(); <-done }()
	if err := w.Need(ctx, "stock"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Need(ctx, "stock"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNeedDoesNotAllocate(t *testing.T) {
	w := watcher(t, open(t, consultest.Embedded(t)), consul.WatchOptions{})
	need(t, w, "stock")
	ctx := context.Background()
	// Many runs: what the watches allocate meanwhile counts, too, but for each run.
	if n := testing.AllocsPerRun(10_000, func() { _ = w.Need(ctx, "stock") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
