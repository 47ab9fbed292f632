package proxy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

// bytesOrigin takes one request a connection, gives the bytes that it was sent,
// and answers with a fixed response.
func bytesOrigin(t *testing.T, response string) (addr string, got chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan string, 16)
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
			var text strings.Builder
			for !strings.HasSuffix(text.String(), "\r\n\r\n") {
				b, err := br.ReadByte()
				if err != nil {
					break
				}
				text.WriteByte(b)
			}
			if _, n, ok := strings.Cut(text.String(), "Content-Length: "); ok {
				var length int64
				_, _ = fmt.Sscan(n, &length)
				body, _ := io.ReadAll(io.LimitReader(br, length))
				text.Write(body)
			} else if strings.Contains(text.String(), "chunked") {
				_, behind, _ := strings.Cut(text.String(), "\r\n\r\n")
				for at := text.Len() - len(behind); !strings.HasSuffix(text.String(), "\r\n\r\n") || !strings.Contains(text.String()[at:], "0\r\n"); {
					b, err := br.ReadByte()
					if err != nil {
						break
					}
					text.WriteByte(b)
				}
			}
			got <- text.String()
			_, _ = io.WriteString(conn, response)
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), got
}

// threeWays are the places where HTTP/1 comes in: before is what a caller sends
// there first, line what stands before its path.
func threeWays(t *testing.T, e *env, origin string) []struct{ name, addr, before, line string } {
	t.Helper()
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	return []struct{ name, addr, before, line string }{
		{"the port", e.addr, "", "http://svc"},
		{"inside CONNECT", e.addr, "CONNECT svc:80 HTTP/1.1\r\nHost: svc:80\r\n\r\n", ""},
		{"the guard", guard, "", ""},
	}
}

// tunnelled is what stands before a request inside CONNECT: one in absolute form
// goes net/http's ways there.
const tunnelled = "CONNECT svc:80 HTTP/1.1\r\nHost: svc:80\r\n\r\n"

// connected reads the answer to CONNECT.
func connected(t *testing.T, br *bufio.Reader, before string) {
	t.Helper()
	if before == "" {
		return
	}
	resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
}

const okBytes = "HTTP/1.1 200 Fine\r\nX-b: 2\r\nx-A:1\r\nSERVER: s\r\nX-b: 3\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"

// A head keeps its fields' order, their letter case and their spaces; what is ours
// stands in its place, or at the end.
func TestHeadBytes(t *testing.T) {
	origin, got := bytesOrigin(t, okBytes)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		t.Run(at.name, func(t *testing.T) {
			fields := "hOsT: svc\r\nzz-Last:  two  spaces \r\nX-a:1\r\nx-A: 2\r\nCOOKIE: a=b; c=d\r\nauthorization: Bearer t\r\n" +
				"Connection: keep-alive, x-private\r\nX-Private: 1\r\nX-LANE-Tag: dev-alice\r\nBaggage: user=1;p=2, k=v\r\nContent-Length: 4\r\nA: z\r\n\r\nbody"
			conn, br := raw(t, at.addr, at.before)
			connected(t, br, at.before)
			fmt.Fprintf(conn, "POST %s/a%%2Fb;c HTTP/1.1\r\n%s", at.line, fields)
			want := "POST /a%2Fb;c HTTP/1.1\r\nhOsT: svc\r\nzz-Last:  two  spaces \r\nX-a:1\r\nx-A: 2\r\nCOOKIE: a=b; c=d\r\nauthorization: Bearer t\r\n" +
				"x-lane-tag: dev-alice\r\nbaggage: user=1;p=2, k=v,lane=dev-alice\r\nContent-Length: 4\r\nA: z\r\nx-lane-hops: 1\r\n\r\nbody"
			if at.name == "the guard" { // it has nothing to write but the hops
				want = strings.Replace(want, "x-lane-tag", "X-LANE-Tag", 1)
				want = strings.Replace(want, "baggage: user=1;p=2, k=v,lane=dev-alice", "Baggage: user=1;p=2, k=v", 1)
			}
			if text := <-got; text != want {
				t.Errorf("arrived\n%s\nwant\n%s", text, want)
			}
			instance := "s"
			if at.name == "the guard" {
				instance = "g"
			}
			want = "HTTP/1.1 200 Fine\r\nX-b: 2\r\nx-A:1\r\nSERVER: s\r\nX-b: 3\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\ncontent-length: 2\r\n" +
				"X-Lane-Decision: LANE_MATCH; lane=dev-alice; instance=" + instance + "\r\n\r\nok"
			answer := make([]byte, len(want))
			if _, err := io.ReadFull(br, answer); err != nil || string(answer) != want {
				t.Errorf("came back\n%s\nwant\n%s", answer, want)
			}
		})
	}
}

