package tunnel

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is for what takes a second on a quiet machine.
const patience = 60 * time.Second

// authority is what a test's relay asks: everybody with a token may everything.
type authority struct {
	mu     sync.Mutex
	calls  []string
	deny   map[string]*Refusal // by token, or by service
	expire map[string]time.Time
	facts  map[string]string
	out    func(context.Context, Holder, Out) (net.Conn, error)
	block  chan struct{} // Up waits for it
	news   chan struct{} // closed at each call, and made anew
}

func newAuthority() *authority {
	return &authority{deny: map[string]*Refusal{}, expire: map[string]time.Time{}, news: make(chan struct{})}
}

func (a *authority) note(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, fmt.Sprintf(format, args...))
	close(a.news)
	a.news = make(chan struct{})
}

func (a *authority) Authenticate(_ context.Context, c Credentials) (Identity, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Token == "" {
		return Identity{}, refuse(401, "no token")
	}
	if no := a.deny[c.Token]; no != nil {
		return Identity{}, no
	}
	user, id, _ := strings.Cut(c.Token, "/")
	return Identity{Subject: user, TokenID: id, Expires: a.expire[c.Token]}, nil
}

func (a *authority) Up(ctx context.Context, h Holder, c Claim) (map[string]string, error) {
	a.mu.Lock()
	block, no, facts := a.block, a.deny[c.Service], a.facts
	a.mu.Unlock()
	if block != nil {
		<-block
	}
	if no != nil {
		return nil, no
	}
	a.note("up %s %s by %s at %s", c.Lane, c.Service, h.Subject, h.Host)
	return facts, nil
}

func (a *authority) State(_ context.Context, _ Holder, c Claim, s State) {
	a.note("state %s ready=%v draining=%v %s", c.Service, s.Ready, s.Draining, s.Note)
}

func (a *authority) Lost(_ context.Context, _ Holder, c Claim) { a.note("lost %s", c.Service) }

func (a *authority) Gone(_ context.Context, _ Holder, c Claim, why Reason) {
	a.note("gone %s: %s", c.Service, why)
}

func (a *authority) Out(ctx context.Context, h Holder, o Out) (net.Conn, error) {
	a.mu.Lock()
	out := a.out
	a.mu.Unlock()
	if out == nil {
		return nil, refuse(404, "no service %s", o.Service)
	}
	return out(ctx, h, o)
}

func (a *authority) count(call string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, c := range a.calls {
		if strings.HasPrefix(c, call) {
			n++
		}
	}
	return n
}

// want waits until so many calls begin with that.
func (a *authority) want(t *testing.T, call string, n int) {
	t.Helper()
	late := time.After(patience)
	for {
		a.mu.Lock()
		news := a.news
		a.mu.Unlock()
		if a.count(call) >= n {
			return
		}
		select {
		case <-news:
		case <-late:
			a.mu.Lock()
			defer a.mu.Unlock()
			t.Fatalf("%q was not called %d times; calls:\n%s", call, n, strings.Join(a.calls, "\n"))
		}
	}
}

func certificate(t testing.TB, issuer string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	return certificateUntil(t, issuer, time.Now().Add(time.Hour))
}

func certificateUntil(t testing.TB, issuer string, end time.Time) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: issuer}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"relay.test"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, pool
}

func logger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// quick are waits for tests that wait for their ends. The pings are not much
// quicker: a busy machine must not look like a dead one.
func quick() timing {
	t := defaults
	t.retryMin, t.retryMax = 10*time.Millisecond, 200*time.Millisecond
	t.grace, t.drain, t.shrink = 300*time.Millisecond, 2*time.Second, 50*time.Millisecond
	t.call = 20 * time.Second
	t.handshake = 30 * time.Second
	t.tick = 20 * time.Millisecond
	return t
}

type testRelay struct {
	*Relay
	auth  *authority
	addr  string
	roots *x509.CertPool
	pin   string
	stop  func() // as SIGTERM does; waits
}

func startRelay(t testing.TB, tm timing, change func(*RelayConfig)) *testRelay {
	t.Helper()
	cert, pool := certificate(t, "a relay")
	auth := newAuthority()
	c := RelayConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Authority: auth, Log: logger(t)}
	if change != nil {
		change(&c)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveRelay(t, tm, c, auth, l, pool)
}

func serveRelay(t testing.TB, tm timing, c RelayConfig, auth *authority, l net.Listener, pool *x509.CertPool) *testRelay {
	t.Helper()
	r, err := newRelay(c, tm)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	}()
	stop := func() { cancel(); <-done }
	t.Cleanup(stop)
	return &testRelay{r, auth, l.Addr().String(), pool, Fingerprint(c.TLS.Certificates[0].Certificate[0]), stop}
}

type testAgent struct {
	*Agent
	events chan Event
	stop   func() // as Ctrl-C does; waits
	ended  chan error
}

