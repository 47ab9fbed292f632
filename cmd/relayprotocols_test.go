//go:build unix

package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
)

// serveBoth is serve for HTTP/1 and for HTTP/2 without TLS.
func (f *field) serveBoth(h http.Handler) (addr string) {
	f.t.Helper()
	ln, err := consultest.Listen()
	if err != nil {
		f.t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // it ends with Close
	}()
	f.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return ln.Addr().String()
}

// Streams in both directions, trailers, upgrades and half-closed connections come through
// the processes of a relay and a laptop as they are; and nothing that is not the lane's
// does, nor goes round in a circle.
func TestProtocolsThroughARelay(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("orders", "orders-base", f.serveBoth(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "baseline") })), nil)
	mux := http.NewServeMux()
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it anyway
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil { // each waits for a word of the caller's
				return
			}
		}
	})
	mux.HandleFunc("/t.T/Call", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("Content-Type", "application/grpc")
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Proto, b)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Grpc-Status", "7")
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the caller misses it
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	_, port, _ := strings.Cut(f.serveBoth(mux), ":")
	relay := f.relay()
	up := f.laptop(relay, relay.addr, f.token("alice", "dev-alice")).lane("dev-alice", "-s", "orders="+port, "--register", "shared")
	at := f.stands("orders", "dev-alice")
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	for name, tr := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: h2c}} {
		t.Run(name, func(t *testing.T) {
			defer tr.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), storyLimit)
			defer cancel()
			send := func(path string, body io.Reader, kv ...string) *http.Response {
				t.Helper()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+at+path, body)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(kv); i += 2 {
					req.Header.Set(kv[i], kv[i+1])
				}
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				return res
			}
			in, words := io.Pipe()
			res := send("/events", in, "x-lane-tag", "dev-alice")
			events := bufio.NewReader(res.Body)
			for i := range 3 {
				if line, err := events.ReadString('\n'); line != fmt.Sprintf("data: %d\n", i) {
					t.Fatalf("event %d: %q %v", i, line, err)
				}
				_, _ = events.ReadString('\n')
				if _, err := io.WriteString(words, "."); err != nil {
					t.Fatal(err)
				}
			}
			_ = words.Close()
			_ = res.Body.Close()

			res = send("/t.T/Call", strings.NewReader("half"), "x-lane-tag", "dev-alice", "Content-Type", "application/grpc", "TE", "trailers")
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !strings.HasPrefix(string(b), name) || !strings.HasSuffix(string(b), " half") || res.Trailer.Get("Grpc-Status") != "7" || err != nil {
				t.Errorf("trailers: %q %v %v", b, res.Trailer, err)
			}

			// What is not the lane's goes to the baseline, once.
			for _, c := range []struct{ tag, guard, by string }{
				{"", "", "baseline"}, {"dev-bob", "", "baseline"}, {"", "bounced", ""}, {"dev-bob", "bounced", ""},
			} {
				var kv []string
				if c.tag != "" {
					kv = append(kv, "x-lane-tag", c.tag)
				}
				if c.guard != "" {
					kv = append(kv, "x-lane-guard", c.guard)
				}
				res := send("/", strings.NewReader(""), kv...)
				b, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				switch {
				case err != nil:
					t.Errorf("%+v: %v", c, err)
				case c.by != "" && (res.StatusCode != http.StatusOK || !strings.HasPrefix(string(b), c.by) || res.Header.Get("X-Lane-Guard") != "bounced"):
					t.Errorf("%+v: %d %s", c, res.StatusCode, b)
				case c.by == "" && (res.StatusCode != http.StatusLoopDetected || res.Header.Get("X-Lane-Error") != "E_LOOP_DETECTED"):
					t.Errorf("%+v: %d %s", c, res.StatusCode, b)
				}
			}
		})
	}

	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(storyLimit))
	fmt.Fprint(conn, "GET /echo HTTP/1.1\r\nHost: x\r\nx-lane-tag: dev-alice\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrade: %v %v", res, err)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); line != "hello\n" {
		t.Errorf("after the upgrade: %q %v", line, err)
	}
	// One side may end while the other goes on.
	if _, err := io.WriteString(conn, "last"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(in); string(rest) != "last" || err != nil {
		t.Errorf("after the half-close: %q %v", rest, err)
	}
	up.end()
}
