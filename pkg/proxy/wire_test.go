package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// viaBoth runs a test with the origin behind the forward front, and behind the
// forward front and a guard. url names it.
func viaBoth(t *testing.T, h http.HandlerFunc, test func(t *testing.T, e *env, url string)) {
	t.Helper()
	for _, mode := range []string{"forward", "forward and guard"} {
		t.Run(mode, func(t *testing.T) {
			origin := newBackend(t, "origin", h)
			e := newEnv(t, nil)
			addr := origin.addr()
			if mode != "forward" {
				addr = e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "s", Local: []string{addr}})
			}
			e.reg.set(service("svc", instance("s", addr, "dev-alice"), instance("b", closedAddr(t), "")))
			test(t, e, "http://svc")
		})
	}
}

func TestStreaming(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/x-ndjson", ""} {
		next := make(chan struct{})
		h := func(w http.ResponseWriter, r *http.Request) {
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.(http.Flusher).Flush()
			for i := range 3 {
				<-next
				fmt.Fprintf(w, "data: %d\n", i)
				w.(http.Flusher).Flush()
			}
		}
		viaBoth(t, h, func(t *testing.T, e *env, url string) {
			resp, err := e.client().Get(url + "/events")
			if err != nil {
				t.Fatal(err) // the head did not come before the first event
			}
			defer resp.Body.Close()
			if resp.ContentLength != -1 || resp.Header.Get("Content-Type") != kind {
				t.Errorf("length %d type %q", resp.ContentLength, resp.Header.Get("Content-Type"))
			}
			br := bufio.NewReader(resp.Body)
			for i := range 3 {
				next <- struct{}{}
				line, err := br.ReadString('\n')
				if err != nil || line != fmt.Sprintf("data: %d\n", i) {
					t.Fatal(line, err)
				}
			}
			if _, err := br.ReadByte(); err != io.EOF {
				t.Error(err)
			}
		})
	}
}

func TestUploadStreams(t *testing.T) {
	got := make(chan string)
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		br := bufio.NewReader(r.Body)
		for {
			line, err := br.ReadString('\n')
			if err != nil {
				fmt.Fprint(w, r.TransferEncoding, r.Trailer.Get("X-Sum"))
				return
			}
			got <- line
		}
	}, func(t *testing.T, e *env, url string) {
		pr, pw := io.Pipe()
		req, _ := http.NewRequest("POST", url+"/up", pr)
		req.Trailer = http.Header{"X-Sum": nil}
		type reply struct {
			a   string
			err error
		}
		done := make(chan reply, 1)
		c := e.client()
		go func() {
			resp, err := c.Do(req)
			if err != nil {
				done <- reply{"", err}
				return
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			done <- reply{string(b), err}
		}()
		for i := range 3 {
			line := fmt.Sprintf("line %d\n", i)
			if _, err := io.WriteString(pw, line); err != nil {
				t.Fatal(err)
			}
			if s := <-got; s != line {
				t.Errorf("got %q", s)
			}
		}
		req.Trailer.Set("X-Sum", "abc")
		pw.Close()
		if r := <-done; r.err != nil || r.a != "[chunked]abc" {
			t.Errorf("%q %v", r.a, r.err)
		}
		eventually(t, "a record", func() bool { return e.log.Last() > 0 })
		rows, _ := e.log.Since(0, 0)
		if n := rows[len(rows)-1].ReqSize; n != 21 {
			t.Errorf("recorded %d bytes up", n)
		}
	})
}

func TestTrailers(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/announced" {
			w.Header().Set("Trailer", "X-A, X-B")
		}
		fmt.Fprint(w, "body")
		if r.URL.Path == "/announced" {
			w.Header().Set("X-A", "1")
			w.Header().Set("X-B", "2")
			return
		}
		w.(http.Flusher).Flush()
		w.Header().Set(http.TrailerPrefix+"X-A", "1")
		w.Header().Set(http.TrailerPrefix+"X-B", "2")
	}, func(t *testing.T, e *env, url string) {
		for _, p := range []string{"/announced", "/late"} {
			resp, err := e.client().Get(url + p)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(b) != "body" || resp.Trailer.Get("X-A") != "1" || resp.Trailer.Get("X-B") != "2" {
				t.Errorf("%s: %q %v %v", p, b, err, resp.Trailer)
			}
		}
	})
}

