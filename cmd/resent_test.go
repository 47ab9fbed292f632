package cmd

import (
	"bufio"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/traffic"
)

// What is sent again is what came: names in their letter case, fields in their order, the
// tag alone replaced, and a length only where there was one.
func TestWhatIsSentAgainIsWhatCame(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	const answer = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
	heads := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			var head strings.Builder
			in := bufio.NewReader(c)
			for {
				line, err := in.ReadString('\n')
				if head.WriteString(line); err != nil || line == "\r\n" {
					break
				}
			}
			if !strings.Contains(head.String(), "x-silent") {
				_, _ = io.WriteString(c, answer)
			}
			_ = c.Close()
			heads <- head.String()
		}
	}()
	d, _ := newDeeds(t, nil, nil)
	d.watched = proxied{url: "http://" + l.Addr().String()}
	e := traffic.Exchange{Service: "orders", Method: "GET", URL: "http://orders/a?b=%20",
		ReqHeader: traffic.HeadText("Host: orders\r\nx-B: 1\r\ncontent-type: text/plain\r\nAccept: */*\r\nx-b: 2\r\nbaggage: a=1,lane=dev-alice\r\nx-lane-tag: dev-alice\r\n")}
	const before = "GET http://orders/a?b=%20 HTTP/1.1\r\nHost: orders\r\nx-B: 1\r\ncontent-type: text/plain\r\nAccept: */*\r\nx-b: 2\r\n"
	for tag, want := range map[string]string{
		"":         before + "baggage: a=1,lane=dev-alice\r\nx-lane-tag: dev-alice\r\nConnection: close\r\n\r\n",
		"baseline": before + "baggage: a=1\r\nx-lane-tag: baseline\r\nConnection: close\r\n\r\n",
	} {
		a, err := d.Send(t.Context(), &e, tag)
		if err != nil || a.Err != "" || a.Status != 200 || string(a.Body) != "ok" {
			t.Fatalf("%+v, %v", a, err)
		}
		if got := <-heads; got != want {
			t.Errorf("tag %q sent\n%swant\n%s", tag, got, want)
		}
	}
	e.Method, e.ReqHeader = "POST", traffic.HeadText("content-length: 0\r\n")
	if _, err := d.Send(t.Context(), &e, ""); err != nil {
		t.Fatal(err)
	}
	if got := <-heads; !strings.Contains(got, "\r\nContent-Length: 0\r\n") {
		t.Errorf("a body of no bytes: %q", got)
	}
	// What is asked for stays as it was written.
	for _, c := range [][3]string{{"OPTIONS", "http://orders*", "http://orders"}, {"OPTIONS", "http://orders/", "http://orders/"}, {"GET", "http://orders/a|b//c%2f?d|e[]", "http://orders/a|b//c%2f?d|e[]"},
		{"GET", "http://orders", "http://orders/"}, {"GET", "http://orders/a b", "http://orders/a%20b"}} {
		if _, err := d.Send(t.Context(), &traffic.Exchange{Method: c[0], URL: c[1]}, ""); err != nil {
			t.Fatal(err)
		}
		if got := <-heads; !strings.HasPrefix(got, c[0]+" "+c[2]+" HTTP/1.1\r\nHost: orders\r\n") {
			t.Errorf("%s %s: %q", c[0], c[1], got)
		}
	}
	e.ReqHeader = traffic.HeadText("x-silent: 1\r\n")
	a, err := d.Send(t.Context(), &e, "")
	if <-heads; err != nil || a.Err != "the connection ended without an answer" {
		t.Errorf("%+v, %v", a, err)
	}
	e.ReqHeader = traffic.HeadText("x-a: 1\rGET /b HTTP/1.1\r\n")
	if _, err := d.Send(t.Context(), &e, ""); err == nil || !strings.Contains(err.Error(), "x-a") {
		t.Errorf("a line end in a field: %v", err)
	}
}

// With https it goes through a tunnel, whose end has to be whom the URL names; what the proxy
// says in place of a tunnel is the answer.
func TestHTTPSIsSentAgainThroughATunnel(t *testing.T) {
	shop := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
	}))
	defer shop.Close()
	var refuses atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() || r.Method != http.MethodConnect || r.Host != "example.com:443" {
			http.Error(w, "no tunnel for "+r.Host, http.StatusForbidden)
			return
		}
		out, err := net.Dial("tcp", shop.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		in, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = io.Copy(out, in)
			_ = out.Close()
		}()
		_, _ = io.Copy(in, out)
		_ = in.Close()
		<-done
	}))
	defer proxy.Close()
	e := traffic.Exchange{Method: "PUT", URL: "https://example.com/a?b", ReqHeader: traffic.HeadText("content-length: 2\r\n"), ReqBody: &traffic.Body{Bytes: []byte("ab")}, ReqSize: 2}
	r, err := newResent(t.Context(), &e, "")
	if err != nil {
		t.Fatal(err)
	}
	at := proxy.Listener.Addr().String()
	roots := x509.NewCertPool()
	if _, err := r.by(t.Context(), at, roots); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an end that nobody vouches for: %v", err)
	}
	roots.AddCert(shop.Certificate())
	for _, c := range []struct {
		refuses bool
		status  int
		body    string
	}{{false, 200, "PUT /a?b ab"}, {true, 403, "no tunnel for example.com:443\n"}} {
		refuses.Store(c.refuses)
		res, err := r.by(t.Context(), at, roots)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err != nil || res.StatusCode != c.status || string(body) != c.body {
			t.Errorf("%d %q, %v; want %d %q", res.StatusCode, body, err, c.status, c.body)
		}
	}
}
