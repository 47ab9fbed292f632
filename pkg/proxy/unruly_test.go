package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/http1"
)

// scripted is a server of which each connection, counted from 0, is served by a
// function.
func scripted(t *testing.T, serve func(n int, conn net.Conn, br *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	all.Go(func() {
		for n := 0; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(testLimit))
			mu.Lock()
			conns = append(conns, conn)
			mu.Unlock()
			all.Go(func() {
				defer conn.Close()
				serve(n, conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return ln.Addr().String()
}

// readText reads a head, "" at the end.
func readText(br *bufio.Reader) string {
	var head strings.Builder
	for {
		line, err := br.ReadString('\n')
		head.WriteString(line)
		if err != nil {
			return ""
		}
		if line == "\r\n" {
			return head.String()
		}
	}
}

// response reads one response of a connection.
func response(t *testing.T, br *bufio.Reader, method string) answer {
	t.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// A server may answer before it has read the whole request, and the caller may go
// on sending: what comes next on both connections is none the worse for it.
func TestAnswerBeforeTheUpload(t *testing.T) {
	answered := make(chan struct{})
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		for readText(br) != "" {
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			if _, err := io.CopyN(io.Discard, br, 10); err != nil {
				return
			}
			answered <- struct{}{}
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		conn, br := raw(t, at.addr, at.before)
		connected(t, br, at.before)
		for i := range 3 {
			fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nContent-Length: 10\r\n\r\n01234", at.line)
			if a := response(t, br, "POST"); a.status != 200 || a.body != "ok" {
				t.Fatalf("%s: %d: %+v", at.name, i, a)
			}
			fmt.Fprint(conn, "56789")
			select {
			case <-answered:
			case <-time.After(testLimit):
				t.Fatalf("%s: %d: the rest of the body does not come", at.name, i)
			}
		}
	}
}

// The whole body comes to a server that has answered already, and is in the
// record; so it does when the body is far longer than what waits on the way.
func TestAnswerBeforeALongUpload(t *testing.T) {
	const size = 20 << 20
	waited, came := make(chan error, 1), make(chan int64, 1)
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		if readText(br) != "" {
			fmt.Fprint(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
			_ = conn.SetReadDeadline(time.Now().Add(5 * switchWait)) // nothing ends meanwhile
			_, err := br.Peek(1)
			waited <- err
			_ = conn.SetReadDeadline(time.Time{})
			n, _ := io.CopyN(io.Discard, br, size)
			came <- n
			readText(br)
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnext")
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		from := e.log.Last()
		conn, br := raw(t, at.addr, at.before)
		connected(t, br, at.before)
		fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nContent-Length: %d\r\n\r\n", at.line, size)
		if a := response(t, br, "POST"); a.status != 202 {
			t.Fatalf("%s: %+v", at.name, a)
		}
		if err := <-waited; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: the server is left behind its answer: %v", at.name, err)
		}
		for sent := 0; sent < size; sent += 1 << 20 {
			if _, err := conn.Write(make([]byte, 1<<20)); err != nil {
				t.Fatalf("%s: after %d bytes: %v", at.name, sent, err)
			}
		}
		if n := <-came; n != size {
			t.Errorf("%s: %d bytes came", at.name, n)
		}
		fmt.Fprintf(conn, "GET %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n", at.line)
		if a := response(t, br, "GET"); a.body != "next" {
			t.Errorf("%s: then %+v", at.name, a)
		}
		if ex := e.exchange(from + 1); ex.ReqSize != size || ex.Err != "" || ex.Note != "" {
			t.Errorf("%s: recorded %d bytes, %q, %q", at.name, ex.ReqSize, ex.Err, ex.Note)
		}
	}
}

// A server that answers and closes does not get the rest: the record says so, and
// nobody waits for the caller.
func TestAnswerInPlaceOfTheUpload(t *testing.T) {
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		readText(br)
		fmt.Fprint(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	conn, br := raw(t, e.addr, "POST http://svc/ HTTP/1.1\r\nHost: svc\r\nContent-Length: 100000000\r\n\r\n")
	if a := response(t, br, "POST"); a.status != 413 {
		t.Fatalf("%+v", a)
	}
	for p := make([]byte, 64<<10); ; {
		if _, err := conn.Write(p); err != nil {
			break
		}
	}
	if ex := e.exchange(1); ex.Status != 413 || !strings.Contains(ex.Note, "did not take the whole request") || ex.Err != "" {
		t.Errorf("recorded %d, %q, %q", ex.Status, ex.Note, ex.Err)
	}
}

// A caller that resets its connection while the server takes nothing ends the call,
// and is what the record names.
func TestResetWhileTheServerReadsNothing(t *testing.T) {
	ended := make(chan error, 1)
	gone := make(chan struct{})
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		if readText(br) == "" {
			return
		}
		<-gone
		_, err := io.Copy(io.Discard, br)
		ended <- err
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	conn, _ := raw(t, e.addr, "POST http://svc/ HTTP/1.1\r\nHost: svc\r\nContent-Length: 1000000000\r\n\r\n")
	for p := make([]byte, 64<<10); ; { // until nobody takes any more
		_ = conn.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := conn.Write(p); err != nil {
			break
		}
	}
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if ex := e.exchange(1); ex.Err != callerLeft+" before the answer" { // the server still reads nothing
		t.Errorf("recorded %q", ex.Err)
	}
	close(gone)
	select {
	case <-ended:
	case <-time.After(testLimit):
		t.Error("the server's connection stays")
	}
}

// Whatever a request waits for, the end of a front ends it.
func TestStopEndsEveryWait(t *testing.T) {
	const post = "POST / HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nContent-Length: 100000000\r\n\r\n"
	const get = "GET / HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n"
	const absolute = "GET http://svc/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n"
	for name, tt := range map[string]struct {
		text   string
		stream bool   // goes on sending
		answer string // what the server says before it falls silent
	}{
		"an answer":                       {text: get},
		"an answer, and another request":  {text: get + get},
		"a body, and another request":     {text: get + get, answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nx"},
		"a handler, and another request":  {text: absolute + get},
		"the caller's body":               {text: post},
		"a server that never reads":       {text: post, stream: true},
		"a server that answers and waits": {text: post, stream: true, answer: "HTTP/1.1 200 OK\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 16)
			hold := make(chan struct{})
			defer close(hold)
			origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
				readText(br)
				fmt.Fprint(conn, tt.answer)
				asked <- struct{}{}
				<-hold
			})
			e := newEnv(t, nil)
			g, err := NewGuard(e.tr, GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}, Drain: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- g.Serve(ctx, ln) }()
			conn, _ := raw(t, ln.Addr().String(), tt.text)
			sending := make(chan struct{})
			go func() {
				defer close(sending)
				for p := make([]byte, 64<<10); tt.stream; {
					if _, err := conn.Write(p); err != nil {
						return
					}
				}
			}()
			<-asked
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(testLimit):
				t.Fatal("the front does not end")
			}
			conn.Close()
			<-sending
			if ex := e.exchange(1); !strings.Contains(ex.Err, callerLeft) {
				t.Errorf("recorded %+v", ex)
			}
		})
	}
}

// tcpPair are the two ends of a connection.
func tcpPair(t *testing.T) (one, other net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if one, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close() })
	if other, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return one, other
}

// An upload that ends before its end leaves the caller's connection where it is:
// what is left of the body can be read, and the next request begins behind it.
func TestUploadEndsEarly(t *testing.T) {
	const size = 200 << 10
	for name, fails := range map[string]func(server net.Conn){
		"whole":    nil,
		"too late": func(server net.Conn) { server.Close() },
		"closed":   func(server net.Conn) { _ = server.(*net.TCPConn).CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			caller, conn := tcpPair(t)
			server, far := tcpPair(t)
			read := make(chan int64, 1)
			go func() {
				n, _ := io.Copy(io.Discard, far)
				read <- n
			}()
			go fmt.Fprint(caller, strings.Repeat("x", size), "GET /next")
			l := &line{conn: conn, in: http1.NewReader(conn)}
			l.up.Reset(l.in, http1.ByLength, size)
			if fails != nil {
				fails(server)
			}
			err := l.upload(&peer{conn: server})
			server.Close()
			n := <-read
			if whole := fails == nil; whole != (err == nil) || whole != l.way.sent.Load() || whole != (n == size) {
				t.Errorf("%v, %d bytes came, all sent: %t", err, n, l.way.sent.Load())
			}
			rest, err := io.Copy(io.Discard, &l.up)
			if went := l.way.c.body.n.Load(); err != nil || went+rest != size {
				t.Errorf("%d read, then %d of %d: %v", went, rest, size, err)
			}
			next := make([]byte, len("GET /next"))
			if _, err := io.ReadFull(l.in, next); err != nil || string(next) != "GET /next" {
				t.Errorf("then %q, %v", next, err)
			}
		})
	}
}

