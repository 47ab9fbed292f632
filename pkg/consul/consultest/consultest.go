package consultest

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul/dev"
)

// Variable names the real Consul's binary.
const Variable = "LANE_TEST_CONSUL"

// Needed is the real Consul's binary. A test that has none is skipped, which is
// counted; one that returns in silence counts as passed.
func Needed(tb testing.TB) (binary string) {
	tb.Helper()
	binary = os.Getenv(Variable)
	if binary == "" {
		tb.Skipf("%s names no real Consul; scripts/test builds one and runs every test", Variable)
	}
	return binary
}

// Each runs f on a fresh embedded registry and on the real Consul; addr is
// host:port. The real one is shared by the tests of a process, so that tests must
// use names of their own: see Name.
func Each(t *testing.T, f func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { f(t, Embedded(t)) })
	t.Run("consul", func(t *testing.T) { f(t, Real(t)) })
}

// EachOwn is Each with a registry for f alone, the real one too.
func EachOwn(t *testing.T, f func(t *testing.T, addr string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) { f(t, Embedded(t)) })
	t.Run("consul", func(t *testing.T) { f(t, Start(t, Needed(t))) })
}

// Either serves a registry for one test: the real Consul if there is one, else the
// embedded registry.
func Either(tb testing.TB) (addr string) {
	tb.Helper()
	if binary := os.Getenv(Variable); binary != "" {
		return Start(tb, binary)
	}
	return Embedded(tb)
}

// Embedded serves a fresh embedded registry on a free port of 127.0.0.1 until
// the test ends.
func Embedded(tb testing.TB) (addr string) {
	tb.Helper()
	return Serve(tb, dev.New(dev.Options{}))
}

// Serve serves r, and runs its clock, until the test ends.
func Serve(tb testing.TB, r *dev.Registry) (addr string) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		cancel()
		tb.Fatalf("listen for the embedded registry: %v", err)
	}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	var running sync.WaitGroup
	running.Go(func() { _ = srv.Serve(l) })
	running.Go(func() { _ = r.Run(ctx) })
	tb.Cleanup(func() {
		// The clock first: it lets the waiting queries go.
		cancel()
		_ = srv.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// Real is the address of the real Consul, started at the first call and shared
// by the process. Whoever calls it ends it with StopReal in TestMain.
func Real(tb testing.TB) (addr string) {
	tb.Helper()
	binary := Needed(tb)
	shared.Lock()
	defer shared.Unlock()
	if shared.process == nil {
		p, err := start(binary, "")
		if err != nil {
			tb.Fatalf("start the real Consul (%s): %v", Variable, err)
		}
		shared.process = p
	}
	return shared.process.addr
}
