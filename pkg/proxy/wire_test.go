package proxy

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
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
			case <-time.After(testLimit):
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

// An answer that comes before the upload has ended arrives, and what the server
// reads of the upload is not cut off by it.
func TestEarlyAnswer(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}, func(t *testing.T, e *env, url string) {
		for _, u := range []string{url, "http://no-such-service"} {
			conn, br := raw(t, e.addr, "POST "+u+"/ HTTP/1.1\r\nHost: svc\r\nContent-Length: 10000000\r\n\r\npart")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(u, err)
			}
			if resp.StatusCode != 413 && resp.StatusCode != 503 {
				t.Errorf("%s: %d", u, resp.StatusCode)
			}
			conn.Close()
		}
	})
}

func TestEarlyHints(t *testing.T) {
	viaBoth(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusProcessing)
		fmt.Fprint(w, "body")
	}, func(t *testing.T, e *env, url string) {
		_, br := raw(t, e.addr, "GET "+url+"/ HTTP/1.1\r\nHost: svc\r\nConnection: close\r\n\r\n")
		b, err := io.ReadAll(br)
		if err != nil {
			t.Fatal(err)
		}
		if s := string(b); !strings.HasPrefix(s, "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Who: origin\r\n\r\nHTTP/1.1 102 Processing\r\nX-Who: origin\r\n\r\nHTTP/1.1 200 OK\r\n") ||
			strings.Count(s, "Link:") != 1 || !strings.HasSuffix(s, "body") {
			t.Errorf("%s", s)
		}
		_, br = raw(t, e.addr, "GET "+url+"/ HTTP/1.0\r\n\r\n")
		if line, _ := br.ReadString('\n'); !strings.Contains(line, " 200 ") {
			t.Errorf("an old caller got %q", line)
		}
	})
}
