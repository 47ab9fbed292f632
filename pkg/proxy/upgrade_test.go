package proxy

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

// echoUpgrade switches protocols and echoes lines in upper case until the other
// side ends its direction; then it says bye and ends its own.
func echoUpgrade(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") == "" {
		http.Error(w, "no upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: %s\r\nX-Conn: %s\r\n\r\nhello\n",
		r.Header.Get("Upgrade"), r.Header.Get("Connection"))
	for {
		line, err := rw.ReadString('\n')
		if err != nil {
			fmt.Fprintf(conn, "bye\n")
			return
		}
		if line == "drop\n" {
			return
		}
		fmt.Fprint(conn, strings.ToUpper(line))
	}
}

func TestUpgrade(t *testing.T) {
	for _, ask := range []string{
		"Connection: Upgrade\r\nUpgrade: websocket\r\n",
		"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n",
		"connection: upgrade\r\nupgrade: my-protocol/2\r\n",
	} {
		viaBoth(t, echoUpgrade, func(t *testing.T, e *env, url string) {
			// The first bytes come together with the head.
			conn, br := raw(t, e.addr, "GET "+url+"/ws HTTP/1.1\r\nHost: svc\r\n"+ask+"Sec-WebSocket-Key: x\r\n\r\none\n")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 101 || resp.Header.Get("Upgrade") == "" || !strings.EqualFold(resp.Header.Get("Connection"), "upgrade") ||
				!strings.HasPrefix(resp.Header.Get(lane.HeaderDecision), "LANE_MATCH") {
				t.Fatalf("%d %v", resp.StatusCode, resp.Header)
			}
			expect := func(want string) {
				t.Helper()
				if got, err := br.ReadString('\n'); got != want {
					t.Fatalf("got %q %v, want %q", got, err, want)
				}
			}
			expect("hello\n")
			expect("ONE\n")
			fmt.Fprint(conn, "two\n")
			expect("TWO\n")
			// Half of it ends; the other half still speaks.
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			expect("bye\n")
			if _, err := br.ReadByte(); err != io.EOF {
				t.Error(err)
			}
			conn.Close()
			eventually(t, "the record", func() bool { return e.log.Last() > 0 })
			rows, _ := e.log.Since(0, 0)
			ex := rows[len(rows)-1]
			if ex.Status != 101 || ex.ReqSize != 8 || ex.ResSize != int64(len("hello\nONE\nTWO\nbye\n")) {
				t.Errorf("%+v", ex)
			}
		})
	}
}

func TestUpgradeEndsWithTheServer(t *testing.T) {
	viaBoth(t, echoUpgrade, func(t *testing.T, e *env, url string) {
		conn, br := raw(t, e.addr, "GET "+url+"/ws HTTP/1.1\r\nHost: svc\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if _, err := http.ReadResponse(br, nil); err != nil {
			t.Fatal(err)
		}
		if n := e.fwd.InFlight(); n != 0 {
			t.Errorf("an upgraded connection counts as in flight: %d", n)
		}
		fmt.Fprint(conn, "drop\n")
		if b, err := io.ReadAll(br); err != nil || string(b) != "hello\n" {
			t.Errorf("%q %v", b, err)
		}
		conn.Close()
	})
}

func TestUpgradeRefused(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", 403) },
		func(t *testing.T, e *env, url string) {
			_, br := raw(t, e.addr, "GET "+url+"/ws HTTP/1.1\r\nHost: svc\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 403 || string(b) != "no\n" {
				t.Errorf("%d %q", resp.StatusCode, b)
			}
			resp.Body.Close()
		})
}

func TestUpgradeNobodyAskedFor(t *testing.T) {
	origin, _ := rawOrigin(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	if a := e.get("http://svc/"); a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// The guard's upgrades are guarded as well.
func TestGuardUpgradeOfAnotherLane(t *testing.T) {
	s := newGuarded(t, nil)
	_, br := raw(t, s.guardAddr(), "GET /ws HTTP/1.1\r\nHost: svc\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nx-lane-tag: dev-bob\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if s.local.hits.Load() != 0 || s.base.hits.Load() != 1 || s.base.header().Get("Upgrade") != "websocket" {
		t.Errorf("local %d base %d", s.local.hits.Load(), s.base.hits.Load())
	}
}

func connectTo(t *testing.T, e *env, target string) (net.Conn, *bufio.Reader, *http.Response) {
	t.Helper()
	conn, br := raw(t, e.addr, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\nProxy-Authorization: Basic eA==\r\n\r\n")
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	return conn, br, resp
}

func TestConnectTLS(t *testing.T) {
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "secret ", len(r.Header["X-Lane-Tag"])) }))
	defer origin.Close()
	e := newEnv(t, nil)
	c := e.client()
	c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the test's own server
	a := do(t, c, "GET", origin.URL, nil, nil)
	if a.body != "secret 0" {
		t.Errorf("%d %q", a.status, a.body)
	}
	c.CloseIdleConnections()
	ex := e.exchange(1)
	if ex.Note != "" || ex.Kind != lane.KindExternal || ex.Service != "" {
		t.Errorf("%+v", ex)
	}
	// A service's TLS port: routed, not colored.
	e.reg.set(service("svc", instance("b", strings.TrimPrefix(origin.URL, "https://"), "")))
	if a := do(t, c, "GET", "https://svc/", nil, nil); a.body != "secret 0" {
		t.Errorf("%d %q", a.status, a.body)
	}
	c.CloseIdleConnections()
	if ex := e.exchange(2); ex.Note != noteTLS || ex.Kind != lane.KindBaseline || ex.Service != "svc" || ex.Instance != "b" {
		t.Errorf("%+v", ex)
	}
}

func TestConnectHalfClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b, _ := io.ReadAll(conn) // until the caller has ended its side
		fmt.Fprintf(conn, "got %d", len(b))
	}()
	defer func() { ln.Close(); <-done }()
	e := newEnv(t, nil)
	conn, br := raw(t, e.addr, "CONNECT "+ln.Addr().String()+" HTTP/1.1\r\nHost: x\r\n\r\nearly")
	if _, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect}); err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("x", 1<<20)
	fmt.Fprint(conn, big)
	_ = conn.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(br)
	if want := fmt.Sprintf("got %d", len(big)+5); string(b) != want || err != nil {
		t.Errorf("%q %v", b, err)
	}
	conn.Close()
	if ex := e.exchange(1); ex.ReqSize != int64(len(big)+5) || ex.ResSize != int64(len(b)) {
		t.Errorf("%+v", ex)
	}
}

func TestConnectRefuses(t *testing.T) {
	s := newShop(t, nil)
	s.reg.set(service("order-service", instance("o-alice", s.alice.addr(), "dev-alice")),
		service("dead", instance("d", closedAddr(t), "")))
	_, port, _ := net.SplitHostPort(s.addr)
	for _, tt := range []struct {
		target string
		status int
		code   lane.Code
	}{
		{"nothing-here:80", 503, lane.CodeNoInstances},
		{closedAddr(t), 502, lane.CodeUpstreamConnect},
		{"localhost:" + port, 508, lane.CodeLoopDetected},
		{s.addr, 508, lane.CodeLoopDetected},
		{"order-service", 400, CodeBadTarget},
	} {
		_, _, resp := connectTo(t, s.env, tt.target)
		if resp.StatusCode != tt.status || resp.Header.Get(lane.HeaderError) != string(tt.code) {
			t.Errorf("%s: %d %v", tt.target, resp.StatusCode, resp.Header)
		}
	}
	if s.alice.hits.Load() != 0 {
		t.Error("the lane was called")
	}
}

func TestConnectThroughUpstream(t *testing.T) {
	auth := make(chan string, 2)
	corp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host == "refused.invalid:443" {
			w.WriteHeader(403)
			return
		}
		auth <- r.Host + " " + r.Header.Get("Proxy-Authorization")
		conn, _, _ := w.(http.Hijacker).Hijack()
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\nfirst words")
		conn.Close()
	}))
	defer corp.Close()
	e := newEnv(t, func(c *Config) { c.Upstream = Upstream{HTTPS: strings.Replace(corp.URL, "http://", "http://u:p@", 1)} })
	_, br, resp := connectTo(t, e, "outside.invalid:443")
	if resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode)
	}
	if b, _ := io.ReadAll(br); string(b) != "first words" {
		t.Errorf("%q", b)
	}
	if got := <-auth; got != "outside.invalid:443 Basic dTpw" {
		t.Error(got)
	}
	if _, _, resp := connectTo(t, e, "refused.invalid:443"); resp.StatusCode != 502 {
		t.Error(resp.StatusCode)
	}
}

// An open tunnel and an open upgrade end with the front.
func TestServeEndsTunnels(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ws := newBackend(t, "ws", echoUpgrade)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", ws.addr(), "dev-alice")))
	stop := e.start(NewForward(e.tr, ForwardConfig{Drain: time.Hour}).Serve)
	_, br1 := raw(t, stop.addr, "CONNECT "+ln.Addr().String()+" HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := http.ReadResponse(br1, &http.Request{Method: http.MethodConnect}); err != nil {
		t.Fatal(err)
	}
	_, br2 := raw(t, stop.addr, "GET http://svc/ws HTTP/1.1\r\nHost: svc\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if _, err := http.ReadResponse(br2, nil); err != nil {
		t.Fatal(err)
	}
	if err := stop.end(); err != nil { // which does not wait for them: they have no end
		t.Error(err)
	}
	for _, br := range []*bufio.Reader{br1, br2} {
		if _, err := io.ReadAll(br); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
	}
	if n := e.log.Last(); n != 2 {
		t.Errorf("%d recorded", n)
	}
}
