package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mccutchen/go-httpbin/v2/httpbin"
)

// bin is httpbin as the service of a lane: by itself, and behind a guard.
type bin struct {
	*env
	origin, guardAddr string
	app               http.Handler
	mu                sync.Mutex
	routes            map[string]bool // which of httpbin's patterns were asked
}

// newBin starts it. What lane adds to a request is taken off before httpbin, which
// echoes what it gets, after a look that it was there.
func newBin(t *testing.T) *bin {
	t.Helper()
	b := &bin{env: newEnv(t, nil), routes: map[string]bool{}}
	app := httpbin.New(httpbin.WithEnv(map[string]string{"HTTPBIN_A": "1"}), httpbin.WithObserver(func(_ context.Context, r httpbin.Result) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.routes[r.Route] = true
	}))
	b.app = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		direct := r.Header.Get("X-Direct") != ""
		r.Header.Del("X-Direct")
		if tag := r.Header.Get("X-Lane-Tag"); tag != "dev-alice" && !direct {
			t.Errorf("%s %s: tag %q", r.Method, r.URL, tag)
		}
		for _, k := range []string{"X-Lane-Tag", "X-Lane-Hops", "Baggage"} {
			r.Header.Del(k)
		}
		app.ServeHTTP(w, r)
	})
	srv := httptest.NewUnstartedServer(b.app)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	b.origin = strings.TrimPrefix(srv.URL, "http://")
	b.guardAddr = b.guard(GuardConfig{Lane: "dev-alice", Service: "httpbin", InstanceID: "b-alice", Local: []string{b.origin}})
	b.reg.set(service("httpbin", instance("b-alice", b.origin, "dev-alice")))
	return b
}

// binWay is a client that asks for httpbin by one way, and what it adds to
// its requests to come that way.
type binWay struct {
	name   string
	scheme string
	client *http.Client
	add    [2]string
}

func (b *bin) ways(h2 bool) []binWay {
	way := func(name string, dial func(ctx context.Context) (net.Conn, error), k, v string) binWay {
		tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols), ExpectContinueTimeout: 10 * time.Second}
		tr.Protocols.SetHTTP1(!h2)
		tr.Protocols.SetUnencryptedHTTP2(h2)
		if tr.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: b.addr}); dial != nil {
			tr.Proxy = nil
			tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
		}
		b.t.Cleanup(tr.CloseIdleConnections)
		return binWay{name, "http", asItComes(tr), [2]string{k, v}}
	}
	to := func(addr string) func(ctx context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", addr) }
	}
	inside := func(ctx context.Context) (net.Conn, error) { return dialConnect(ctx, b.addr, "httpbin:80") }
	ways := []binWay{
		way("direct", to(b.origin), "X-Direct", "yes"),
		way("inside CONNECT", inside, "", ""),
		way("guard", to(b.guardAddr), "X-Lane-Tag", "dev-alice"),
	}
	if !h2 { // which knows no proxy but CONNECT
		ways = append(ways, way("absolute form", nil, "", ""))
	}
	return ways
}

