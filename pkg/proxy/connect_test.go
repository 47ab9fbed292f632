package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"lane/pkg/lane"
)

// through sends one request inside an open tunnel and reads its answer.
func through(t *testing.T, conn net.Conn, br *bufio.Reader, head string) answer {
	t.Helper()
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(br, nil)
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

// Plain HTTP inside CONNECT, as Node's clients send it: each request is colored
// and decided by itself.
func TestConnectPlainHTTP(t *testing.T) {
	s := newShop(t, nil)
	for i, tt := range []struct{ target, url string }{
		{"order-service:80", "http://order-service/a%2Fb?x"},
		{"order-service:8080", "http://order-service:8080/a%2Fb?x"},
		{"order-service.service.consul:443", "http://order-service.service.consul:443/a%2Fb?x"},
		{s.alice.addr(), "http://" + s.alice.addr() + "/a%2Fb?x"},
	} {
		conn, br, resp := connectTo(t, s.env, tt.target)
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d", tt.target, resp.StatusCode)
		}
		for j, tag := range []string{"", "baseline", "dev-bob", ""} {
			head := "GET /a%2Fb?x HTTP/1.1\r\nHost: orders.test\r\n"
			who, base := "alice", s.base.hits.Load()
			if tag != "" {
				head += "x-lane-tag: " + tag + "\r\n"
				who = "base"
			}
			a := through(t, conn, br, head)
			if a.body != who {
				t.Errorf("%s %q: %q", tt.target, tag, a.body)
			}
			if who == "base" && s.base.hits.Load() != base+1 {
				t.Error("not the baseline")
			}
			ex := s.exchange(uint64(4*i + j + 1))
			if ex.URL != tt.url || ex.Method != "GET" || ex.Proto != "HTTP/1.1" || ex.Service != "order-service" || ex.Note != "" || ex.Tag != tag {
				t.Errorf("%+v", ex)
			}
		}
		if h := s.alice.header(); h.Get("X-Lane-Tag") != "dev-alice" {
			t.Errorf("arrived: %v", h)
		}
		s.alice.mu.Lock()
		if s.alice.last.Host != "orders.test" {
			t.Errorf("host %q", s.alice.last.Host)
		}
		s.alice.mu.Unlock()
		conn.Close()
	}
}

// A lane is reached where there is no baseline, and what fails inside is answered
// inside.
func TestConnectAnswersInside(t *testing.T) {
	s := newShop(t, nil)
	s.reg.set(service("order-service", instance("o-alice", s.alice.addr(), "dev-alice")),
		service("dead", instance("d", closedAddr(t), "")))
	conn, br, _ := connectTo(t, s.env, "order-service:80")
	if a := through(t, conn, br, "GET / HTTP/1.1\r\nHost: x\r\n"); a.body != "alice" {
		t.Errorf("%+v", a)
	}
	conn, br, _ = connectTo(t, s.env, "dead:80")
	if a := through(t, conn, br, "GET / HTTP/1.1\r\nHost: x\r\n"); a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
		t.Errorf("%+v", a)
	}
	// The proxy's own address is a page, and no loop.
	conn, br, _ = connectTo(t, s.env, "order-service:80")
	if a := through(t, conn, br, "GET http://"+s.addr+"/ HTTP/1.1\r\nHost: "+s.addr+"\r\n"); a.status != 200 || a.body != pageText {
		t.Errorf("%+v", a)
	}
	if a := through(t, conn, br, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n"); a.status != 400 {
		t.Errorf("%+v", a)
	}
}

// A client that opens a tunnel and speaks when the proxy has long begun to wait
// for the server is colored all the same: to a service, with a baseline and
// without, and to a host outside.
func TestConnectSpeaksLate(t *testing.T) {
	dials := make(chan net.Conn, 4)
	quiet, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := quiet.Accept()
			if err != nil {
				return
			}
			dials <- c
		}
	}()
	defer func() { quiet.Close(); <-done }()
	s := newShop(t, nil)
	s.reg.set(service("order-service", instance("q", quiet.Addr().String(), ""), instance("o-alice", s.alice.addr(), "dev-alice")))
	conn, br, _ := connectTo(t, s.env, "order-service:80")
	server := <-dials // the wait is over, and the baseline is asked
	if a := through(t, conn, br, "GET / HTTP/1.1\r\nHost: x\r\n"); a.body != "alice" {
		t.Errorf("%+v", a)
	}
	if b, err := io.ReadAll(server); len(b) > 0 {
		t.Errorf("the baseline got %q, %v", b, err)
	}
	server.Close()
	if ex := s.exchange(1); ex.Kind != lane.KindLaneMatch || ex.Method != "GET" {
		t.Errorf("%+v", ex)
	}
	conn.Close()
	if n := s.log.Last(); n != 1 {
		t.Errorf("%d recorded, want the request alone", n)
	}
}

