package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
)

// A proxy variable that points at ourselves is harmless.
func TestUpstreamIsOurselves(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "localhost"} {
		var self string
		out := newBackend(t, "outside", nil)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		self = ln.Addr().String()
		_, port, _ := net.SplitHostPort(self)
		e := newEnv(t, func(c *Config) {
			c.Upstream = Upstream{HTTP: "http://" + host + ":" + port, HTTPS: host + ":" + port}
			c.Resolves = func(context.Context, string) bool { return true }
		})
		second := NewForward(e.tr, ForwardConfig{Drain: time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- second.Serve(ctx, ln) }()
		eventually(t, "it knows its own address", func() bool { return e.tr.self.has("http", self) })
		// httpproxy never proxies loopback hosts, so ask for a name that does
		// not exist: through ourselves it would come back as a second exchange.
		a := e.get("http://no-such-host.invalid/")
		if a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
			t.Errorf("%d %s", a.status, a.body)
		}
		e.get(out.URL)
		e.exchange(2)
		if n := e.log.Last(); n != 2 {
			t.Errorf("%d exchanges, want 2", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestUpstreamProxy(t *testing.T) {
	var lines []string
	corp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines = append(lines, r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		fmt.Fprint(w, "by corp")
	}))
	defer corp.Close()
	s := newShop(t, func(c *Config) {
		c.Upstream = Upstream{HTTP: strings.Replace(corp.URL, "http://", "http://u:p@", 1), NoProxy: "direct.invalid"}
	})
	_, br := raw(t, s.addr, "GET http://outside.invalid:81//a%2Fb|c?x HTTP/1.1\r\nHost: outside.invalid:81\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "by corp" || len(lines) != 1 || lines[0] != "http://outside.invalid:81//a%2Fb|c?x Basic dTpw" {
		t.Errorf("%q %q", b, lines)
	}
	if a := s.get("http://direct.invalid/"); a.status != 502 {
		t.Errorf("not direct: %d", a.status)
	}
	if a := s.get("http://order-service/"); a.header.Get("X-Who") != "alice" || len(lines) != 1 {
		t.Errorf("a service through the company's proxy: %v", lines)
	}
	if _, err := NewTransport(Config{Registry: s.reg, Router: s.tr.router, Log: s.log, Upstream: Upstream{HTTP: "http://a b:secret@x y"}}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a bad URL: %v", err)
	}
}