// asItComes is a client that follows no redirect.
func asItComes(tr *http.Transport) *http.Client {
	return &http.Client{Transport: tr, Timeout: testLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// newTLSBin is httpbin behind TLS, with a client that asks it directly and one that
// comes through a proxy that opens TLS.
func newTLSBin(t *testing.T, h2 bool) (*bin, []binWay) {
	b := newBin(t)
	s := &tlsShop{roots: x509.NewCertPool()}
	s.issuer = authority(t, s.roots, 0)
	s.env = newEnv(t, func(c *Config) { c.Roots = s.roots })
	origin := securedBackend(t, "", s.issuer, "httpbin", h2, b.app.ServeHTTP)
	s.reg.set(service("httpbin", instance("b-alice", origin.tlsAddr(), "dev-alice")))
	s.openFor(func(_, service string) bool { return service == "httpbin" })
	through := s.client(h2).Transport.(*http.Transport)
	direct := through.Clone()
	direct.Proxy, direct.TLSClientConfig.RootCAs = nil, s.roots
	direct.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", origin.tlsAddr())
	}
	t.Cleanup(direct.CloseIdleConnections)
	return b, []binWay{{"direct", "https", asItComes(direct), [2]string{"X-Direct", "yes"}}, {"opened TLS", "https", asItComes(through), [2]string{}}}
}

// dialConnect opens a tunnel through a proxy.
func dialConnect(ctx context.Context, proxy, target string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		conn.Close()
		return nil, err
	}
	var head []byte // to the byte: what follows is the server's
	for b := make([]byte, 1); !strings.HasSuffix(string(head), "\r\n\r\n"); head = append(head, b[0]) {
		if _, err = io.ReadFull(conn, b); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if !strings.HasPrefix(string(head), "HTTP/1.1 200") {
		conn.Close()
		return nil, errors.New(string(head))
	}
	return conn, nil
}

// binAnswer is what a caller sees, without what belongs to its own connection and
// without what lane says of itself.
type binAnswer struct {
	Status   string
	Proto    string
	Length   int64
	Transfer []string
	Header   http.Header
	Body     string
	Trailer  http.Header
	Err      string
}

func (w binWay) ask(t *testing.T, c *binCase) binAnswer {
	t.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
		if c.chunked {
			body = io.MultiReader(body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), c.method, w.scheme+"://httpbin"+c.path, body)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range c.header {
		req.Header[k] = v
	}
	if w.add[0] != "" {
		req.Header.Set(w.add[0], w.add[1])
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a := binAnswer{resp.Status, resp.Proto, resp.ContentLength, resp.TransferEncoding, resp.Header, string(b), resp.Trailer, fmt.Sprint(err)}
	if d := resp.Header.Get("X-Lane-Decision"); (w.name != "direct") != strings.HasPrefix(d, "LANE_MATCH") {
		t.Errorf("%s: decision %q", w.name, d)
	}
	for name := range strings.SplitSeq(a.Header.Get("Connection"), ",") {
		a.Header.Del(strings.TrimSpace(name))
	}
	for k := range a.Header {
		if strings.HasPrefix(k, "X-Lane-") || slices.Contains(hopHeaders, k) {
			delete(a.Header, k)
		}
	}
	return a
}

// blurs take away what differs from one call to the next, and nothing else.
var blurs = map[string]func(a *binAnswer){
	"etag":           blurHeader("Etag", `^[0-9a-f]{40,}$`),
	"last-modified":  blurHeader("Last-Modified", `^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \w+$`),
	"expires":        blurHeader("Set-Cookie", `Expires=\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT`),
	"nonce":          blurHeader("Www-Authenticate", `nonce=[0-9a-f]{32}, opaque=[0-9a-f]{32}$`),
	"total_duration": func(a *binAnswer) { blurIn(a.Trailer, "Server-Timing", `total_duration;dur=[0-9.]+`) },
	"timestamp":      func(a *binAnswer) { a.Body = blurText(a.Body, `"timestamp":\d+`) },
	"uuid":           func(a *binAnswer) { a.Body = blurText(a.Body, `[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`) },
	"boundary": func(a *binAnswer) {
		blurIn(a.Header, "Content-Type", `boundary=[0-9a-f]{60}$`)
		a.Body = blurText(a.Body, `--[0-9a-f]{60}`)
	},
}

func blurHeader(key, pattern string) func(*binAnswer) {
	return func(a *binAnswer) { blurIn(a.Header, key, pattern) }
}

func blurIn(h http.Header, key, pattern string) {
	for i := range h[key] {
		h[key][i] = blurText(h[key][i], pattern)
	}
}

func blurText(s, pattern string) string {
	return regexp.MustCompile(pattern).ReplaceAllString(s, "(blurred)")
}

func (c *binCase) blurred(a binAnswer) binAnswer {
	blurHeader("Date", `^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$`)(&a)
	if c.blur != "" {
		for name := range strings.SplitSeq(c.blur, ",") {
			blurs[name](&a)
		}
	}
	return a
}

// same asks everything by every way.
func same(t *testing.T, ways []binWay) {
	t.Helper()
	for _, c := range binCases(t) {
		want := c.blurred(ways[0].ask(t, &c))
		if want.Err != "<nil>" {
			t.Errorf("%s %s: %s", c.method, c.path, want.Err)
		}
		for _, w := range ways[1:] {
			if diff := cmp.Diff(want, c.blurred(w.ask(t, &c))); diff != "" {
				t.Errorf("%s %s (%s, %s): -direct +lane\n%s", c.method, c.path, want.Proto, w.name, diff)
			}
		}
	}
}

// Every endpoint of httpbin gives the same answer directly and through lane.
func TestHTTPBin(t *testing.T) {
	b := newBin(t)
	same(t, b.ways(false))
	same(t, b.ways(true))
	b.complete()
}

func TestHTTPBinOpenedTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		b, ways := newTLSBin(t, h2)
		same(t, ways)
		b.complete()
	}
}

// complete finds the endpoints that were not asked, by httpbin's own source.
func (b *bin) complete() {
	b.t.Helper()
	patterns := sourceOf(b.t, "github.com/mccutchen/go-httpbin/v2/httpbin", `mux\.HandleFunc\("([^"]+)"`)
	if len(patterns) < 60 {
		b.t.Fatalf("only %v found", patterns)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range patterns {
		if !b.routes[p] {
			b.t.Errorf("%s was not asked", p)
		}
	}
}
