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
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lane/pkg/lane"
)

func TestEmptyLines(t *testing.T) {
	origin, heads := rawOrigin(t, okClose)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for lines, want := range map[int]int{0: 200, 1: 200, 2: 400} {
		for _, at := range threeWays(t, e, origin) {
			if at.before != "" && lines > 0 {
				continue // a tunnel that begins with an empty line is none of HTTP
			}
			_, br := raw(t, at.addr, at.before+strings.Repeat("\r\n", lines)+"GET "+at.line+"/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n")
			connected(t, br, at.before)
			if a := response(t, br, "GET"); a.status != want {
				t.Errorf("%s, %d empty lines: %+v", at.name, lines, a)
			}
			if want == 200 {
				<-heads
			}
		}
	}
}

// TLS at a port that speaks HTTP without it is refused at once, and recorded.
func TestTLSAtAPlainPort(t *testing.T) {
	origin, _ := rawOrigin(t, okClose)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		if at.before != "" {
			continue // there it is a tunnel
		}
		seen := e.log.Last()
		conn, err := net.Dial("tcp", at.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(testLimit))
		var no tls.RecordHeaderError
		if err := tls.Client(conn, &tls.Config{ServerName: "svc", MinVersion: tls.VersionTLS12}).Handshake(); !errors.As(err, &no) {
			t.Errorf("%s: %v", at.name, err)
		}
		if ex := e.exchange(seen + 1); ex.Code != CodeBadRequest || !strings.Contains(ex.Note, "it is TLS") {
			t.Errorf("%s: recorded %q %q", at.name, ex.Code, ex.Note)
		}
	}
}

// However a head is too large, there is one answer.
func TestHugeHeads(t *testing.T) {
	origin, _ := rawOrigin(t, okClose)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for _, at := range threeWays(t, e, origin) {
		for name, head := range map[string]string{
			"target":  "GET %s/" + strings.Repeat("x", maxRequestHead) + " HTTP/1.1\r\nHost: svc\r\n\r\n",
			"field":   "GET %s/ HTTP/1.1\r\nHost: svc\r\nX: " + strings.Repeat("x", maxRequestHead) + "\r\n\r\n",
			"fields":  "GET %s/ HTTP/1.1\r\nHost: svc\r\n" + strings.Repeat("X: y\r\n", 2001) + "\r\n",
			"options": "GET %s/ HTTP/1.1\r\nHost: svc\r\nConnection: a" + strings.Repeat(",b", 100) + "\r\n\r\n",
		} {
			conn, br := raw(t, at.addr, at.before)
			connected(t, br, at.before)
			go fmt.Fprintf(conn, head, at.line) // it may not be read to its end
			if a := response(t, br, "GET"); a.status != 431 || a.header.Get(lane.HeaderError) != string(CodeBadRequest) {
				t.Errorf("%s: %s: %+v", at.name, name, a)
			}
		}
	}
	viaH2(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, c *http.Transport) {
		if strings.HasSuffix(t.Name(), "direct") {
			return
		}
		req := h2Ask(t, "GET", "/", nil)
		for i := range 3 {
			req.Header.Set(fmt.Sprint("X-", i), strings.Repeat("x", maxRequestHead/2))
		}
		resp, err := c.RoundTrip(req) // a client that has been told the limit sends nothing
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != 431 {
				t.Errorf("answered %d", resp.StatusCode)
			}
		}
		req = h2Ask(t, "GET", "/", nil)
		req.Header.Set("X-Big", strings.Repeat("x", maxRequestHead-1000))
		if resp, err = c.RoundTrip(req); err != nil || resp.StatusCode != 200 {
			t.Fatalf("within the limit: %v %v", resp, err)
		}
		resp.Body.Close()
	})
}

// Behind a body, a name that is read in a head says nothing, and goes no further.
func TestH2TrailersOfOurs(t *testing.T) {
	viaH2(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer)
	}, func(t *testing.T, c *http.Transport) {
		req := h2Ask(t, "POST", "/", nil)
		req.Trailer = http.Header{"X-Sum": nil, "X-Lane-Tag": nil, "X-Lane-Hops": nil, "Baggage": nil}
		req.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), atEnd(func() {
			for k := range req.Trailer {
				req.Trailer.Set(k, "1f")
			}
		})))
		resp, err := c.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		want := "map[X-Sum:[1f]]"
		if strings.HasSuffix(t.Name(), "direct") {
			want = "map[Baggage:[1f] X-Lane-Hops:[1f] X-Lane-Tag:[1f] X-Sum:[1f]]"
		}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != want {
			t.Errorf("arrived %s, %v; want %s", b, err, want)
		}
	})
}