func TestBodiless(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/head":
			w.Header().Set("Content-Length", "1234")
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(304)
		case "/empty":
			w.Header().Set("Content-Length", "0")
		case "/length":
			w.Header().Set("Content-Length", "5")
			fmt.Fprint(w, "12345")
		}
	}, func(t *testing.T, e *env, url string) {
		for _, tt := range []struct {
			method, path string
			status       int
			length       string
		}{
			{"HEAD", "/head", 200, "1234"}, {"GET", "/204", 204, ""}, {"GET", "/304", 304, ""},
			{"GET", "/empty", 200, "0"}, {"GET", "/length", 200, "5"}, {"HEAD", "/length", 200, "5"},
		} {
			a := do(t, e.client(), tt.method, url+tt.path, nil, nil)
			if a.status != tt.status || a.header.Get("Content-Length") != tt.length {
				t.Errorf("%s %s: %d, length %q", tt.method, tt.path, a.status, a.header.Get("Content-Length"))
			}
			if a.header["Content-Type"] != nil && tt.path != "/length" {
				t.Errorf("%s: a type from nowhere: %v", tt.path, a.header)
			}
		}
	})
}

// What the caller gives up the server hears of.
func TestCallerAborts(t *testing.T) {
	for _, when := range []string{"before the head", "in the body"} {
		gone := make(chan struct{})
		in := make(chan struct{}, 1)
		viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
			if when == "in the body" {
				w.(http.Flusher).Flush()
			}
			in <- struct{}{}
			<-r.Context().Done()
			gone <- struct{}{}
		}, func(t *testing.T, e *env, url string) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			req, _ := http.NewRequestWithContext(ctx, "GET", url+"/", nil)
			failed := make(chan error, 1)
			c := e.client()
			go func() {
				resp, err := c.Do(req)
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				failed <- err
			}()
			<-in
			cancel()
			if err := <-failed; err == nil {
				t.Error("no error at the caller")
			}
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Fatal("the server was not told")
			}
			if ex := e.exchange(1); !strings.Contains(ex.Err, "caller went away") {
				t.Errorf("recorded %q", ex.Err)
			}
		})
	}
}

// A body that breaks off must not look complete.
func TestServerAborts(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, e *env, url string) {
		resp, err := e.client().Get(url + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("looks complete: %q", b)
		}
		if ex := e.exchange(1); ex.Err == "" || !ex.Failed() {
			t.Errorf("recorded %+v", ex)
		}
	})
}

// One connection, a decision per request.
func TestAlternatingTags(t *testing.T) {
	s := newShop(t, nil)
	conn, br := raw(t, s.addr, "")
	for i := range 100 {
		tag, who := "", "alice"
		switch i % 4 {
		case 1:
			tag, who = "x-lane-tag: baseline\r\n", "base"
		case 2:
			tag, who = "X-Lane-Tag: dev-bob\r\n", "base"
		case 3:
			tag, who = "baggage: lane=baseline\r\n", "base"
		}
		fmt.Fprintf(conn, "GET http://order-service/%d HTTP/1.1\r\nHost: order-service\r\n%s\r\n", i, tag)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != who {
			t.Fatalf("%d: %q from %s, want %s", i, tag, b, who)
		}
	}
}

func TestGuardAlternatingTags(t *testing.T) {
	s := newGuarded(t, nil)
	conn, br := raw(t, s.guardAddr(), "")
	for i := range 100 {
		tag, who := "x-lane-tag: dev-alice\r\n", "local"
		if i%2 == 1 {
			tag, who = "", "base"
		}
		fmt.Fprintf(conn, "GET /%d HTTP/1.1\r\nHost: order-service\r\n%s\r\n", i, tag)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != who {
			t.Fatalf("%d: from %s, want %s", i, b, who)
		}
	}
}

func (s *guarded) guardAddr() string { return s.addr }

// rawOrigin answers every connection with a fixed response and gives the head
// that it was sent.
func rawOrigin(t *testing.T, response string) (addr string, heads chan string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	heads = make(chan string, 16)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			br := bufio.NewReader(conn)
			var head strings.Builder
			for {
				line, err := br.ReadString('\n')
				head.WriteString(line)
				if err != nil || line == "\r\n" {
					break
				}
			}
			heads <- head.String()
			_, _ = io.WriteString(conn, response)
			conn.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), heads
}