// Some servers of HTTP/2 send their settings before the caller has said anything.
// The caller begins all the same, so they are held back until it does.
func TestHeldSettings(t *testing.T) {
	const frame = "\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"
	const mail = "220 mail.test ESMTP"
	ping := "\x00\x00\x06\x06" + frame[4:]
	for name, tt := range map[string]struct {
		server, caller string // "" leaves
		waits          bool
		want           kind
		got            string // by the caller
	}{
		"HTTP/2":           {frame, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true, kindHTTP, ""},
		"another caller":   {frame, "\x01\x02", true, kindRaw, frame},
		"the caller left":  {frame, "", true, kindRaw, ""},
		"another protocol": {mail, "", false, kindRaw, mail},
		"another frame":    {ping, "", false, kindRaw, ping},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, conn := net.Pipe()
				h := &held{Conn: conn, opens: func(k kind) bool { return k == kindHTTP }}
				up, down, got := make(chan error, 1), make(chan error, 1), make(chan string, 1)
				go func() { _, err := io.Copy(io.Discard, struct{ io.Reader }{h}); up <- err }()
				go func() {
					_, err := h.Write([]byte(tt.server))
					down <- err
					conn.Close()
				}()
				synctest.Wait()
				if waits := h.settled() == kindUnknown; waits != tt.waits {
					t.Errorf("waits for the caller: %v", waits)
				}
				if tt.waits && tt.caller == "" {
					caller.Close()
				} else if tt.waits {
					_, _ = io.WriteString(caller, tt.caller)
				}
				go func() {
					b, _ := io.ReadAll(caller)
					got <- string(b)
				}()
				if err := <-down; errors.Is(err, errInside) != (tt.want == kindHTTP) {
					t.Errorf("server: %v", err)
				}
				<-up
				if k, b := h.settled(), <-got; k != tt.want || b != tt.got {
					t.Errorf("settled as %d, the caller got %q; want %d, %q", k, b, tt.want, tt.got)
				}
				caller.Close()
			})
		})
	}
}

// The server speaks first: nothing waits for the caller.
func TestConnectServerFirst(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "220 mail.test ESMTP\r\n")
			line, _ := bufio.NewReader(c).ReadString('\n')
			fmt.Fprint(c, "250 "+line)
			c.Close()
		}
	}()
	defer func() { ln.Close(); <-done }()
	e := newEnv(t, nil)
	e.reg.set(service("mail", instance("m", ln.Addr().String(), "")))
	// A service's odd port, one that is known, and a host outside.
	for i, target := range []string{"mail:12345", "mail:25", "localhost:" + ln.Addr().String()[len("127.0.0.1:"):]} {
		if i == 2 {
			e.reg.set()
		}
		conn, br, _ := connectTo(t, e, target)
		if line, err := br.ReadString('\n'); line != "220 mail.test ESMTP\r\n" {
			t.Fatalf("%q %v", line, err)
		}
		fmt.Fprint(conn, "GET / HTTP/1.1\r\n") // whatever it says now is the server's
		if b, err := io.ReadAll(br); string(b) != "250 GET / HTTP/1.1\r\n" {
			t.Errorf("%q %v", b, err)
		}
		conn.Close()
		if ex := e.exchange(uint64(i + 1)); ex.Method != "CONNECT" || ex.ResSize == 0 || ex.ReqSize == 0 || (ex.Note == noteTunnel) != (i < 2) {
			t.Errorf("%+v", ex)
		}
	}
}

// The first bytes come in pieces, and some with the CONNECT itself.
func TestConnectInPieces(t *testing.T) {
	s := newShop(t, nil)
	conn, br := raw(t, s.addr, "CONNECT order-service:80 HTTP/1.1\r\nHost: x\r\n\r\nGE")
	if _, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect}); err != nil {
		t.Fatal(err)
	}
	if a := through(t, conn, br, "T / HTTP/1.1\r\nHost: x\r\n"); a.body != "alice" {
		t.Errorf("%+v", a)
	}
}

func TestSniff(t *testing.T) {
	for in, want := range map[string]kind{
		"": kindUnknown, "\x16": kindTLS, "G": kindUnknown, "GET": kindUnknown, "GET ": kindUnknown, "GET /": kindHTTP,
		"M-SEARCH * ": kindHTTP, "PRI * HTTP/2.0": kindHTTP, "GET h": kindUnknown, "GET HTTP://x": kindHTTP,
		"NICK foo": kindRaw, "PING\r\n": kindRaw, "get /": kindRaw, " GET /": kindRaw, "SSH-2.0-x": kindRaw, "*1\r\n": kindRaw,
		"CONNECT a:1": kindRaw, "\x00\x00\x00\x08": kindRaw, strings.Repeat("A", 25): kindRaw, "STOMP\n": kindRaw,
	} {
		if got := sniff([]byte(in)); got != want {
			t.Errorf("%q is %d, want %d", in, got, want)
		}
	}
}

// More bytes change no answer, and an answer comes after few.
func FuzzSniff(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x16\x03\x01", "NICK a", "GET http://a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := kindUnknown
		for i := range len(b) + 1 {
			k := sniff(b[:i])
			if before != kindUnknown && k != before {
				t.Fatalf("%q is %d, and one byte less %d", b[:i], k, before)
			}
			if k == kindUnknown && i > maxMethod+len(" http") {
				t.Fatalf("%q is still unknown", b[:i])
			}
			if before = k; k == kindHTTP && (b[0] < 'A' || b[0] > 'Z') {
				t.Fatalf("%q", b[:i])
			}
		}
	})
}