// An entry's rules may take a header away: it does not come back behind the body.
func TestGatewayTrailers(t *testing.T) {
	got := make(chan http.Header, 1)
	e := newEntrance(t, "trustHeader: [127.0.0.0/8]\nidentity:\n  headers: [X-User-Id]\nentry: order-service\nrules:\n  - id: all\n    priority: 1\n    match:\n      path: { prefix: / }\n    lane: dev-alice\n")
	srv := newBackend(t, "h2", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer
	})
	e.reg.set(service("order-service", instance("o", srv.addr(), "")))
	conn, br := raw(t, e.gateway, "")
	fmt.Fprint(conn, "POST http://order-service/ HTTP/1.1\r\nHost: order-service\r\nTrailer: X-Sum, X-User-Id, X-Lane-Tag\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"4\r\nbody\r\n0\r\nX-Sum: 1\r\nX-User-Id: 7\r\nX-Lane-Tag: dev-bob\r\n\r\n")
	if a := response(t, br, "POST"); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	if tr := <-got; len(tr) != 1 || tr.Get("X-Sum") != "1" || tr.Get("X-Lane-Tag") != "" {
		t.Errorf("arrived %v", tr)
	}
}

// What announces trailers announces those that come.
func TestAnnouncedTrailers(t *testing.T) {
	for value, want := range map[string]string{
		"X-Sum":                         "X-Sum",
		" x-sum ,X-B":                   "x-sum ,X-B",
		"X-Sum, x-lane-tag, X-B":        "X-Sum, X-B",
		"baggage":                       "",
		"Content-Length, X-Sum, , Host": "X-Sum",
	} {
		origin, got := bytesOrigin(t, okBytes)
		e := newEnv(t, nil)
		e.reg.set(service("svc", instance("s", origin, "dev-alice")))
		_, br := raw(t, e.addr, "POST http://svc/ HTTP/1.1\r\nHost: svc\r\nTrailer: "+value+"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		if a := response(t, br, "POST"); a.status != 200 {
			t.Fatalf("%+v", a)
		}
		var line string
		for l := range strings.SplitSeq(<-got, "\r\n") {
			if rest, ok := strings.CutPrefix(l, "Trailer:"); ok {
				line = strings.TrimSpace(rest)
			}
		}
		if line != want {
			t.Errorf("%q went on as %q, want %q", value, line, want)
		}
	}
}

// CONNECT in HTTP/2 opens no tunnel, and that of RFC 8441 no WebSocket: the stream
// ends with an error, and the connection is of use afterwards.
func TestH2Connect(t *testing.T) {
	viaH2(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }, func(t *testing.T, c *http.Transport) {
		if strings.HasSuffix(t.Name(), "direct") {
			return
		}
		conn, err := c.DialContext(t.Context(), "tcp", "h2:80")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testLimit))
		if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
			t.Fatal(err)
		}
		fr := http2.NewFramer(conn, conn)
		fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		if err := fr.WriteSettings(); err != nil {
			t.Fatal(err)
		}
		ask := func(id uint32, kv ...string) {
			var block strings.Builder
			enc := hpack.NewEncoder(&block)
			for i := 0; i < len(kv); i += 2 {
				_ = enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]}) // to memory
			}
			if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: id == 5}); err != nil {
				t.Fatal(err)
			}
		}
		ask(1, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/", ":authority", "h2", "x-lane-tag", "dev-alice")
		ask(3, ":method", "CONNECT", ":authority", "h2:80", "x-lane-tag", "dev-alice")
		ask(5, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "h2", "x-lane-tag", "dev-alice")
		said := map[uint32]string{}
		for len(said) < 3 {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatalf("after %v: %v", said, err)
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if v, on := f.Value(http2.SettingEnableConnectProtocol); on && v != 0 {
					t.Error("it is offered")
				}
				if !f.IsAck() {
					_ = fr.WriteSettingsAck() // its failure is the next read's
				}
			case *http2.RSTStreamFrame:
				if said[f.StreamID] == "" {
					said[f.StreamID] = f.ErrCode.String()
				}
			case *http2.MetaHeadersFrame:
				said[f.StreamID] = f.PseudoValue("status")
			}
		}
		if said[1] != "PROTOCOL_ERROR" || said[3] != "405" && said[3] != "400" || said[5] != "200" {
			t.Errorf("answered %v", said)
		}
	})
}

