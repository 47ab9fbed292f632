package consul_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
)

func open(t *testing.T, addr string) *consul.Client {
	t.Helper()
	c, err := consul.Open(consul.Config{Address: addr, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// deadline is a context that no test outlives.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// late is a context whose deadline passes when the test says so: never too early
// for what has to have happened by then.
type late struct {
	passed chan struct{}
	pass   func()
}

var _ context.Context = (*late)(nil)

func newLate() *late {
	l := &late{passed: make(chan struct{})}
	l.pass = sync.OnceFunc(func() { close(l.passed) })
	return l
}

func (l *late) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (l *late) Done() <-chan struct{}       { return l.passed }
func (l *late) Value(any) any               { return nil }

func (l *late) Err() error {
	select {
	case <-l.passed:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

var serial atomic.Int64

// unique makes a name that no other test of this run or another uses: the
// registries are shared.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), serial.Add(1))
}

func registration(l, service string) consul.Registration {
	return consul.Registration{
		ID: consul.InstanceID(lane.Name(l), service, "box"), Name: service, Service: service, Lane: lane.Name(l),
		Address: "127.0.0.1", Port: 8080, Owner: "alice", Version: "v2",
	}
}

// eventually polls until ok, and fails with what at the test's deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx := deadline(t)
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// background runs f until the test ends, and waits for it.
func background(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("background: %v", err)
		}
	})
}

func watcher(t *testing.T, c *consul.Client, o consul.WatchOptions) *consul.Watcher {
	t.Helper()
	w := consul.NewWatcher(c, o)
	background(t, w.Run)
	return w
}

// clock is a clock that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
