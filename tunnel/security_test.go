package tunnel

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// knock sends an upgrade as an attacker would write it, and returns the answer.
func (r *testRelay) knock(t testing.TB, head http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+r.addr+"/tunnel/v1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"AAAAAAAAAAAAAAAAAAAAAA=="},
		"Authorization": {"Bearer alice/1"}, helloField: {hi(partControl, "a1", 1)},
	}
	for k, v := range head {
		if req.Header[k] = v; len(v) == 0 {
			delete(req.Header, k)
		}
	}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.roots}, DisableKeepAlives: true}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 2048))
	if resp.StatusCode != http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
	} else {
		t.Cleanup(func() { _ = resp.Body.Close() })
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp
}

func hi(part, agent string, generation uint64) string {
	b, _ := json.Marshal(hello{version, part, agent, "install", "host", generation})
	return string(b)
}

func TestWhoIsNotLetIn(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	r.auth.deny["forged/1"] = refuse(401, "the signature does not fit")
	for _, c := range []struct {
		name, say string
		head      http.Header
		want      int
	}{
		{"a page in a browser", "Origin", http.Header{"Origin": {"https://evil.example"}}, 403},
		{"a page of the same name", "Origin", http.Header{"Origin": {"https://" + r.addr}}, 403},
		{"an empty Origin", "Origin", http.Header{"Origin": {""}}, 403},
		{"no token", "no token", http.Header{"Authorization": {}}, 401},
		{"a token of another scheme", "no token", http.Header{"Authorization": {"Basic YTpi"}}, 401},
		{"a forged token", "signature", http.Header{"Authorization": {"Bearer forged/1"}}, 401},
		{"no word of itself", "a tunnel needs a WebSocket upgrade", http.Header{helloField: {}}, 400},
		{"another version", "version", http.Header{helloField: {`{"v":2,"part":"control","agent":"a","install":"i"}`}}, 400},
		{"a field that is not known", "unknown field", http.Header{helloField: {`{"v":1,"part":"control","agent":"a","install":"i","target":"10.0.0.1:22"}`}}, 400},
		{"another part", "part", http.Header{helloField: {hi("admin", "a1", 1)}}, 400},
		{"an agent with a line feed", "no agent", http.Header{helloField: {hi(partControl, "a\n1", 1)}}, 400},
		{"a second connection without a first", "no link", http.Header{helloField: {hi(partBulk, "a9", 1)}}, 409},
		{"no WebSocket", "", http.Header{"Upgrade": {}, "Connection": {}}, 426},
		{"64 KiB of header", "", http.Header{"X-Much": {strings.Repeat("x", 72<<10)}}, 431},
	} {
		resp := r.knock(t, c.head)
		b, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != c.want || !strings.Contains(string(b), c.say) {
			t.Errorf("%s: %d %q, want %d with %q", c.name, resp.StatusCode, b, c.want, c.say)
		}
	}
	// The twin of all of them.
	agent := startAgent(t, quick(), r, nil)
	agent.claim(t, orders(TCP))
}

