package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// rawOrigin answers every connection with a fixed response and gives the head
// that it was sent.
func rawOrigin(t *testing.T, response string) (addr string, heads chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads = make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(testLimit))
			br := bufio.NewReader(conn)
			var head strings.Builder
			for {
				line, err := br.ReadString('\n')
				head.WriteString(line)
				if err != nil || line == "\r\n" {
					break
				}
			}
			heads <- head.String()
			_, _ = io.WriteString(conn, response)
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), heads
}

const okClose = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

func TestTargetByteForByte(t *testing.T) {
	origin, heads := rawOrigin(t, okClose)
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, target := range []string{
		"/", "/a", "/a%2Fb", "/a%2fb%20c", "//", "//a//b", "//a%2Fb;c", "/a;b=c;d", "/a/../b/./c", "/a?", "/a?b=c&d;e=%zz",
		"/a?x=/../%2F?y", "/a|b", "/a[1]{2}", `/a"b`, "/a^b`c", "/%E4%BD%A0", "/ü", "/a+b", "/a:b@c", "/?x", "/%2e%2e/a", "/a%00b", "/a#b", "/a\\b",
	} {
		send := func(addr, line string) string {
			_, br := raw(t, addr, line+" HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s: status %d", line, resp.StatusCode)
				return ""
			}
			first, _, _ := strings.Cut(<-heads, "\r\n")
			return first
		}
		want := "GET " + target + " HTTP/1.1"
		if got := send(e.addr, "GET http://svc"+target); got != want {
			t.Errorf("forward: %q arrived as %q", target, got)
		}
		if got := send(e.addr, "GET http://"+origin+target); got != want {
			t.Errorf("by address: %q arrived as %q", target, got)
		}
		if got := send(guard, "GET "+target); got != want {
			t.Errorf("guard: %q arrived as %q", target, got)
		}
	}
	// Targets without a path.
	for line, want := range map[string]string{
		"GET http://svc":      "GET / HTTP/1.1",
		"GET http://svc?x=1":  "GET /?x=1 HTTP/1.1",
		"OPTIONS http://svc":  "OPTIONS * HTTP/1.1",
		"GET http://svc:80/a": "GET /a HTTP/1.1",
	} {
		_, br := raw(t, e.addr, line+" HTTP/1.1\r\nHost: svc\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(line, err, resp)
		}
		resp.Body.Close()
		if first, _, _ := strings.Cut(<-heads, "\r\n"); first != want {
			t.Errorf("%q arrived as %q", line, first)
		}
	}
}

func TestHopByHop(t *testing.T) {
	origin, heads := rawOrigin(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"+
		"Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-End: 1\r\n\r\n")
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range []struct{ addr, line string }{{e.addr, "GET http://svc/"}, {guard, "GET /"}} {
		_, br := raw(t, at.addr, at.line+" HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nConnection: keep-alive, X-Private\r\n"+
			"X-Private: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\nTE: trailers, deflate\r\n"+
			"Authorization: Bearer kept\r\nX-End: 1\r\nAccept-Encoding: br\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		head := <-heads
		low := strings.ToLower(head)
		for _, bad := range []string{"x-private", "keep-alive", "proxy-", "c2vjcmv0", "deflate", "user-agent", "connection"} {
			if strings.Contains(low, bad) {
				t.Errorf("%s: %q arrived:\n%s", at.line, bad, head)
			}
		}
		for _, good := range []string{"X-End: 1", "Authorization: Bearer kept", "TE: trailers", "Accept-Encoding: br", "x-lane-tag: dev-alice", "baggage: lane=dev-alice", "Host: svc"} {
			if strings.Contains(good, "dev-alice") && at.addr == guard { // passed on as they came
				continue
			}
			if !strings.Contains(head, good+"\r\n") {
				t.Errorf("%s: %q did not arrive:\n%s", at.line, good, head)
			}
		}
		for _, bad := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "Upgrade", "Connection"} {
			if resp.Header.Get(bad) != "" {
				t.Errorf("%s: %s came back", at.line, bad)
			}
		}
		if resp.Header.Get("X-End") != "1" {
			t.Error("X-End lost")
		}
	}
}

func TestExternalSeesNoLane(t *testing.T) {
	s := newShop(t, nil)
	h := http.Header{"X-Lane-Tag": {"dev-bob"}, "Baggage": {"user=1;p=2, lane=dev-bob ,other=x"}, "X-Lane-Hops": {"3"}, "X-Lane-Guard": {"bounced"}, "X-Mine": {"1"}}
	if a := do(t, s.client(), "GET", s.outside.URL+"/", h, nil); a.status != 200 {
		t.Fatal(a)
	}
	got := s.outside.header()
	for _, k := range []string{"X-Lane-Tag", "X-Lane-Hops", "X-Lane-Guard"} {
		if got.Get(k) != "" {
			t.Errorf("%s arrived: %v", k, got)
		}
	}
	if b := strings.Join(got["Baggage"], ","); strings.Contains(b, "lane") || !strings.Contains(b, "user=1;p=2") || !strings.Contains(b, "other=x") {
		t.Errorf("baggage %q", b)
	}
	if got.Get("X-Mine") != "1" {
		t.Error("a foreign header was lost")
	}
	// The session's lane is not told either, and no baggage is made up.
	s.get(s.outside.URL + "/")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "" || got.Get("Baggage") != "" {
		t.Errorf("arrived: %v", got)
	}
	if n := s.tr.Counts().Total("lane_external_total"); n != 2 {
		t.Errorf("%d calls were counted as external, want 2", n)
	}
}

func TestColoredExternal(t *testing.T) {
	names, err := NewNames(NamesConfig{Colored: []string{"127.0.0.*"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, func(c *Config) { c.Names = names })
	s.get(s.outside.URL + "/")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "dev-alice" || got.Get("X-Lane-Hops") != "" {
		t.Errorf("arrived: %v", got)
	}
	s.get(s.outside.URL+"/", "x-lane-tag", "baseline")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "" {
		t.Errorf("an untagged call arrived with %v", got)
	}
}