// What two programs could read differently is answered and ends the connection:
// nothing of it, and nothing behind it, reaches a server.
func TestSmuggling(t *testing.T) {
	origin, got := bytesOrigin(t, okBytes)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	const second = "GET /smuggled HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n"
	for _, at := range threeWays(t, e, origin) {
		for name, tt := range map[string]struct {
			fields string
			status int
		}{
			"both lengths":           {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
			"both, the other way":    {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400},
			"two lengths":            {"Content-Length: 0\r\nContent-Length: 5\r\n\r\n", 400},
			"one length twice":       {"Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 400},
			"a bare line feed":       {"X: a\nY: b\r\n\r\n", 400},
			"bare line feeds at end": {"X: a\n\n", 400},
			"a folded line":          {"X: a\r\n b: c\r\n\r\n", 400},
			"a space before a colon": {"Content-Length : 5\r\n\r\n", 400},
			"a NUL":                  {"X: a\x00b\r\n\r\n", 400},
			"another coding":         {"Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
			"a huge head":            {"X: " + strings.Repeat("x", maxRequestHead) + "\r\n\r\n", 431},
		} {
			t.Run(at.name+"/"+name, func(t *testing.T) {
				before := e.log.Last()
				conn, br := raw(t, at.addr, at.before)
				connected(t, br, at.before)
				go func() { // a huge head may not be read to its end
					fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n%s", at.line, tt.fields)
					fmt.Fprint(conn, second)
				}()
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				var p Problem
				if err != nil || resp.StatusCode != tt.status || !resp.Close || resp.Header.Get(lane.HeaderError) != string(CodeBadRequest) ||
					json.Unmarshal(body, &p) != nil || p.Hint == "" {
					t.Errorf("%d %v %q, %v", resp.StatusCode, resp.Header, body, err)
				}
				if rest, err := io.ReadAll(br); len(rest) > 0 {
					t.Errorf("then came %q, %v", rest, err)
				}
				if ex := e.exchange(before + 1); ex.Code != CodeBadRequest || ex.Status != tt.status || !ex.Failed() {
					t.Errorf("recorded %+v", ex)
				}
			})
		}
	}
	select {
	case text := <-got:
		t.Errorf("the server was sent %q", text)
	default:
	}
}

// A body that is framed wrongly is cut off, and so is what stands behind it.
func TestBadChunks(t *testing.T) {
	for _, body := range []string{"5\r\nabc\r\n0\r\n\r\n", "-1\r\n", "0x1\r\na\r\n0\r\n\r\n", "1\na\n0\n\n", "0\r\nX : a\r\n\r\n"} {
		origin := newBackend(t, "origin", func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.ReadAll(r.Body); err == nil {
				t.Errorf("%q arrived whole", body)
			}
		})
		e := newEnv(t, nil)
		e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
		for _, at := range threeWays(t, e, origin.addr()) {
			conn, br := raw(t, at.addr, at.before)
			connected(t, br, at.before)
			fmt.Fprintf(conn, "POST %s/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nTransfer-Encoding: chunked\r\n\r\n%sGET %s/smuggled HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n", at.line, body, at.line)
			if answer, _ := io.ReadAll(br); !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || !strings.Contains(string(answer), string(CodeBadRequest)) {
				t.Errorf("%s: %q is answered %q", at.name, body, answer)
			}
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s: %q: the connection goes on", at.name, body)
			}
		}
		origin.mu.Lock()
		if r := origin.last; r != nil && r.URL.Path == "/smuggled" {
			t.Errorf("%q: a second request arrived", body)
		}
		origin.mu.Unlock()
	}
}

// A request that needs net/http's ways is refused alike, and never answered with a
// success that nobody gave.
func TestBadBodyOfAnAbsoluteTarget(t *testing.T) {
	origin := newBackend(t, "origin", func(w http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) })
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin.addr()}})
	for _, at := range []struct{ addr, before string }{{guard, ""}, {e.addr, tunnelled}} {
		for _, tt := range []struct{ rest, want string }{
			{"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", "HTTP/1.1 400 "},
			{"Content-Length: 50\r\n\r\nabc", ""}, // and then it leaves
		} {
			conn, br := raw(t, at.addr, at.before+"POST http://svc/m HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n"+tt.rest)
			if tt.want == "" {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			connected(t, br, at.before)
			answer, _ := io.ReadAll(br)
			if !strings.HasPrefix(string(answer), tt.want) || tt.want == "" && len(answer) > 0 {
				t.Errorf("%q %q: answered %q", at.before, tt.rest, answer)
			}
		}
	}
}

// Requests that a caller sends without waiting are answered in their order.
func TestPipelining(t *testing.T) {
	origin := newBackend(t, "origin", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, b)
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin.addr(), "dev-alice")))
	for _, at := range threeWays(t, e, origin.addr()) {
		conn, br := raw(t, at.addr, at.before)
		connected(t, br, at.before)
		const n = 50
		var all strings.Builder
		for i := range n {
			switch i % 3 {
			case 0:
				fmt.Fprintf(&all, "GET %s/%d HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n", at.line, i)
			case 1:
				fmt.Fprintf(&all, "POST %s/%d HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nContent-Length: 3\r\n\r\nabc", at.line, i)
			case 2:
				fmt.Fprintf(&all, "POST %s/%d HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", at.line, i)
			}
		}
		sent := make(chan error, 1)
		go func() { _, err := io.WriteString(conn, all.String()); sent <- err }()
		for i := range n {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(at.name, i, err)
			}
			body, _ := io.ReadAll(resp.Body)
			want := fmt.Sprintf("/%d ", i)
			if i%3 > 0 {
				want += "abc"
			}
			if string(body) != want {
				t.Fatalf("%s: %d: %q", at.name, i, body)
			}
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
}