const okClose = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

func TestTargetByteForByte(t *testing.T) {
	origin, heads := rawOrigin(t, okClose)
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, target := range []string{
		"/", "/a", "/a%2Fb", "/a%2fb%20c", "//", "//a//b", "//a%2Fb;c", "/a;b=c;d", "/a/../b/./c", "/a?", "/a?b=c&d;e=%zz",
		"/a?x=/../%2F?y", "/a|b", "/a[1]{2}", `/a"b`, "/a^b`c", "/%E4%BD%A0", "/ü", "/a+b", "/a:b@c", "/?x", "/%2e%2e/a", "/a%00b", "/a#b", "/a\\b",
	} {
		send := func(addr, line string) string {
			_, br := raw(t, addr, line+" HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s: status %d", line, resp.StatusCode)
				return ""
			}
			first, _, _ := strings.Cut(<-heads, "\r\n")
			return first
		}
		want := "GET " + target + " HTTP/1.1"
		if got := send(e.addr, "GET http://svc"+target); got != want {
			t.Errorf("forward: %q arrived as %q", target, got)
		}
		if got := send(e.addr, "GET http://"+origin+target); got != want {
			t.Errorf("by address: %q arrived as %q", target, got)
		}
		if got := send(guard, "GET "+target); got != want {
			t.Errorf("guard: %q arrived as %q", target, got)
		}
	}
	// Targets without a path.
	for line, want := range map[string]string{
		"GET http://svc":      "GET / HTTP/1.1",
		"GET http://svc?x=1":  "GET /?x=1 HTTP/1.1",
		"OPTIONS http://svc":  "OPTIONS * HTTP/1.1",
		"GET http://svc:80/a": "GET /a HTTP/1.1",
	} {
		_, br := raw(t, e.addr, line+" HTTP/1.1\r\nHost: svc\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(line, err, resp)
		}
		resp.Body.Close()
		if first, _, _ := strings.Cut(<-heads, "\r\n"); first != want {
			t.Errorf("%q arrived as %q", line, first)
		}
	}
}

