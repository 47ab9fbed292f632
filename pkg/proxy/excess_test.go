package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Informational responses are passed on, and have an end.
func TestEndlessHints(t *testing.T) {
	ended := make(chan struct{}, 8)
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		defer func() { ended <- struct{}{} }()
		readText(br)
		for err := error(nil); err == nil; {
			_, err = fmt.Fprint(conn, "HTTP/1.1 103 Early Hints\r\nX-A: b\r\nContent-Length: 5\r\n\r\n")
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		conn, br := raw(t, at.addr, at.before)
		connected(t, br, at.before)
		fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n", at.line)
		hints := 0
		for {
			head := readText(br)
			if !strings.HasPrefix(head, "HTTP/1.1 103 ") {
				if !strings.HasPrefix(head, "HTTP/1.1 502 ") {
					t.Errorf("%s: after %d: %q", at.name, hints, head)
				}
				break
			}
			if hints++; strings.Contains(head, "Content-Length") || !strings.Contains(head, "X-A: b") {
				t.Fatalf("%s: %q", at.name, head)
			}
		}
		if hints != maxHints {
			t.Errorf("%s: %d hints", at.name, hints)
		}
		<-ended
	}
}

// What is recorded of a request with a long head is not the head.
func TestLongHeadsAreLetGo(t *testing.T) {
	origin := newBackend(t, "origin", func(http.ResponseWriter, *http.Request) {})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	const n, size = 200, 100 << 10
	long := strings.Repeat("x", size)
	conn, br := raw(t, e.addr, "")
	before := heap()
	for i := range n {
		target, field := "/", long
		if i%2 > 0 {
			target, field = "/"+long, ""
		}
		_ = conn.SetDeadline(time.Now().Add(testLimit)) // for each, as they are many
		fmt.Fprintf(conn, "GET http://svc%s HTTP/1.1\r\nHost: svc\r\nX: %s\r\n\r\n", target, field)
		if a := response(t, br, "GET"); a.status != 200 {
			t.Fatal(a)
		}
	}
	if after := heap(); after > before+n*size/2 {
		t.Errorf("%d MiB before, %d MiB after", before>>20, after>>20)
	}
	if ex := e.exchange(n); ex.Method != "GET" || ex.Service != "svc" || ex.Lane != "dev-alice" || !strings.HasPrefix(ex.URL, "http://svc/xxx") {
		t.Errorf("recorded %+v", ex)
	}
}

// A caller that announced its body and sends it at once, unasked, gets the answer
// that it does not wait for.
func TestUnwantedBody(t *testing.T) {
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		if readText(br) == "" {
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		conn, br := raw(t, at.addr, at.before)
		connected(t, br, at.before)
		const size = 200 << 10
		fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", at.line, size)
		if _, err := io.WriteString(conn, strings.Repeat("x", size)); err != nil {
			t.Fatal(at.name, err)
		}
		if a := response(t, br, "POST"); a.status != 413 || a.body != "no" {
			t.Errorf("%s: %+v", at.name, a)
		}
		if _, err := br.ReadByte(); err != io.EOF {
			t.Errorf("%s: then %v", at.name, err)
		}
	}
}

// 100 Continue never comes in the middle of a response, also where net/http reads
// the body on a goroutine of its own.
func TestContinueBeforeTheResponse(t *testing.T) {
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		for readText(br) != "" {
			fmt.Fprint(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if _, err := io.CopyN(io.Discard, br, 4); err != nil {
				return
			}
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, before := range []string{"", tunnelled} {
		for range 20 {
			conn, br := raw(t, e.addr, before+"POST http://svc/ HTTP/1.1\r\nHost: svc\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
			connected(t, br, before)
			head := readText(br)
			if strings.HasPrefix(head, "HTTP/1.1 100 ") {
				fmt.Fprint(conn, "body")
				head = readText(br)
			}
			body, _ := io.ReadAll(io.LimitReader(br, 2))
			if !strings.HasPrefix(head, "HTTP/1.1 200 ") || string(body) != "ok" {
				t.Fatalf("%q: %q %q", before, head, body)
			}
			conn.Close()
		}
	}
}

// CONNECT has no body: it would be the first that the tunnel's server sees.
func TestConnectWithBody(t *testing.T) {
	origin := newBackend(t, "origin", nil)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
	const inner = "GET /smuggled HTTP/1.1\r\nHost: svc\r\n\r\n"
	for _, fields := range []string{
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(inner), inner),
		fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(inner), inner),
	} {
		_, br := raw(t, e.addr, "CONNECT svc:80 HTTP/1.1\r\nHost: svc:80\r\n"+fields)
		if a := response(t, br, "GET"); a.status != 400 {
			t.Errorf("%q: %+v", fields, a)
		}
	}
	if n := origin.hits.Load(); n > 0 {
		t.Errorf("the server was asked %d times", n)
	}
	_, br := raw(t, e.addr, "CONNECT svc:80 HTTP/1.1\r\nHost: svc:80\r\nContent-Length: 0\r\n\r\n"+inner)
	connected(t, br, "CONNECT")
	if a := response(t, br, "GET"); a.status != 200 {
		t.Errorf("without a body: %+v", a)
	}
}

// A name that net/http reads from a server, though it is none, goes no further.
func TestServersHeadThroughHandlers(t *testing.T) {
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		for readText(br) != "" {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX B: c\r\nX-C: d\r\n\r\nok")
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	_, br := raw(t, e.addr, tunnelled+"GET http://svc/ HTTP/1.1\r\nHost: svc\r\n\r\n")
	connected(t, br, tunnelled)
	head := readText(br)
	if strings.Contains(head, "X B") || !strings.HasPrefix(head, "HTTP/1.1 200 ") || !strings.Contains(head, "X-C: d\r\n") {
		t.Errorf("came back %q", head)
	}
}
