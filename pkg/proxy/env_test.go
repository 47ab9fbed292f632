package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// TestMain runs the tests, or is the other program that a test has started.
func TestMain(m *testing.M) {
	if target := os.Getenv(interopTarget); target != "" {
		interopChild(target, os.Args[1:])
		return
	}
	goleak.VerifyTestMain(m)
}

// testLimit ends a test that hangs, and is no measure of speed.
const testLimit = time.Minute

// fakeRegistry is a registry whose picture a test sets.
type fakeRegistry struct {
	cat   atomic.Pointer[lane.Catalog]
	need  func(ctx context.Context, service string) error
	names []string
	asked atomic.Int64 // calls of Need
}

func (f *fakeRegistry) Catalog() *lane.Catalog { return f.cat.Load() }

func (f *fakeRegistry) Need(ctx context.Context, service string) error {
	f.asked.Add(1)
	if f.need != nil {
		return f.need(ctx, service)
	}
	return nil
}

func (f *fakeRegistry) Services(context.Context) ([]string, error) { return f.names, nil }

func (f *fakeRegistry) set(services ...*lane.Service) {
	f.cat.Store(lane.NewCatalog(lane.Trust{State: lane.Fresh}, nil, lane.Switches{}, services...))
}

// instance is one registered address; lan "" is the baseline.
func instance(id, addr, lan string) lane.Instance {
	return lane.Instance{ID: id, Addr: addr, MetaLane: lan, Weight: 1}
}

func service(name string, in ...lane.Instance) *lane.Service {
	return lane.NewService(name, in, nil)
}

// backend is a server that says who it is, and keeps what it was sent.
type backend struct {
	*httptest.Server
	name string
	hits atomic.Int64
	mu   sync.Mutex
	last *http.Request
}

func (b *backend) addr() string { return strings.TrimPrefix(b.URL, "http://") }

func (b *backend) header() http.Header {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last == nil {
		return nil
	}
	return b.last.Header
}

func newBackend(t testing.TB, name string, h http.HandlerFunc) *backend {
	t.Helper()
	b := &backend{name: name}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.hits.Add(1)
		b.mu.Lock()
		b.last = r.Clone(context.Background())
		b.mu.Unlock()
		w.Header().Set("X-Who", name)
		if h != nil {
			h(w, r)
			return
		}
		fmt.Fprint(w, name)
	}))
	b.Config.Protocols = new(http.Protocols)
	b.Config.Protocols.SetHTTP1(true)
	b.Config.Protocols.SetUnencryptedHTTP2(true)
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// env is an engine with its fronts, on loopback.
type env struct {
	t    testing.TB
	reg  *fakeRegistry
	log  *traffic.Log
	tr   *Transport
	fwd  *Forward
	addr string // of the forward front
}

func localPolicy() lane.Policy {
	p := lane.DefaultPolicy()
	p.InvalidTag = lane.InvalidReject
	return p
}

func newEnv(t testing.TB, change func(*Config)) *env {
	t.Helper()
	router, err := lane.NewRouter(localPolicy())
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, reg: &fakeRegistry{}, log: traffic.NewLog(1000)}
	e.reg.set()
	cfg := Config{Registry: e.reg, Router: router, Lane: "dev-alice", Log: e.log,
		Resolves: func(context.Context, string) bool { return false }, FirstAnswer: 200 * time.Millisecond, DialTimeout: testLimit}
	if change != nil {
		change(&cfg)
	}
	e.log = cfg.Log
	if e.tr, err = NewTransport(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.tr.Close)
	e.fwd = NewForward(e.tr, ForwardConfig{Drain: 2 * time.Second})
	e.addr = e.serve(e.fwd.Serve)
	return e
}

// serve runs a front until the test ends.
func (e *env) serve(run func(context.Context, net.Listener) error) string {
	e.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx, ln) }()
	e.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			e.t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func (e *env) guard(cfg GuardConfig) string {
	e.t.Helper()
	g, err := NewGuard(e.tr, cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	return e.serve(g.Serve)
}

// client goes through the forward front.
func (e *env) client() *http.Client {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: e.addr}), DisableCompression: true, MaxIdleConnsPerHost: 300}
	e.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: testLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func do(t testing.TB, c *http.Client, method, u string, header http.Header, body io.Reader) answer {
	t.Helper()
	req, err := http.NewRequest(method, u, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if h := header.Get("Host"); h != "" {
		req.Host = h
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func (e *env) get(u string, kv ...string) answer {
	e.t.Helper()
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h[kv[i]] = append(h[kv[i]], kv[i+1])
	}
	return do(e.t, e.client(), "GET", u, h, nil)
}

// exchange waits for the exchange with this sequence number.
func (e *env) exchange(seq uint64) traffic.Exchange {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	defer cancel()
	rows, _, err := e.log.Next(ctx, seq-1, 1)
	if err != nil {
		e.t.Fatalf("exchange %d: %v", seq, err)
	}
	return rows[0]
}

// raw sends bytes to a front and gives the connection with its reader.
func raw(t testing.TB, addr, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testLimit))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// eventually polls, because a record is made when the caller may have its answer
// already.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(testLimit)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
		<-tick.C
	}
}

// closedAddr is an address where nothing listens: below the ports that the system
// gives out by itself, so that no server of the test comes there later.
func closedAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err == nil {
			ln.Close()
			return ln.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}