// The second connection of a link belongs to whom the first one does, token and all.
func TestALinkIsOnesOwn(t *testing.T) {
	t.Parallel()
	r, a := pair(t, quick(), echo)
	generation := r.Links()[0].Holder.Generation
	for _, c := range []struct {
		name, token, part string
		generation        uint64
		want              int
	}{
		{"another user's second", "bob/2", partBulk, generation, 403},
		{"another user's first", "bob/2", partControl, generation + 1, 403},
		{"another token's second", "alice/2", partBulk, generation, 409},
		{"an older link's second", "alice/1", partBulk, generation - 1, 409},
		{"the same again", "alice/1", partControl, generation, 409},
		{"an older link", "alice/1", partControl, generation - 1, 409},
	} {
		resp := r.knock(t, http.Header{"Authorization": {"Bearer " + c.token}, helloField: {hi(c.part, a.id, c.generation)}})
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", c.name, resp.StatusCode, c.want)
		}
	}
	r.echoes(t)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	var agents []*testAgent
	for range 3 {
		a := startAgent(t, quick(), r, nil)
		a.want(t, Connected)
		agents = append(agents, a)
	}
	fourth := startAgent(t, quick(), r, nil)
	if err := <-fourth.ended; asRefusal(err, 0).Code != 429 {
		t.Errorf("%v", err)
	}
	bob := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Token = func(context.Context) (string, error) { return "bob/2", nil }
	})
	bob.want(t, Connected)
	agents[0].stop()
	for in := false; !in; { // the relay may not have heard yet that one is gone
		fourth = startAgent(t, quick(), r, nil)
		select {
		case e := <-fourth.events:
			in = e.What == Connected
		case err := <-fourth.ended:
			if asRefusal(err, 0).Code != 429 || t.Context().Err() != nil {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("nothing")
		}
	}
	for i := range 10 {
		fourth.claim(t, Claim{ID: fmt.Sprint(i), Lane: "dev-alice", Service: fmt.Sprintf("s%d", i), Kind: HTTP})
	}
	_, err := fourth.Claim(t.Context(), Claim{ID: "10", Lane: "dev-alice", Service: "s10", Kind: HTTP})
	if asRefusal(err, 0).Code != 429 {
		t.Errorf("%v", err)
	}
	_, err = fourth.Claim(t.Context(), Claim{ID: "9", Lane: "dev-alice", Service: "s10", Kind: HTTP})
	if asRefusal(err, 0).Code != 400 {
		t.Errorf("one id for two services: %v", err)
	}
}

// intruder is a link with whatever streams and messages a test makes up.
func intruder(t testing.TB, r *testRelay) *agentLink {
	t.Helper()
	a, err := newAgent(AgentConfig{
		URL: "wss://" + r.addr, Roots: r.roots, Install: "i", Host: "h", Handle: echo, Log: logger(t),
		Token: func(context.Context) (string, error) { return "mallory/6", nil },
	}, quick())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := a.connect(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

// A stream that names an address reaches nobody, in either direction, whatever the
// field is called.
func TestAStreamThatNamesAnAddress(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	var dialled atomic.Int64
	r.auth.out = func(context.Context, Holder, Out) (net.Conn, error) {
		dialled.Add(1)
		return nil, refuse(404, "nothing here")
	}
	l := intruder(t, r)
	for _, head := range []string{
		`{"v":1,"service":"orders","address":"127.0.0.1:8500"}`,
		`{"v":1,"service":"orders","addr":"169.254.169.254:80"}`,
		`{"v":1,"service":"orders","target":"10.0.0.1:22","lane":""}`,
		`{"v":1,"service":"127.0.0.1:8500"}`,
		`{"v":1,"service":"[::1]:22"}`,
		`{"v":1,"service":"a/../b"}`,
		`{"v":1,"service":"orders"}{"address":"10.0.0.1:22"}`,
		`{"v":1,"service":"orders","facts":{"a b":"c"}}`,
		`{"v":1,"service":"orders","facts":{"a":"c\n"}}`,
		`{"v":9,"service":"orders"}`,
		`{"v":1}`, `{}`, `[]`, `null`, ``,
	} {
		s := l.raw(t, head)
		_, err := s.Read(make([]byte, 10))
		if no := asRefusal(err, 0); no.Code != 400 {
			t.Errorf("%s: %v", head, err)
		}
	}
	if n := dialled.Load(); n != 0 {
		t.Errorf("%d were dialled", n)
	}
	// The twin: a service's name comes to the Authority, and only that.
	s := l.raw(t, `{"v":1,"service":"orders"}`)
	var no Refusal
	if err := readFrame(s, maxHeader, &no); err != nil || no.Code != 404 || dialled.Load() != 1 {
		t.Errorf("%v, %v, dialled %d", no, err, dialled.Load())
	}

	// And towards the laptop, from a relay that has been taken over.
	var handled atomic.Int64
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Handle = func(context.Context, Claim, Header, Stream) { handled.Add(1) }
	})
	a.claim(t, orders(TCP))
	var to *link
	for _, ln := range r.Links() {
		if ln.Holder.Subject == "alice" {
			r.mu.Lock()
			to = r.links[ln.Holder.Agent]
			r.mu.Unlock()
		}
	}
	for _, head := range []string{
		`{"v":1,"claim":"c1","kind":"tcp","address":"192.168.1.1:80"}`,
		`{"v":1,"claim":"c1","kind":"tcp","port":22}`,
		`{"v":1,"claim":"127.0.0.1:22","kind":"tcp"}`,
		`{"v":1,"claim":"c2","kind":"tcp"}`,
		`{"v":1,"claim":"c1","kind":"http"}`,
		`{"v":1,"claim":"c1","kind":"udp"}`,
	} {
		s := rawStreamOf(t, to.mux(partBulk), head)
		_, err := s.Read(make([]byte, 10))
		if no := asRefusal(err, 0); no.Code != 400 && no.Code != 404 {
			t.Errorf("%s: %v", head, err)
		}
	}
	if n := handled.Load(); n != 0 {
		t.Errorf("%d were handled", n)
	}
}

