//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// serve answers each request, the n-th after its delay, until the test ends.
func serve(t *testing.T, answer func(n int, id string) string) string {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { ln.Close(); all.Wait() })
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for n := 0; ; n++ {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					if _, err := io.WriteString(conn, answer(n, req.Header.Get("id"))); err != nil {
						return
					}
				}
			})
		}
	})
	return ln.Addr().String()
}

func result(t *testing.T, args ...string) (requests, micros, size, p50, p99, failed int64) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(o, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(out.String(), "RESULT %d %d %d %d %d %d\n", &requests, &micros, &size, &p50, &p99, &failed); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	return
}

const ok = "HTTP/1.1 200 OK\r\nContent-length: 2\r\n\r\nhi"

// Every request is sent, each with a number of its own.
func TestEveryRequestIsSent(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	addr := serve(t, func(_ int, id string) string {
		mu.Lock()
		defer mu.Unlock()
		seen[id] = true
		return ok
	})
	n, _, size, _, _, failed := result(t, "-addr", addr, "-rate", "1000", "-time", "100ms", "-conns", "3", "-H", "Host: x", "-H", "id: a"+mark)
	mu.Lock()
	defer mu.Unlock()
	if n != 100 || failed != 0 || size != 100*int64(len(ok)) || len(seen) != 100 || !seen["a00000063"] {
		t.Errorf("%d requests, %d failed, %d bytes, %d seen", n, failed, size, len(seen))
	}
}

// A request that goes later than its moment, because the ones before it were slow,
// is counted with what it waited; the server's own time is another thing.
func TestWaitingCounts(t *testing.T) {
	addr := serve(t, func(int, string) string { return ok })
	o, err := parse([]string{"-addr", addr, "-rate", "1000", "-time", "10ms", "-conns", "1", "-H", "Host: x"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	took := make([]time.Duration, 10)
	c.run(0, time.Now().Add(-time.Hour), took)
	for i, d := range took {
		if d < time.Hour-10*time.Millisecond {
			t.Errorf("request %d took %s", i, d)
		}
	}
}

func TestFailuresCount(t *testing.T) {
	for name, answer := range map[string]string{
		"status": "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
		"length": "HTTP/1.1 200 OK\r\n\r\n",
		"more":   ok + "!",
	} {
		addr := serve(t, func(int, string) string { return answer })
		if n, _, _, _, _, failed := result(t, "-addr", addr, "-rate", "1000", "-time", "10ms", "-conns", "1", "-H", "Host: x"); n != 0 || failed != 10 {
			t.Errorf("%s: %d requests, %d failed", name, n, failed)
		}
	}
}

func TestArguments(t *testing.T) {
	for _, bad := range [][]string{
		{}, {"-addr", "127.0.0.1:1", "-rate", "0"}, {"-addr", "127.0.0.1:1", "x"}, {"-addr", "127.0.0.1:1", "-H", "x"}, {"-addr", "127.0.0.1:1", "-time", "1us"},
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
