package tunnel

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/tunnel/wiretest"
)

// After a sleep nothing says that the old connections are dead: the clocks do.
func TestWaking(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	w := wire1(t, r.addr, wiretest.Config{})
	var slept atomic.Int64
	a := &testAgent{events: make(chan Event, 1000), ended: make(chan error, 1)}
	tm := quick()
	tm.retryMin, tm.retryMax = time.Hour, time.Hour // a wake does not wait for it
	var err error
	a.Agent, err = newAgent(AgentConfig{
		URL: "wss://" + w.Addr(), Roots: r.roots, Install: "i", Host: "laptop", Handle: echo, Log: logger(t),
		Token:  func(context.Context) (string, error) { return "alice/1", nil },
		Notify: func(e Event) { a.events <- e },
	}, tm)
	if err != nil {
		t.Fatal(err)
	}
	a.wall = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	a.claim(t, orders(TCP))
	w.Freeze() // what the network is for connections of before
	w.To(r.addr)
	slept.Store(int64(10 * time.Minute))
	if e := a.want(t, Woke); e.Slept.Round(time.Minute) != 10*time.Minute {
		t.Errorf("slept %v", e.Slept)
	}
	w.Thaw()
	e := a.want(t, Claimed)
	if e.Generation <= a.conf.Generation {
		t.Errorf("generation %d", e.Generation)
	}
	r.echoes(t)
	if n := r.auth.count("up dev-alice orders"); n != 2 {
		t.Errorf("%v", r.auth.calls)
	}
}

func TestSlept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wall, mono time.Duration
		want       bool
	}{
		{time.Second, time.Second, false},
		{20 * time.Second, time.Second, true},
		{20 * time.Second, 20 * time.Second, false}, // a busy machine
		{10 * time.Second, time.Second, false},      // a corrected clock
		{-time.Hour, time.Second, false},            // set back
		{time.Hour, time.Second, true},
	} {
		if got := slept(c.wall, c.mono, 5*time.Second); got != c.want {
			t.Errorf("slept(%v, %v) = %v", c.wall, c.mono, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		if got := bound(failures, 250*time.Millisecond, 10*time.Second); got != want {
			t.Errorf("bound(%d) = %v, want %v", failures, got, want)
		}
		var low, high bool
		for range 1000 {
			d := backoff(failures, 250*time.Millisecond, 10*time.Second)
			if d < 0 || d > want {
				t.Fatalf("backoff(%d) = %v", failures, d)
			}
			low, high = low || d < want/3, high || d > 2*want/3
		}
		if !low || !high {
			t.Errorf("backoff(%d) does not spread", failures)
		}
	}
	if got := bound(1_000_000_000, 250*time.Millisecond, 10*time.Second); got != 10*time.Second {
		t.Errorf("%v", got)
	}
}

// Links come and go while claims are made, dialled and released; nothing is left.
func TestManyLinksComeAndGo(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), func(c *RelayConfig) { c.Limits.Agents = 100 })
	w := wire1(t, r.addr, wiretest.Config{})
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			a := through(t, quick(), r, w, func(c *AgentConfig) { c.Install = fmt.Sprintf("i%d", i) })
			for n := range 5 {
				c := Claim{ID: "c", Lane: fmt.Sprintf("lane-%d", i), Service: "orders", Kind: TCP}
				a.claim(t, c)
				if s, err := r.Dial(t.Context(), c.Lane, c.Service, Header{}); err == nil {
					_, _ = io.WriteString(s, "x")
					_ = s.Close()
				}
				if n == 2 {
					w.Cut()
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := a.Release(ctx, "c"); err != nil {
					t.Error(err)
				}
				cancel()
			}
			a.stop()
		})
	}
	wg.Wait()
	until(t, "no link and no claim is left", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.all) == 0 && len(r.links) == 0 && len(r.claims) == 0
	})
}
