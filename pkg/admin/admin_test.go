package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lane/pkg/chain"
	"lane/pkg/metrics"
	"lane/pkg/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a port on loopback until the test ends.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	if o.Listen == "" {
		o.Listen = ":0"
	}
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// ask sends a request as it stands and returns status, header and body.
func ask(t *testing.T, addr, request string) (int, http.Header, string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(b)
}

func get(t *testing.T, addr, path string) (int, http.Header, string) {
	t.Helper()
	return ask(t, addr, "GET "+path+" HTTP/1.1\nHost: "+addr+"\nConnection: close\n\n")
}

func TestListensOnThisMachineUnlessAsked(t *testing.T) {
	for listen, exposed := range map[string]bool{":0": false, "127.0.0.1:0": false, "[::1]:0": false, "0.0.0.0:0": true} {
		s, err := Listen(Options{Listen: listen})
		if err != nil {
			if strings.HasPrefix(listen, "[") {
				continue // a machine without IPv6
			}
			t.Fatal(err)
		}
		if s.Exposed() != exposed {
			t.Errorf("%s listens at %s", listen, s.Addr())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Listen(Options{Listen: "nonsense"}); err == nil {
		t.Error("an address without a port was taken")
	}
}

func TestAnswers(t *testing.T) {
	m := metrics.New(metrics.Options{KnownService: func(string) bool { return true }})
	m.Done(&traffic.Exchange{Service: "orders", Status: 200, Front: traffic.FrontGateway, Instance: "o-1", Took: time.Millisecond})
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var sick error
	s := start(t, Options{Metrics: m, Stats: m.Stats,
		Trace: func(id string) chain.Hops { return chain.Hops{Service: "orders", Hops: []chain.Hop{}} },
		Ready: []Check{{"listener", func() error { return nil }}, {"registry", func() error { return sick }}},
		Rev:   func() Rev { return Rev{Revision: 42, Since: since, Refused: 43, Why: "line 3"} }})
	for path, want := range map[string]string{
		"/healthz":        "ok\n",
		"/readyz":         `{"schema":"lane.ready/v1","ready":true,"checks":[{"name":"listener","ok":true,"why":""},{"name":"registry","ok":true,"why":""}]}`,
		"/rev":            `{"schema":"lane.rev/v1","revision":42,"since":"2026-01-02T03:04:05Z","refused":43,"why":"line 3"}`,
		"/v1/trace/a%2Fb": `{"schema":"lane.hops/v1","service":"orders","hops":[]}`,
		"/metrics":        `lane_requests_total{code="200",front="gateway",instance="o-1",lane="baseline",service="orders"} 1`,
	} {
		code, h, body := get(t, s.Addr(), path)
		if code != 200 || !strings.Contains(body, want) || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v\n%s", path, code, h, body)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: %s", path, name)
			}
		}
	}
	sick = errors.New("no answer for 10m")
	if code, _, body := get(t, s.Addr(), "/readyz"); code != 503 || !strings.Contains(body, `"ready":false`) || !strings.Contains(body, "no answer for 10m") {
		t.Errorf("%d %s", code, body)
	}
	if code, _, _ := get(t, s.Addr(), "/healthz"); code != 200 {
		t.Errorf("a process without a registry lives: %d", code)
	}

	_, _, body := get(t, s.Addr(), "/v1/stats")
	var st metrics.Stats
	if err := json.Unmarshal([]byte(body), &st); err != nil || st.Schema != metrics.StatsSchema || len(st.Rows) != 1 ||
		st.Rows[0].Service != "orders" || st.Rows[0].Long.Requests != 1 {
		t.Errorf("%v %s", err, body)
	}
}

func TestWhatIsNotThereIs404(t *testing.T) {
	s := start(t, Options{})
	for _, path := range []string{"/metrics", "/v1/stats", "/v1/trace/1", "/rev", "/", "/debug/pprof/"} {
		if code, _, _ := get(t, s.Addr(), path); code != 404 {
			t.Errorf("%s: %d", path, code)
		}
	}
}

func TestForeignHostsMethodsAndBodies(t *testing.T) {
	s := start(t, Options{Hosts: []string{"GW.test.example.", "192.0.2.7", "[2001:db8::7]"}})
	_, port, _ := net.SplitHostPort(s.Addr())
	for _, c := range []struct {
		request string
		want    int
	}{
		{"GET /healthz HTTP/1.1\nHost: localhost:" + port + "\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: LOCALHOST.\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: [::1]:" + port + "\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: GW.test.example:9000\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: gw.test.example.\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: 192.0.2.7:7475\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: [2001:db8::7]:7475\n\n", 200},
		{"GET /healthz HTTP/1.1\nHost: 192.0.2.8\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: x.gw.test.example\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: evil.example\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: evil.example:" + port + "\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: localhost.evil.example\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: 10.1.2.3\n\n", 403},
		{"GET /healthz HTTP/1.1\nHost: \n\n", 403},
		{"GET http://evil.example/healthz HTTP/1.1\nHost: localhost\n\n", 403},
		{"POST /healthz HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n", 405},
		{"POST /healthz HTTP/1.1\nHost: localhost\nContent-Length: 1000000000\n\n", 413},
		{"GET /healthz HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n", 413},
		{"OPTIONS /v1/stats HTTP/1.1\nHost: localhost\nOrigin: http://evil.example\nAccess-Control-Request-Method: GET\n\n", 404},
	} {
		if code, _, body := ask(t, s.Addr(), c.request); code != c.want {
			t.Errorf("%.80q: %d, want %d: %s", c.request, code, c.want, body)
		}
	}
}

func TestLongHeadIsRefused(t *testing.T) {
	s := start(t, Options{})
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	// The server may close before it has read all of it, and its answer be lost.
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(res.Status)
	}
}

func TestNamesThatAreNone(t *testing.T) {
	for _, h := range []string{"", ".", "*", "*.test.example", "gw.test.example:9000", "http://gw.test.example", "a b", "a,b"} {
		s, err := Listen(Options{Listen: ":0", Hosts: []string{"localhost", h}})
		var bad *HostError
		if !errors.As(err, &bad) || bad.Host != h {
			t.Errorf("%q: %v", h, err)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}
