package relay_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/relay/facts"
)

// Whatever HTTP carries comes through the guard, the tunnel, and back: streams in both
// directions, trailers, upgrades, and much.
func TestEveryProtocolComesThrough(t *testing.T) {
	const much = 16 << 20
	mux := http.NewServeMux()
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		n, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%d %x %v", n, h.Sum(nil), err)
	})
	mux.HandleFunc("/download", func(w http.ResponseWriter, _ *http.Request) {
		src := rand.NewChaCha8([32]byte{1})
		_, _ = io.CopyN(w, src, much)
	})
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
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.Proto, b)
		_ = http.NewResponseController(w).Flush()
		w.Header().Set("Grpc-Status", "0")
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_, _ = io.Copy(conn, rw)
	})
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)

	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	l := w.laptop(r.addr, w.token(w.grant(nil)), "box", srv.Listener.Addr().String())
	at := l.hold(w.claim())[facts.Address]
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: h2c}} {
		t.Run(name, func(t *testing.T) {
			defer transport.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			send := func(path string, body io.Reader) *http.Response {
				t.Helper()
				method := http.MethodGet
				if body != nil {
					method = http.MethodPost
				}
				req, err := http.NewRequestWithContext(ctx, method, "http://"+at+path, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("x-lane-tag", w.lane)
				res, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				return res
			}

			sum := sha256.New()
			res := send("/upload", io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{2}), much), sum))
			b, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if want := fmt.Sprintf("%d %x <nil>", much, sum.Sum(nil)); string(b) != want || err != nil {
				t.Errorf("up: %s, want %s (%v)", b, want, err)
			}

			got, want := sha256.New(), sha256.New()
			_, _ = io.CopyN(want, rand.NewChaCha8([32]byte{1}), much)
			res = send("/download", nil)
			n, err := io.Copy(got, res.Body)
			_ = res.Body.Close()
			if n != much || err != nil || !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
				t.Errorf("down: %d bytes, %v", n, err)
			}

			in, words := io.Pipe()
			res = send("/events", in)
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

			res = send("/trailers", strings.NewReader("half"))
			b, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
			if !strings.HasPrefix(string(b), name) || !strings.HasSuffix(string(b), " half") || res.Trailer.Get("Grpc-Status") != "0" || err != nil {
				t.Errorf("trailers: %q %v %v", b, res.Trailer, err)
			}
		})
	}

	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	fmt.Fprintf(conn, "GET /echo HTTP/1.1\r\nHost: x\r\nx-lane-tag: %s\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", w.lane)
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
}