func TestHopByHop(t *testing.T) {
	origin, heads := rawOrigin(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"+
		"Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-End: 1\r\n\r\n")
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range []struct{ addr, line string }{{e.addr, "GET http://svc/"}, {guard, "GET /"}} {
		_, br := raw(t, at.addr, at.line+" HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\nConnection: keep-alive, X-Private\r\n"+
			"X-Private: 1\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic c2VjcmV0\r\nTE: trailers, deflate\r\n"+
			"Authorization: Bearer kept\r\nX-End: 1\r\nAccept-Encoding: br\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		head := <-heads
		low := strings.ToLower(head)
		for _, bad := range []string{"x-private", "keep-alive", "proxy-", "c2vjcmv0", "deflate", "user-agent", "connection"} {
			if strings.Contains(low, bad) {
				t.Errorf("%s: %q arrived:\n%s", at.line, bad, head)
			}
		}
		for _, good := range []string{"X-End: 1", "Authorization: Bearer kept", "Te: trailers", "Accept-Encoding: br", "x-lane-tag: dev-alice", "baggage: lane=dev-alice", "Host: svc"} {
			if strings.Contains(good, "dev-alice") && at.addr == guard { // passed on as they came
				continue
			}
			if !strings.Contains(head, good+"\r\n") {
				t.Errorf("%s: %q did not arrive:\n%s", at.line, good, head)
			}
		}
		for _, bad := range []string{"X-Hop", "Keep-Alive", "Proxy-Authenticate", "Upgrade", "Connection"} {
			if resp.Header.Get(bad) != "" {
				t.Errorf("%s: %s came back", at.line, bad)
			}
		}
		if resp.Header.Get("X-End") != "1" {
			t.Error("X-End lost")
		}
	}
}

func TestExternalSeesNoLane(t *testing.T) {
	s := newShop(t, nil)
	h := http.Header{"X-Lane-Tag": {"dev-bob"}, "Baggage": {"user=1;p=2, lane=dev-bob ,other=x"}, "X-Lane-Hops": {"3"}, "X-Lane-Guard": {"bounced"}, "X-Mine": {"1"}}
	if a := do(t, s.client(), "GET", s.outside.URL+"/", h, nil); a.status != 200 {
		t.Fatal(a)
	}
	got := s.outside.header()
	for _, k := range []string{"X-Lane-Tag", "X-Lane-Hops", "X-Lane-Guard"} {
		if got.Get(k) != "" {
			t.Errorf("%s arrived: %v", k, got)
		}
	}
	if b := strings.Join(got["Baggage"], ","); strings.Contains(b, "lane") || !strings.Contains(b, "user=1;p=2") || !strings.Contains(b, "other=x") {
		t.Errorf("baggage %q", b)
	}
	if got.Get("X-Mine") != "1" {
		t.Error("a foreign header was lost")
	}
	// The session's lane is not told either, and no baggage is made up.
	s.get(s.outside.URL + "/")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "" || got.Get("Baggage") != "" {
		t.Errorf("arrived: %v", got)
	}
}

func TestColoredExternal(t *testing.T) {
	names, err := NewNames(NamesConfig{Colored: []string{"127.0.0.*"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, func(c *Config) { c.Names = names })
	s.get(s.outside.URL + "/")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "dev-alice" || got.Get("X-Lane-Hops") != "" {
		t.Errorf("arrived: %v", got)
	}
	s.get(s.outside.URL+"/", "x-lane-tag", "baseline")
	if got := s.outside.header(); got.Get("X-Lane-Tag") != "" {
		t.Errorf("an untagged call arrived with %v", got)
	}
}

func TestKillSwitchPassesTheTagOn(t *testing.T) {
	s := newShop(t, nil)
	s.reg.cat.Store(lane.NewCatalog(lane.Trust{}, nil, lane.Switches{KilledLanes: []lane.Name{"dev-alice"}},
		service("order-service", instance("o-base", s.base.addr(), ""), instance("o-alice", s.alice.addr(), "dev-alice"))))
	a := s.get("http://order-service/")
	if a.header.Get("X-Who") != "base" || !strings.HasPrefix(a.header.Get(lane.HeaderDecision), "KILL_SWITCH_BASELINE") {
		t.Errorf("%d %v", a.status, a.header)
	}
	if got := s.base.header().Get("X-Lane-Tag"); got != "dev-alice" {
		t.Errorf("tag %q went on", got)
	}
}

func TestExpectContinue(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(417)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprint(w, len(b))
	}, func(t *testing.T, e *env, url string) {
		conn, br := raw(t, e.addr, "POST "+url+"/ HTTP/1.1\r\nHost: svc\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatal(line, err)
		}
		_, _ = br.ReadString('\n')
		fmt.Fprint(conn, "12345")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(b) != "5" {
			t.Errorf("%d %q", resp.StatusCode, b)
		}
		_, br = raw(t, e.addr, "POST "+url+"/refuse HTTP/1.1\r\nHost: svc\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		if line, err := br.ReadString('\n'); err != nil || !strings.Contains(line, " 417 ") {
			t.Error(line, err)
		}
	})
}

func TestLargeBodies(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength >= 0 {
			w.Header().Set("Content-Length", fmt.Sprint(r.ContentLength))
		}
		_ = http.NewResponseController(w).EnableFullDuplex()
		_, _ = io.Copy(w, r.Body)
	}, func(t *testing.T, e *env, url string) {
		data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB
		for _, body := range []io.Reader{bytes.NewReader(data), io.MultiReader(bytes.NewReader(data))} {
			a := do(t, e.client(), "POST", url+"/", nil, body)
			if a.body != string(data) {
				t.Errorf("%d bytes of %d", len(a.body), len(data))
			}
		}
	})
}

func TestHTTP10(t *testing.T) {
	s := newShop(t, nil)
	_, br := raw(t, s.addr, "GET http://order-service/ HTTP/1.0\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(b) != "alice" {
		t.Errorf("%d %q", resp.StatusCode, b)
	}
}