// leaver is the connection of a caller that leaves as soon as it has all.
type leaver struct {
	net.Conn
	heads chan struct{} // gets one for each write but the last
	last  string        // how the last one ends
	leave func()
}

func (l *leaver) Write(p []byte) (int, error) {
	n, err := l.Conn.Write(p)
	if strings.HasSuffix(string(p), l.last) {
		l.leave()
	} else {
		l.heads <- struct{}{}
	}
	return n, err
}

// A caller that leaves with the whole answer has not left too early.
func TestLeavesWithTheAnswer(t *testing.T) {
	heads, asked := make(chan struct{}, 1), make(chan struct{})
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		readText(br)
		close(asked)
		_, _ = io.CopyN(io.Discard, br, 4)
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
		<-heads
		fmt.Fprint(conn, "ok")
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	caller, conn := tcpPair(t)
	gone := &leaver{Conn: conn, heads: heads, last: "ok"}
	l := newLine(e.fwd.srv, gone)
	gone.leave = func() {
		caller.Close()
		eventually(t, "it is heard", l.ear.heardEnd)
	}
	fmt.Fprint(caller, "POST http://svc/ HTTP/1.1\r\nHost: svc\r\nContent-Length: 4\r\n\r\n")
	e.fwd.srv.take(l)
	<-asked // from here on it is listened to
	fmt.Fprint(caller, "body")
	if ex := e.exchange(1); ex.ReqSize != 4 || ex.ResSize != 2 || ex.Err != "" || ex.Took < ex.First {
		t.Errorf("recorded %+v", ex)
	}
}