func (l *agentLink) raw(t testing.TB, head string) *stream { return rawStreamOf(t, l.bulk, head) }

func rawStreamOf(t testing.TB, m *mux, head string) *stream {
	t.Helper()
	s, err := m.openWith(t.Context(), append(binary.BigEndian.AppendUint16(nil, uint16(len(head))), head...))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.SetReadDeadline(time.Now().Add(patience))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A header that is too long, cut short, or never ends costs one stream.
func TestBadFrames(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.handshake = 8 * time.Second // an intruder on a busy machine has its link by then
	r := startRelay(t, tm, nil)
	l := intruder(t, r)
	for name, b := range map[string][]byte{
		"64 KiB":    append([]byte{0xff, 0xff}, bytes.Repeat([]byte("x"), 1<<16-1)...),
		"cut short": {0, 100, '{'},
		"nothing":   {},
	} {
		s, err := l.bulk.openWith(t.Context(), b)
		if err != nil { // refused before all of it was written
			if asRefusal(err, 0).Code != 400 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if name == "cut short" {
			_ = s.CloseWrite()
		}
		_ = s.SetReadDeadline(time.Now().Add(patience))
		if _, err := s.Read(make([]byte, 1)); asRefusal(err, 0).Code != 400 {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
	}
	if l.ctx.Err() != nil {
		t.Error("the link is gone too")
	}
	// Rubbish among the messages ends the link, and only that one.
	a := startAgent(t, tm, r, func(c *AgentConfig) { c.Handle = echo })
	a.claim(t, orders(TCP))
	_, _ = l.streams[0].Write([]byte{0, 3, '{', '{', '{'})
	select {
	case <-l.done:
	case <-time.After(patience):
		t.Error("the link stands")
	}
	r.echoes(t)
}

// Whoever asks for much of one claim at once is cut off.
func TestAFloodOfMessages(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	r.auth.block = make(chan struct{})
	l := intruder(t, r)
	c := Claim{ID: "c", Lane: "x", Service: "y", Kind: TCP}
	for i := range 10 * maxOps {
		l.control.send(message{Type: msgClaim, Seq: uint64(i), Claim: &c})
	}
	select {
	case <-l.done:
	case <-time.After(patience):
		t.Error("the link stands")
	}
	close(r.auth.block)
}

// Who asks and does not read the answers costs no more than a bounded queue.
func TestAnswersThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	a, err := newAgent(AgentConfig{
		URL: "wss://" + r.addr, Roots: r.roots, Install: "i", Host: "h", Handle: echo,
		Token: func(context.Context) (string, error) { return "mallory/6", nil },
	}, quick())
	if err != nil {
		t.Fatal(err)
	}
	l, err := a.connect(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = l.control.sess.Close()
		_ = l.bulk.sess.Close()
		l.cancel()
	})
	b, err := frame(message{Type: msgRelease, Seq: 1, ID: strings.Repeat("x", 64)}, maxMessage)
	if err != nil {
		t.Fatal(err)
	}
	// Each is answered with 24 bytes, of which the window takes a megabyte.
	many := bytes.Repeat(b, 100)
	_ = l.streams[0].SetWriteDeadline(time.Now().Add(patience))
	for range 10_000 {
		if _, err = l.streams[0].Write(many); err != nil {
			break
		}
	}
	if !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// Ten thousand connections that never say a word: the relay holds a few hundred,
// and lets in who speaks.
func TestHalfOpenConnections(t *testing.T) {
	const n = 10_000
	r := startRelay(t, defaults, func(c *RelayConfig) { c.Log = slog.New(slog.DiscardHandler) })
	most := watchHeap(t)
	goroutines := runtime.NumGoroutine()
	var conns []net.Conn
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
	for i := range n {
		c, err := net.DialTimeout("tcp", r.addr, patience)
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		if i%2 == 0 { // the beginning of a handshake
			_, _ = c.Write([]byte{22, 3, 1, 2, 0, 1, 0})
		}
		conns = append(conns, c)
	}
	if got := runtime.NumGoroutine() - goroutines; got > 600 {
		t.Errorf("%d goroutines", got)
	}
	a := startAgent(t, defaults, r, func(c *AgentConfig) { c.Handle = echo })
	a.claim(t, orders(TCP))
	r.echoes(t)
	// 10,000 connections of both ends in this process, and 512 half-open ones.
	if m := most(); m > 64<<20 {
		t.Errorf("the heap grew by %d MiB", m>>20)
	}
	a.stop()
}

// A token goes to the relay that was named: not to where that one points, not into
// the log, not into an address.
func TestATokenStaysWhereItBelongs(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	other := httpServer(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
	cert, pool := certificate(t, "a relay")
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+other+"/", http.StatusFound)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-served })
	var log lockedBuffer
	r := startRelay(t, quick(), func(c *RelayConfig) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	secret := func(context.Context) (string, error) { return "alice/verysecret", nil }
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.URL, c.Roots, c.Token = "wss://"+l.Addr().String(), pool, secret
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	if e := a.want(t, Retrying); asRefusal(e.Err, 0).Code != 302 {
		t.Errorf("%v", e.Err)
	}
	if got.Load() != 0 {
		t.Error("the redirect was followed")
	}
	a.stop()
	a = startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Token, c.Log = secret, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	a.claim(t, orders(TCP))
	a.stop()
	if log.String() == "" || strings.Contains(log.String(), "verysecret") {
		t.Errorf("the log: %s", log.String())
	}
	for _, bad := range []string{"ws://relay.test", "http://relay.test", "wss://", "wss://alice:tok@relay.test", "wss://relay.test/?token=x", ":"} {
		if _, err := NewAgent(AgentConfig{URL: bad, Install: "i", Handle: echo}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := NewAgent(AgentConfig{URL: "wss://relay.test", Install: "i", Handle: echo}); err != nil {
		t.Error(err)
	}
	if _, err := NewRelay(RelayConfig{TLS: &tls.Config{}, Authority: newAuthority()}); err == nil {
		t.Error("a relay without a certificate")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A client certificate comes to the Authority only when it was verified.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	mine, pool := certificate(t, "alice")
	other, _ := certificate(t, "mallory")
	r := startRelay(t, quick(), func(c *RelayConfig) {
		c.TLS.ClientAuth, c.TLS.ClientCAs = tls.VerifyClientCertIfGiven, pool
		c.Authority = &peers{newAuthority()}
	})
	a := startAgent(t, quick(), r, func(c *AgentConfig) { c.Client, c.Token = &mine, nil })
	a.want(t, Connected)
	if got := r.Links()[0].Holder.Subject; got != "alice" {
		t.Errorf("subject %q", got)
	}
	a.stop()
	a = startAgent(t, quick(), r, func(c *AgentConfig) { c.Token = nil })
	if err := <-a.ended; asRefusal(err, 0).Code != 401 {
		t.Errorf("%v", err)
	}
	// One of another authority does not come as far.
	c, err := tls.Dial("tcp", r.addr, &tls.Config{RootCAs: r.roots, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &other, nil
	}})
	if err == nil {
		_ = c.SetDeadline(time.Now().Add(patience))
		_, _ = io.WriteString(c, "GET /tunnel/v1 HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err = io.ReadAll(c)
		_ = c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "tls:") {
		t.Errorf("%v", err)
	}
}

// peers knows who has a certificate.
type peers struct{ *authority }

func (p *peers) Authenticate(_ context.Context, c Credentials) (Identity, error) {
	if c.Peer == nil {
		return Identity{}, refuse(401, "no certificate")
	}
	return Identity{Subject: c.Peer.Subject.CommonName}, nil
}

// What is not a tunnel on the relay's port is somebody else's, and cannot upgrade.
func TestOtherPaths(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), func(c *RelayConfig) {
		c.Other = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	})
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.roots}, DisableKeepAlives: true}}
	if got := get(t, c, "https://"+r.addr+"/healthz"); got != "fine" {
		t.Errorf("%q", got)
	}
	_, resp, err := websocket.Dial(t.Context(), "wss://"+r.addr+"/other", &websocket.DialOptions{HTTPClient: c})
	if err == nil || resp == nil || resp.StatusCode != 200 {
		t.Errorf("%v", err)
	}
}

