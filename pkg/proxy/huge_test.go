package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

const gib = 1 << 30

// zeros is a gigabyte that takes no memory.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	z.left -= int64(n)
	return n, nil
}

// hugeOrigin gives as much as it is asked for, and counts what it is given.
func hugeOrigin(t *testing.T, chunked bool, size int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 64<<10)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
			br := bufio.NewReader(conn)
			r, err := http.ReadRequest(br)
			if err != nil {
				conn.Close()
				continue
			}
			n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buf)
			switch {
			case n > 0:
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: %d\r\n\r\n", n)
			case chunked:
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
				for left := size; left > 0; left -= len(buf) {
					fmt.Fprintf(conn, "%x\r\n", len(buf))
					_, _ = conn.Write(buf)
					_, _ = io.WriteString(conn, "\r\n")
				}
				_, _ = io.WriteString(conn, "0\r\n\r\n")
			default:
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
				_, _ = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{&zeros{int64(size)}}, buf)
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String()
}

// Bodies of a gigabyte pass in both directions, and take no memory.
func TestHugeBodies(t *testing.T) {
	for _, chunked := range []bool{false, true} {
		size := gib
		if chunked { // it is copied piece by piece: a quarter shows the same
			size /= 4
		}
		origin := hugeOrigin(t, chunked, size)
		e := newEnv(t, nil)
		guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
		e.reg.set(service("svc", instance("s", guard, "dev-alice"))) // through both fronts
		for _, method := range []string{"GET", "PUT"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			conn, br := raw(t, e.addr, "")
			_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
			fmt.Fprintf(conn, "%s http://svc/ HTTP/1.1\r\nHost: svc\r\nConnection: close\r\n", method)
			sent := make(chan error, 1)
			go func() {
				buf := make([]byte, 64<<10)
				var err error
				switch {
				case method == "GET":
					_, err = io.WriteString(conn, "\r\n")
				case chunked:
					_, err = io.WriteString(conn, "Transfer-Encoding: chunked\r\n\r\n")
					for left := size; left > 0 && err == nil; left -= len(buf) {
						fmt.Fprintf(conn, "%x\r\n", len(buf))
						_, _ = conn.Write(buf)
						_, err = io.WriteString(conn, "\r\n")
					}
					_, _ = io.WriteString(conn, "0\r\n\r\n")
				default:
					fmt.Fprintf(conn, "Content-Length: %d\r\n\r\n", size)
					_, err = io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{&zeros{int64(size)}}, buf)
				}
				sent <- err
			}()
			resp, err := http.ReadResponse(br, &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, resp.Body, make([]byte, 64<<10))
			if err = errors.Join(err, <-sent); err != nil || resp.StatusCode != 200 {
				t.Fatal(method, chunked, resp.StatusCode, err)
			}
			if got := resp.Header.Get("X-Got"); method == "GET" && n != int64(size) || method == "PUT" && got != fmt.Sprint(size) {
				t.Errorf("%s: %d bytes down, %q up", method, n, got)
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
				t.Errorf("%s: %d MiB were allocated for a gigabyte", method, used>>20)
			}
		}
	}
}