func startAgent(t testing.TB, tm timing, r *testRelay, change func(*AgentConfig)) *testAgent {
	t.Helper()
	a := &testAgent{events: make(chan Event, 1000), ended: make(chan error, 1)}
	c := AgentConfig{
		URL: "wss://" + r.addr, Roots: r.roots, Token: func(context.Context) (string, error) { return "alice/1", nil },
		Install: "install-1", Host: "laptop", Log: logger(t),
		Handle: func(context.Context, Claim, Header, Stream) {},
		Notify: func(e Event) { a.events <- e },
	}
	if change != nil {
		change(&c)
	}
	var err error
	if a.Agent, err = newAgent(c, tm); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.ended <- a.Run(ctx)
	}()
	a.stop = func() { cancel(); <-done }
	t.Cleanup(a.stop)
	return a
}

func (a *testAgent) claim(t testing.TB, c Claim) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	facts, err := a.Claim(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// want waits for an event.
func (a *testAgent) want(t testing.TB, what EventKind) Event {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case e := <-a.events:
			if e.What == what {
				return e
			}
		case <-late:
			t.Fatalf("no event %q", what)
		}
	}
}

func (r *testRelay) dial(t testing.TB, service string) Stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := r.Dial(ctx, "dev-alice", service, Header{Request: "r1", Color: "dev-alice"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	_ = s.SetDeadline(time.Now().Add(2 * patience))
	return s
}

func orders(kind Kind) Claim {
	return Claim{ID: "c1", Lane: "dev-alice", Service: "orders", Kind: kind, Facts: map[string]string{"mode": "shared"}}
}

// to serves every stream by dialling one address, as a session's guard is dialled.
func to(address string) func(context.Context, Claim, Header, Stream) {
	return func(ctx context.Context, _ Claim, _ Header, s Stream) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			s.Abort(502, "lane-local-down: "+err.Error())
			return
		}
		_ = Join(ctx, s, c)
	}
}

// httpServer is a server that ends with the test.
func httpServer(t testing.TB, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return l.Addr().String()
}

// client sends each request over a stream of its own.
func client(t testing.TB, dial func(context.Context) (net.Conn, error)) *http.Client {
	tr := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 2 * patience}
}

func (r *testRelay) client(t testing.TB, service string) *http.Client {
	return client(t, func(ctx context.Context) (net.Conn, error) {
		return r.Dial(ctx, "dev-alice", service, Header{})
	})
}

func get(t testing.TB, c *http.Client, url string) string {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRequestsGoBothWays(t *testing.T) {
	t.Parallel()
	laptop := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "laptop has "+r.URL.Path)
	}))
	baseline := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "baseline has "+r.URL.Path)
	}))
	r := startRelay(t, quick(), nil)
	r.auth.facts = map[string]string{"address": "10.0.0.7:21001"}
	r.auth.out = func(ctx context.Context, h Holder, o Out) (net.Conn, error) {
		if h.Subject != "alice" || o.Service != "stock" {
			return nil, refuse(404, "no service %s", o.Service)
		}
		return new(net.Dialer).DialContext(ctx, "tcp", baseline)
	}
	heads := make(chan Header, 1)
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Handle = func(ctx context.Context, c Claim, h Header, s Stream) {
			heads <- h
			to(laptop)(ctx, c, h, s)
		}
	})
	if facts := a.claim(t, orders(HTTP)); facts["address"] != "10.0.0.7:21001" {
		t.Errorf("facts %v", facts)
	}
	c := client(t, func(ctx context.Context) (net.Conn, error) {
		return r.Dial(ctx, "dev-alice", "orders", Header{Request: "r1", Color: "dev-alice", Deadline: 1500})
	})
	if got := get(t, c, "http://orders/42"); got != "laptop has /42" {
		t.Errorf("%q", got)
	}
	if got, want := <-heads, (Header{Version: 1, Claim: "c1", Kind: HTTP, Request: "r1", Color: "dev-alice", Deadline: 1500}); got != want {
		t.Errorf("header %+v, want %+v", got, want)
	}
	out := client(t, func(ctx context.Context) (net.Conn, error) { return a.DialOut(ctx, Out{Service: "stock"}) })
	if got := get(t, out, "http://stock/1"); got != "baseline has /1" {
		t.Errorf("%q", got)
	}
	_, err := a.DialOut(t.Context(), Out{Service: "payment"})
	if no := asRefusal(err, 0); no.Code != 404 || no.Text != "no service payment" {
		t.Errorf("%v", err)
	}
	if _, err := r.Dial(t.Context(), "dev-bob", "orders", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	a.stop()
	if err := <-a.ended; err != nil {
		t.Error(err)
	}
	if n := r.auth.count("gone orders: released"); n != 1 {
		t.Errorf("gone %d times: %v", n, r.auth.calls)
	}
	if _, err := r.Dial(t.Context(), "dev-alice", "orders", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
}