// A name and a password before the host change nothing of the way, and go nowhere;
// neither does an address in brackets.
func TestAbsoluteTargetsKeepTheirHeads(t *testing.T) {
	origin, got := bytesOrigin(t, okBytes)
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	for i, host := range []string{"user:s3cret@svc", "svc@svc", "a@b@svc", "svc"} {
		_, br := raw(t, e.addr, "GET http://"+host+"/a%2Fb HTTP/1.1\r\nhOsT: svc\r\nzz-Last: 1\r\nAA: 2\r\n\r\n")
		if a := response(t, br, "GET"); a.status != 200 {
			t.Fatalf("%s: %+v", host, a)
		}
		if text := <-got; !strings.HasPrefix(text, "GET /a%2Fb HTTP/1.1\r\nhOsT: svc\r\nzz-Last: 1\r\nAA: 2\r\n") || strings.Contains(text, "s3cret") {
			t.Errorf("%s: arrived\n%s", host, text)
		}
		if ex := e.exchange(uint64(i + 1)); ex.URL != "http://svc/a%2Fb" {
			t.Errorf("%s: recorded as %s", host, ex.URL)
		}
	}
	for host, want := range map[string]bool{"[::1]": true, "[::1]:80": true, "[2001:db8::1]:8080": true, "[::1": false, "[::1]x": false,
		"[::1]:": false, "[::1]:8x": false, "[127.0.0.1]": false, "[fe80::1%25eth0]": false, "[]": false, "svc:80": true} {
		if got := plainHost(host); got != want {
			t.Errorf("plainHost(%q) = %v", host, got)
		}
	}
}

// An answer that breaks off is not lost as a whole: its head was there.
func TestHeadOfABrokenAnswer(t *testing.T) {
	origin := scripted(t, func(_ int, conn net.Conn, br *bufio.Reader) {
		if readText(br) != "" {
			fmt.Fprint(conn, "HTTP/1.1 200 Fine\r\nContent-Length: 100\r\nX-B: 1\r\n\r\nabc")
		}
	})
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{origin}})
	for _, target := range []string{"/", "http://svc/"} { // our own engine, and net/http's handlers
		_, br := raw(t, guard, "GET "+target+" HTTP/1.1\r\nHost: svc\r\nx-lane-tag: dev-alice\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil || resp.Status != "200 Fine" || resp.Header.Get("X-B") != "1" {
			t.Errorf("%s: %v, %v", target, resp, err)
			continue
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "abc" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %q, %v", target, b, err)
		}
	}
}

func TestAnswersOfOurOwnSayTheirDecision(t *testing.T) {
	e := newEnv(t, nil)
	for _, target := range []string{"/x", "ftp://svc/", "http:///"} {
		var first string
		for range 5 { // the same bytes each time
			_, br := raw(t, e.addr, "GET "+target+" HTTP/1.1\r\nHost: svc\r\n\r\n")
			head := readText(br)
			head, _, _ = strings.Cut(head, "Date: ")
			if first == "" {
				first = head
			}
			if head != first || !strings.Contains(head, "X-Lane-Decision: ERROR; code="+string(CodeBadTarget)) {
				t.Errorf("%s: %q, and before %q", target, head, first)
			}
		}
	}
}

func TestAnAnswerThatIsNoHTTP(t *testing.T) {
	origin, heads := rawOrigin(t, "SSH-2.0-OpenSSH_9.2\r\n\r\n")
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", origin, "dev-alice")))
	a := e.get("http://svc/")
	<-heads
	if a.status != 502 || !strings.Contains(a.body, "gave an answer that cannot be passed on: no HTTP version") || strings.Contains(a.body, "ended the connection") {
		t.Errorf("%+v", a)
	}
}

// A caller is listened to only when the server takes its time: who has ended his
// side right behind a request gets what comes at once.
func TestTheEndOfACallersSide(t *testing.T) {
	for name, tt := range map[string]struct {
		wait time.Duration
		left bool
	}{"at once": {patience / 2, false}, "later": {2 * patience, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, conn := net.Pipe()
				l := newLine(nil, conn)
				caller.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l.listenFor(cancel)
				<-time.After(tt.wait)
				synctest.Wait()
				if got := ctx.Err() != nil; got != tt.left {
					t.Errorf("aborted: %v", got)
				}
				l.hush()
				if got := l.ear.heardEnd(); got != tt.left {
					t.Errorf("left: %v", got)
				}
			})
		})
	}
}

// Bytes of the next request are no sign that the caller stays.
func TestLeavesBehindANextRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, conn := net.Pipe()
		l := newLine(nil, conn)
		l.listen(nil)
		if _, err := io.WriteString(caller, "GET / HT"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l.ear.heardEnd() {
			t.Error("left while it is there")
		}
		caller.Close()
		synctest.Wait()
		if !l.ear.heardEnd() {
			t.Error("its leaving was not noticed")
		}
		l.hush()
		if got := string(l.in.Buffered()); got != "GET / HT" {
			t.Errorf("the next request is %q", got)
		}
	})
}