func FuzzHeader(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"claim":"c1","kind":"tcp"}`, `{"v":1,"claim":"c1","kind":"http","request":"r","color":"dev-alice","deadline":1000}`,
		`{"v":1,"claim":"c1","kind":"tcp","address":"10.0.0.1:22"}`, `{"v":1,"service":"orders","lane":"dev-alice","facts":{"instance":"x"}}`,
		`{"v":1,"service":"orders"} {}`, `{"V":1,"CLAIM":"c1","kind":"tcp"}`, `{"v":1e400}`, "\x00", `[`,
	} {
		f.Add(append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...))
	}
	f.Add([]byte{0xff, 0xff, '{'})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		var h Header
		if err := readFrame(r, maxHeader, &h); err == nil && h.check() == nil {
			if len(b)-r.Len() > 2+maxHeader {
				t.Error("read too much")
			}
			for _, s := range []string{h.Claim, h.Request, h.Color} {
				if strings.ContainsAny(s, "\r\n\x00") || len(s) > maxName {
					t.Errorf("%q was taken", s)
				}
			}
			if strings.ContainsAny(h.Claim, ":/[]@") {
				t.Errorf("%q could be an address", h.Claim)
			}
			again, err := frame(h, maxHeader)
			var h2 Header
			if err != nil || readFrame(bytes.NewReader(again), maxHeader, &h2) != nil || h2 != h {
				t.Errorf("%+v does not come back: %+v, %v", h, h2, err)
			}
		}
		var o Out
		if err := readFrame(bytes.NewReader(b), maxHeader, &o); err == nil && o.check() == nil {
			if strings.ContainsAny(o.Service+o.Lane, ":/[]@ \r\n") {
				t.Errorf("%+v could be an address", o)
			}
		}
		var m message
		_ = readFrame(bytes.NewReader(b), maxMessage, &m)
		if m.Claim != nil && m.Claim.check() == nil && strings.ContainsAny(m.Claim.ID+m.Claim.Lane+m.Claim.Service, ":/ \r\n") {
			t.Errorf("%+v", m.Claim)
		}
	})
}

// Whatever comes over the wire in whatever pieces, the frames are followed as yamux
// reads them.
func FuzzFollow(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 'h', 'i', 0, 1, 0, 1, 0, 0, 0, 5, 0, 0, 1, 0}, uint8(5))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		watch := func(n int) string {
			var out strings.Builder
			w := &wire{
				came:    func(s uint32, n int) { fmt.Fprintln(&out, "data", s, n) },
				granted: func(s uint32, n int, first bool) { fmt.Fprintln(&out, "grant", s, n, first) },
			}
			for p := b; len(p) > 0; {
				k := min(n, len(p))
				w.follow(p[:k])
				p = p[k:]
			}
			return out.String()
		}
		if whole, pieces := watch(len(b)+1), watch(int(piece)+1); whole != pieces {
			t.Errorf("whole:\n%sin pieces:\n%s", whole, pieces)
		}
	})
}