func TestPage(t *testing.T) {
	s := newShop(t, nil)
	_, port, _ := net.SplitHostPort(s.addr)
	for _, tt := range []struct {
		send   string
		status int
	}{
		{"GET / HTTP/1.1\r\nHost: " + s.addr + "\r\nOrigin: http://evil.test\r\n", 200},
		{"HEAD / HTTP/1.1\r\nHost: " + s.addr + "\r\n", 200},
		{"GET http://" + s.addr + "/ HTTP/1.1\r\nHost: x\r\n", 200},
		{"GET http://localhost:" + port + "/ HTTP/1.1\r\nHost: x\r\n", 200},
		{"GET http://[::1]:" + port + "/ HTTP/1.1\r\nHost: x\r\n", 200},
		{"GET /secret HTTP/1.1\r\nHost: order-service\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: order-service\r\nContent-Length: 0\r\n", 400},
		{"OPTIONS / HTTP/1.1\r\nHost: order-service\r\nOrigin: http://evil.test\r\nAccess-Control-Request-Method: GET\r\n", 400},
		{"GET ftp://order-service/ HTTP/1.1\r\nHost: order-service\r\n", 400},
		{"GET http:///x HTTP/1.1\r\nHost: order-service\r\n", 400},
	} {
		_, br := raw(t, s.addr, tt.send+"\r\n")
		method, _, _ := strings.Cut(tt.send, " ")
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			t.Fatal(tt.send, err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.status {
			t.Errorf("%q: %d", tt.send, resp.StatusCode)
		}
		for k := range resp.Header {
			if strings.HasPrefix(k, "Access-Control") {
				t.Errorf("%q: %s", tt.send, k)
			}
		}
	}
	if s.base.hits.Load()+s.alice.hits.Load() != 0 || s.log.Last() != 0 {
		t.Error("something was sent on")
	}
}

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
		// httpproxy never proxies loopback hosts, so ask for a name that does
		// not exist: through ourselves it would come back as a second exchange.
		a := e.get("http://no-such-host.invalid/")
		if a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
			t.Errorf("%d %s", a.status, a.body)
		}
		e.get(out.URL)
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

func TestRoundTripper(t *testing.T) {
	s := newShop(t, nil)
	c := &http.Client{Transport: s.tr}
	req, _ := http.NewRequest("POST", "http://order-service/a%2Fb?x=1", strings.NewReader("hello"))
	req.Header.Set("X-Mine", "1")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if string(b) != "alice" || len(req.Header) != 1 {
		t.Errorf("%q, the caller's header is now %v", b, req.Header)
	}
	ex := s.exchange(1)
	if ex.ReqSize != 5 || ex.ResSize != 5 || ex.URL != "http://order-service/a%2Fb?x=1" || ex.Instance != "o-alice" || ex.Tries != 1 {
		t.Errorf("%+v", ex)
	}
	if _, err := c.Get("http://nothing-here/"); err != nil {
		t.Error(err) // a problem is a response
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	req, _ = http.NewRequestWithContext(ctx, "GET", "http://order-service/", nil)
	if _, err := s.tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRecord(t *testing.T) {
	s := newShop(t, func(c *Config) { c.KeepHeaders = true })
	conn, br := raw(t, s.addr, "GET http://user:secret@order-service/a?b=1 HTTP/1.1\r\nHost: order-service\r\nAuthorization: Bearer abc\r\n"+
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(resp.Body)
	resp.Body.Close()
	ex := s.exchange(1)
	want := traffic.Exchange{Seq: 1, Front: traffic.FrontForward, From: conn.LocalAddr().String(), Method: "GET",
		URL: "http://order-service/a?b=1", Proto: "HTTP/1.1", Service: "order-service", Lane: "dev-alice",
		Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Instance: "o-alice", Addr: s.alice.addr(), Tries: 1,
		Status: 200, ResSize: 5, TraceID: "0af7651916cd43dd8448eb211c80319c"}
	if ex.Start.IsZero() || ex.Took <= 0 || ex.First <= 0 || ex.First > ex.Took {
		t.Errorf("times %v %v %v", ex.Start, ex.First, ex.Took)
	}
	if strings.Contains(fmt.Sprint(ex.ReqHeader), "abc") || ex.ReqHeader.Get("Authorization") == "" || ex.ResHeader.Get("X-Who") != "alice" {
		t.Errorf("heads %v %v", ex.ReqHeader, ex.ResHeader)
	}
	ex.Start, ex.Took, ex.First, ex.ReqHeader, ex.ResHeader = time.Time{}, 0, 0, nil, nil
	if fmt.Sprintf("%+v", ex) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", ex, want)
	}
	if h := s.alice.header(); h.Get("Authorization") != "Bearer abc" {
		t.Errorf("arrived %v", h)
	}
}
