package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A caller that leaves is noticed at the server, and a server that breaks off at
// the caller, through both handshakes.
func TestOpenedTLSAborts(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := newTLSShop(t, h2, nil)
		begun, ended := make(chan bool, 1), make(chan error, 1)
		slow := securedBackend(t, "slow", s.issuer, "slow", h2, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/break" {
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			begun <- true
			<-r.Context().Done()
			ended <- r.Context().Err()
		})
		s.reg.set(service("slow", instance("s", slow.tlsAddr(), "")))
		client := s.client(h2)
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://slow/", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			got <- err
		}()
		<-begun
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the server saw %v", err)
		}
		resp, err := client.Get("https://slow/break")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err == nil || string(b) != "half" {
			t.Errorf("%q %v", b, err)
		}
		resp.Body.Close()
	}
}

// An answer that comes before the upload has ended reaches the caller, whatever
// the two sides speak, and the call ends when the caller does.
func TestOpenedTLSEarlyAnswer(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := newTLSShop(t, h2, nil)
		full := securedBackend(t, "full", s.issuer, "full", h2, func(w http.ResponseWriter, _ *http.Request) {
			_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 would wait for the body
			http.Error(w, "full", http.StatusRequestEntityTooLarge)
		})
		s.reg.set(service("full", instance("f", full.tlsAddr(), "")))

		conn, _, _ := connectTo(t, s.env, "full:443")
		tc := tls.Client(conn, &tls.Config{ServerName: "full", RootCAs: s.own, MinVersion: tls.VersionTLS12})
		a := through(t, tc, bufio.NewReader(tc), "POST / HTTP/1.1\r\nHost: full\r\nContent-Length: 1000\r\n\r\nbegin")
		if a.status != http.StatusRequestEntityTooLarge || a.body != "full\n" {
			t.Errorf("server h2 %v: %+v", h2, a)
		}
		tc.Close()

		body, upload := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://full/", body)
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan struct{})
		go func() { defer close(sent); _, _ = io.WriteString(upload, "begin") }() // and no end
		resp, err := s.client(true).Do(req)
		if err != nil {
			t.Fatalf("server h2 %v: %v", h2, err)
		}
		b := make([]byte, 4)
		if _, err := io.ReadFull(resp.Body, b); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || string(b) != "full" {
			t.Errorf("server h2 %v: %d %q %v", h2, resp.StatusCode, b, err)
		}
		resp.Body.Close()
		upload.Close()
		<-sent
	}
}

// At the end an open connection is closed, and so is one whose handshake has only
// begun.
func TestOpenedTLSAtTheEnd(t *testing.T) {
	s := newTLSShop(t, true, nil)
	issuer := authority(t, s.own, 0)
	ctx, cancel := context.WithCancel(t.Context())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	front := NewForward(s.tr, ForwardConfig{Drain: 2 * time.Second, TLS: func(host, _ string) *tls.Config { return issuer.Config(host) }})
	go func() { done <- front.Serve(ctx, ln) }()
	s.addr = ln.Addr().String()
	open, br, _ := connectTo(t, s.env, "order-service:443")
	tc := tls.Client(open, &tls.Config{ServerName: "order-service", RootCAs: s.own, MinVersion: tls.VersionTLS12})
	if a := through(t, tc, bufio.NewReader(tc), "GET / HTTP/1.1\r\nHost: order-service\r\n"); a.body != "alice" || br.Buffered() > 0 {
		t.Fatalf("%+v", a)
	}
	half, hbr, _ := connectTo(t, s.env, "order-service:443")
	if _, err := half.Write([]byte{0x16, 3, 1, 1, 0}); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, r := range []io.Reader{tc, hbr} {
		if n, err := r.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Errorf("%d bytes, %v", n, err)
		}
	}
}

// Many tags at once, on few connections: each goes where it belongs.
func TestOpenedTLSNoMixing(t *testing.T) {
	s := newTLSShop(t, true, nil)
	tell := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Lane-Tag")) }
	base := securedBackend(t, "base", s.issuer, "tell", true, tell)
	alice := securedBackend(t, "alice", s.issuer, "tell", true, tell)
	s.reg.set(service("tell", instance("t-base", base.tlsAddr(), ""), instance("t-alice", alice.tlsAddr(), "dev-alice")))
	clients := []*http.Client{s.client(false), s.client(true)}
	var all sync.WaitGroup
	for n := range 40 { // each handshake has 10 s: not too many at a time
		all.Go(func() {
			tag, kind := fmt.Sprintf("dev-n%d", n), "FALLBACK_BASELINE"
			if n%4 == 0 {
				tag, kind = "dev-alice", "LANE_MATCH"
			}
			for range 8 {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://tell/", nil)
				if err != nil {
					t.Error(err)
					return
				}
				req.Header["x-lane-tag"] = []string{tag}
				resp, err := clients[n%2].Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(b) != tag || !strings.HasPrefix(resp.Header.Get("X-Lane-Decision"), kind) {
					t.Errorf("%s: %q %v %v", tag, b, err, resp.Header)
				}
			}
		})
	}
	all.Wait()
}
