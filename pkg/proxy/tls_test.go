package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"lane/pkg/ca"
	"lane/pkg/lane"
)

// authority makes a CA that roots trust, and that signs as if it were that long ago.
func authority(t testing.TB, roots *x509.CertPool, ago time.Duration) *ca.Issuer {
	t.Helper()
	now := func() time.Time { return time.Now().Add(-ago) }
	a, err := ca.Init(t.TempDir(), ca.Options{Owner: "test", Now: now()})
	if err != nil {
		t.Fatal(err)
	}
	i, err := ca.NewIssuer(a, now)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(a.Cert)
	return i
}

// tlsShop is order-service behind TLS: a baseline and dev-alice's instance, both
// with certificates of the environment's CA, and a proxy that opens what opens
// says.
type tlsShop struct {
	*env
	issuer      *ca.Issuer // the environment's CA
	roots       *x509.CertPool
	own         *x509.CertPool // roots of the caller, who trusts the proxy's CA alone
	base, alice *backend
}

// securedBackend speaks TLS with a certificate for a host, and HTTP/2 if it may.
func securedBackend(t testing.TB, name string, i *ca.Issuer, host string, h2 bool, h http.HandlerFunc) *backend {
	t.Helper()
	b := newBackend(t, name, h)
	plain := b.Config.Handler
	b.Server.Close()
	b.Server = httptest.NewUnstartedServer(plain)
	cert, err := i.Certificate(host)
	if err != nil {
		t.Fatal(err)
	}
	b.Server.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}, MinVersion: tls.VersionTLS12}
	b.EnableHTTP2 = h2
	b.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are meant
	b.StartTLS()
	t.Cleanup(b.Server.Close)
	return b
}

// says reads the whole request and answers with a name.
func says(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, name)
	}
}

func (b *backend) tlsAddr() string { return strings.TrimPrefix(b.URL, "https://") }

func newTLSShop(t testing.TB, h2 bool, change func(*Config)) *tlsShop {
	t.Helper()
	s := &tlsShop{roots: x509.NewCertPool()}
	s.issuer = authority(t, s.roots, 0)
	s.base = securedBackend(t, "base", s.issuer, "order-service", h2, says("base"))
	s.alice = securedBackend(t, "alice", s.issuer, "order-service", h2, says("alice"))
	s.env = newEnv(t, func(c *Config) {
		c.Roots = s.roots
		if change != nil {
			change(c)
		}
	})
	s.reg.set(service("order-service", instance("o-base", s.base.tlsAddr(), ""), instance("o-alice", s.alice.tlsAddr(), "dev-alice")))
	s.openFor(func(_, service string) bool { return service != "" })
	return s
}

// openFor starts a forward front that opens what the function says.
func (s *tlsShop) openFor(opens func(host, service string) bool) {
	s.t.Helper()
	s.own = x509.NewCertPool()
	issuer := authority(s.t, s.own, 0)
	s.addr = s.serve(NewForward(s.tr, ForwardConfig{Drain: 2 * time.Second, TLS: func(host, service string) *tls.Config {
		if !opens(host, service) {
			return nil
		}
		return issuer.Config(host)
	}}).Serve)
}

// client goes through the proxy and trusts its CA.
func (s *tlsShop) client(h2 bool) *http.Client {
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: s.addr}), DisableCompression: true,
		ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{RootCAs: s.own, MinVersion: tls.VersionTLS12}}
	s.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: testLimit}
}

func tagHead(tag string) http.Header {
	if tag == "" {
		return nil
	}
	return http.Header{"x-lane-tag": {tag}}
}

// HTTP/1.1 and HTTP/2 by ALPN, on both sides; the tag changes from request to
// request on one connection.
func TestOpenedTLS(t *testing.T) {
	for _, c := range []struct {
		name           string
		client, server bool // speak HTTP/2
	}{{"h1 to h1", false, false}, {"h1 to h2", false, true}, {"h2 to h1", true, false}, {"h2 to h2", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newTLSShop(t, c.server, nil)
			client := s.client(c.client)
			for i, tag := range []string{"", "baseline", "dev-alice", "dev-bob", ""} {
				want, decision := "alice", "LANE_MATCH"
				switch tag {
				case "baseline":
					want, decision = "base", "BASELINE"
				case "dev-bob":
					want, decision = "base", "FALLBACK_BASELINE"
				}
				req, err := http.NewRequest("POST", "https://order-service/a%2Fb?x=1", strings.NewReader("body"))
				if err != nil {
					t.Fatal(err)
				}
				for k, v := range tagHead(tag) {
					req.Header[k] = v
				}
				resp, err := client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || string(body) != want || !strings.HasPrefix(resp.Header.Get("X-Lane-Decision"), decision) {
					t.Errorf("%q: %q %v %v", tag, body, err, resp.Header)
				}
				if (resp.ProtoMajor == 2) != c.client {
					t.Errorf("the caller spoke %s", resp.Proto)
				}
				b := map[string]*backend{"alice": s.alice, "base": s.base}[want]
				b.mu.Lock()
				if (b.last.ProtoMajor == 2) != c.server || b.last.Host != "order-service" || b.last.URL.EscapedPath() != "/a%2Fb" || b.last.URL.RawQuery != "x=1" {
					t.Errorf("arrived: %s %s %s", b.last.Proto, b.last.Host, b.last.URL)
				}
				b.mu.Unlock()
				if want == "alice" && b.header().Get("X-Lane-Tag") != "dev-alice" {
					t.Errorf("not colored: %v", b.header())
				}
				ex := s.exchange(uint64(i + 1))
				if ex.URL != "https://order-service/a%2Fb?x=1" || ex.Service != "order-service" || ex.Note != "" || ex.Method != "POST" || ex.ReqSize != 4 {
					t.Errorf("%+v", ex)
				}
			}
		})
	}
}

// What is not opened is a blind tunnel to the baseline: the caller sees the
// server's own certificate.
func TestTLSThatStaysClosed(t *testing.T) {
	s := newTLSShop(t, true, nil)
	s.openFor(func(string, string) bool { return false })
	s.own = s.roots
	a := do(t, s.client(true), "GET", "https://order-service/", nil, nil)
	if a.body != "base" || a.header.Get("X-Lane-Decision") != "" {
		t.Errorf("%+v", a)
	}
	client := s.client(false)
	if a := do(t, client, "GET", "https://order-service/", tagHead("dev-alice"), nil); a.body != "base" {
		t.Errorf("%+v", a)
	}
	client.CloseIdleConnections()
	ex := s.exchange(1)
	if ex.Note != noteTLS || ex.Method != "CONNECT" || ex.Kind != lane.KindBaseline {
		t.Errorf("%+v", ex)
	}
	if n := s.alice.hits.Load(); n != 0 {
		t.Errorf("the lane was called %d times", n)
	}
}

// A host outside is never told the tag, opened or not, unless it is listed.
func TestOpenedTLSOutside(t *testing.T) {
	roots := x509.NewCertPool()
	i := authority(t, roots, 0)
	names, err := NewNames(NamesConfig{Colored: []string{"seen.partner.test"}})
	if err != nil {
		t.Fatal(err)
	}
	far := securedBackend(t, "far", i, "seen.partner.test", true, nil)
	blind := securedBackend(t, "blind", i, "other.test", true, nil)
	s := &tlsShop{env: newEnv(t, func(c *Config) { c.Roots, c.Names = roots, names })}
	// The test's own resolver: hosts outside are on loopback.
	at := map[string]string{"seen.partner.test:443": far.tlsAddr(), "other.test:443": blind.tlsAddr()}
	s.tr.opened.plain.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.tr.far.dial(ctx, network, at[addr])
	}
	s.openFor(func(host, _ string) bool { return strings.HasSuffix(host, ".test") })
	for _, h2 := range []bool{false, true} {
		for _, c := range []struct {
			host, tag string
			b         *backend
		}{{"seen.partner.test", "dev-alice", far}, {"other.test", "", blind}} {
			a := do(t, s.client(h2), "GET", "https://"+c.host+"/", http.Header{"Baggage": {"keep=1,lane=dev-alice"}}, nil)
			if a.body != c.b.name || !strings.HasPrefix(a.header.Get("X-Lane-Decision"), "PASSTHROUGH_EXTERNAL") {
				t.Errorf("%s: %+v", c.host, a)
			}
			h := c.b.header()
			if h.Get("X-Lane-Tag") != c.tag || strings.Contains(h.Get("Baggage"), "lane=") != (c.tag != "") || !strings.Contains(h.Get("Baggage"), "keep=1") {
				t.Errorf("%s got %v", c.host, h)
			}
		}
	}
}

// A server that cannot be verified is never sent anything, and the caller is told
// why: as JSON, or as a gRPC status.
func TestOpenedTLSUpstreamIsVerified(t *testing.T) {
	s := newTLSShop(t, true, nil)
	plain := newBackend(t, "plain", nil)
	untrusted := securedBackend(t, "untrusted", authority(t, x509.NewCertPool(), 0), "untrusted", true, nil)
	expired := securedBackend(t, "expired", authority(t, s.roots, 30*24*time.Hour), "expired", true, nil)
	wrong := securedBackend(t, "wrong", s.issuer, "order-service", true, nil)
	good := securedBackend(t, "good", s.issuer, "good", true, nil)
	guarded := instance("g", plain.addr(), "dev-alice")
	guarded.Local = true
	s.reg.set(service("untrusted", instance("u", untrusted.tlsAddr(), "")), service("wrong", instance("w", wrong.tlsAddr(), "")),
		service("expired", instance("e", expired.tlsAddr(), "")), service("plain", instance("p", plain.addr(), "")),
		service("good", instance("y", good.tlsAddr(), "")), service("guarded", guarded))
	for _, c := range []struct{ host, say, hint string }{
		{"untrusted", "certificate signed by unknown authority", "mitm_ca_file"},
		{"wrong", "valid for order-service, not wrong", "nothing was sent"},
		{"expired", "expired", "nothing was sent"},
		{"plain", "does not look like a TLS handshake", "http://"},
		{"guarded", "does not look like a TLS handshake", "behind a guard"},
	} {
		for _, h2 := range []bool{false, true} {
			a := do(t, s.client(h2), "POST", "https://"+c.host+"/", nil, strings.NewReader("x"))
			var p Problem
			if err := json.Unmarshal([]byte(a.body), &p); err != nil {
				t.Fatalf("%s: %v in %q", c.host, err, a.body)
			}
			if a.status != 502 || p.Code != lane.CodeUpstreamConnect || a.header.Get(lane.HeaderError) != string(p.Code) ||
				!strings.Contains(p.Message, c.say) || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("%s: %d %+v", c.host, a.status, p)
			}
		}
		err := dialGRPCTLS(t, s, c.host+":443").Invoke(shortly(t), "/t.T/Unary", str(""), &wrapperspb.StringValue{})
		if st := status.Convert(err); st.Code() != codes.Unavailable || !strings.HasPrefix(st.Message(), "E_UPSTREAM_CONNECT: ") || !strings.Contains(st.Message(), c.say) {
			t.Errorf("%s: %v", c.host, err)
		}
	}
	if n := untrusted.hits.Load() + wrong.hits.Load() + expired.hits.Load() + plain.hits.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if a := do(t, s.client(true), "GET", "https://good/", nil, nil); a.body != "good" {
		t.Errorf("%+v", a)
	}
}

// One address asked by two names is verified for each of them.
func TestOpenedTLSVerifiesEachName(t *testing.T) {
	names, err := NewNames(NamesConfig{Hosts: map[string]string{"orders.test.example": "order-service"}})
	if err != nil {
		t.Fatal(err)
	}
	s := newTLSShop(t, true, func(c *Config) { c.Names = names })
	for range 2 {
		if a := do(t, s.client(true), "GET", "https://order-service/", nil, nil); a.body != "alice" {
			t.Errorf("%+v", a)
		}
		if a := do(t, s.client(true), "GET", "https://orders.test.example/", nil, nil); a.status != 502 || !strings.Contains(a.body, "not orders.test.example") {
			t.Errorf("%+v", a)
		}
	}
}

// The name in the handshake and the host of CONNECT are one, or two names of one
// service.
func TestOpenedTLSOfAnotherName(t *testing.T) {
	s := newTLSShop(t, false, nil)
	for _, c := range []struct {
		target, name string
		status       int
	}{
		{"order-service:443", "order-service", 200},
		{s.base.tlsAddr(), "order-service", 200}, // an instance's address
		{"order-service:443", "bank.example", 421},
	} {
		conn, br, resp := connectTo(t, s.env, c.target)
		if resp.StatusCode != 200 || br.Buffered() > 0 {
			t.Fatalf("%s: %d", c.target, resp.StatusCode)
		}
		tc := tls.Client(conn, &tls.Config{ServerName: c.name, RootCAs: s.own, MinVersion: tls.VersionTLS12})
		if err := tc.Handshake(); err != nil {
			t.Fatal(err)
		}
		a := through(t, tc, bufio.NewReader(tc), "GET / HTTP/1.1\r\nHost: x\r\n")
		if a.status != c.status || (c.status != 200) != (a.header.Get(lane.HeaderError) == string(CodeBadTarget)) {
			t.Errorf("%+v: %+v", c, a)
		}
		tc.Close()
	}
}

// A caller that does not trust our CA is seen in the record.
func TestOpenedTLSRefusedByTheCaller(t *testing.T) {
	s := newTLSShop(t, true, nil)
	s.own = s.roots
	if resp, err := s.client(true).Get("https://order-service/"); err == nil {
		resp.Body.Close()
		t.Fatal("it was taken")
	}
	ex := s.exchange(1)
	if ex.Note != noteRefused || ex.Service != "order-service" || !strings.Contains(ex.Err, "certificate") {
		t.Errorf("%+v", ex)
	}
	if n := s.base.hits.Load() + s.alice.hits.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// The local process behind our own guard reads HTTP: HTTP/1, and gRPC's HTTP/2.
func TestOpenedTLSToOwnGuard(t *testing.T) {
	s := newTLSShop(t, true, nil)
	local := newBackend(t, "local", nil)
	guard := s.guard(GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-mine", Local: []string{local.addr()}})
	rpc := newEcho(t, "rpc")
	rpcGuard := s.guard(GuardConfig{Lane: "dev-alice", Service: "rpc", InstanceID: "r-mine", Local: []string{rpc.addr}})
	mine, theirs := instance("o-mine", guard, "dev-alice"), instance("r-mine", rpcGuard, "dev-alice")
	mine.Local, theirs.Local = true, true
	s.reg.set(service("order-service", instance("o-base", s.base.tlsAddr(), ""), mine), service("rpc", theirs))
	// Its address is known once it serves.
	eventually(t, "the guards serve", func() bool {
		_, a := s.tr.guards.Load(guard)
		_, b := s.tr.guards.Load(rpcGuard)
		return a && b
	})
	for _, h2 := range []bool{false, true} {
		if a := do(t, s.client(h2), "GET", "https://order-service/", nil, nil); a.body != "local" || !strings.HasPrefix(a.header.Get("X-Lane-Decision"), "LANE_MATCH") {
			t.Errorf("%+v", a)
		}
		if a := do(t, s.client(h2), "GET", "https://order-service/", tagHead("baseline"), nil); a.body != "base" {
			t.Errorf("%+v", a)
		}
	}
	out := &wrapperspb.StringValue{}
	if err := dialGRPCTLS(t, s, "rpc:443").Invoke(shortly(t), "/t.T/Unary", str("x"), out); err != nil || out.Value != "rpc x" {
		t.Errorf("%q %v", out.Value, err)
	}
}

// An instance of ours that the registry has at a relay's address: nobody on that way reads
// TLS, so what comes by it goes to the guard itself, also where all else goes by a way of
// its own.
func TestOpenedTLSToOwnGuardBehindARelay(t *testing.T) {
	const relay = "192.0.2.1:21000" // nobody's
	for name, change := range map[string]func(*Config){
		"by the network": nil,
		"by the relay": func(c *Config) {
			c.Via = func(_ context.Context, addr string) (net.Conn, error) { return nil, errors.New("asked for " + addr) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTLSShop(t, true, change)
			local := newBackend(t, "local", nil)
			g, err := NewGuard(s.tr, GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-mine", Local: []string{local.addr()}, Reject: true})
			if err != nil {
				t.Fatal(err)
			}
			at := s.serve(g.Serve)
			eventually(t, "the guard serves", func() bool { _, ok := s.tr.guards.Load(at); return ok })
			mine := instance("o-mine", relay, "dev-alice")
			s.reg.set(service("order-service", instance("o-base", s.base.tlsAddr(), ""), mine))
			g.Far(relay)
			if a := do(t, s.client(true), "GET", "https://order-service/", nil, nil); a.body != "local" {
				t.Errorf("%+v", a)
			}
			g.Far("192.0.2.1:21001")
			if _, ours := s.tr.ownGuard(relay, "order-service", "dev-alice"); ours {
				t.Error("the address of before is still taken for ours")
			}
			g.Far("")
			if _, ours := s.tr.ownGuard("192.0.2.1:21001", "order-service", "dev-alice"); ours {
				t.Error("an address that was given up is still taken for ours")
			}
			if _, ours := s.tr.ownGuard(at, "", ""); !ours {
				t.Error("the guard's own address is not taken for ours any more")
			}
		})
	}
}

// WebSockets over TLS that was opened: HTTP/1.1 to the server, even to one that
// has HTTP/2.
func TestOpenedTLSUpgrade(t *testing.T) {
	s := newTLSShop(t, true, nil)
	ws := securedBackend(t, "ws", s.issuer, "ws", true, func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, r.Header.Get("X-Lane-Tag")+" "+line)
	})
	s.reg.set(service("ws", instance("w", ws.tlsAddr(), "")))
	conn, _, _ := connectTo(t, s.env, "ws:443")
	tc := tls.Client(conn, &tls.Config{ServerName: "ws", RootCAs: s.own, MinVersion: tls.VersionTLS12})
	if _, err := io.WriteString(tc, "GET / HTTP/1.1\r\nHost: ws\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(tc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v %v", resp, err)
	}
	if _, err := io.WriteString(tc, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := br.ReadString('\n'); line != "dev-alice hello\n" {
		t.Errorf("%q %v", line, err)
	}
}

func TestSecuredIsBounded(t *testing.T) {
	s := &secured{}
	first := s.to("10.0.0.1:1").plain
	if s.to("10.0.0.1:1").plain != first {
		t.Error("not kept")
	}
	for i := range maxSecured + 20 {
		s.to(net.JoinHostPort("10.0.0.2", strconv.Itoa(i+1)))
	}
	if len(s.addr) != maxSecured {
		t.Errorf("%d are kept", len(s.addr))
	}
}

// gRPC over TLS, as grpc-go dials it by HTTPS_PROXY: colored and decided call by
// call.
func TestOpenedTLSGRPC(t *testing.T) {
	s := newTLSShop(t, true, nil)
	base, alice := newEchoTLS(t, "base", s), newEchoTLS(t, "alice", s)
	s.reg.set(service("rpc", instance("r-base", base.addr, ""), instance("r-alice", alice.addr, "dev-alice")))
	c := dialGRPCTLS(t, s, "rpc:443")
	for _, tag := range []string{"", "baseline", "dev-bob", "dev-alice"} {
		want, decision := "alice", "LANE_MATCH"
		var kv []string
		if tag != "" {
			kv = []string{"x-lane-tag", tag}
		}
		if tag == "baseline" || tag == "dev-bob" {
			want, decision = "base", map[string]string{"baseline": "BASELINE", "dev-bob": "FALLBACK_BASELINE"}[tag]
		}
		var head metadata.MD
		out := &wrapperspb.StringValue{}
		if err := c.Invoke(shortly(t, kv...), "/t.T/Unary", str("x"), out, grpc.Header(&head)); err != nil || out.Value != want+" x" {
			t.Errorf("%q: %q %v", tag, out.Value, err)
			continue
		}
		if !strings.HasPrefix(strings.Join(head.Get("x-lane-decision"), ""), decision) || tag == "" && head.Get("tag")[0] != "dev-alice" {
			t.Errorf("%q: %v", tag, head)
		}
	}
	for n := range int32(17) {
		err := c.Invoke(shortly(t), "/t.T/Code", wrapperspb.Int32(n), &wrapperspb.StringValue{})
		if st := status.Convert(err); st.Code() != codes.Code(n) || n > 0 && len(st.Details()) != 1 {
			t.Errorf("%d: %v", n, st)
		}
	}
	st, err := c.NewStream(shortly(t), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/t.T/Bidi")
	if err != nil {
		t.Fatal(err)
	}
	if head, err := st.Header(); err != nil || len(head.Get("early")) != 1 {
		t.Fatalf("%v %v", head, err)
	}
	_ = st.SendMsg(str("a"))
	_ = st.SendMsg(str("end"))
	if all, err := recvAll(t, st); all != "a;" || status.Code(err) != codes.OutOfRange {
		t.Errorf("%q %v", all, err)
	}
}

// newEchoTLS is an echo behind TLS, for the name rpc.
func newEchoTLS(t testing.TB, name string, s *tlsShop) *echo {
	t.Helper()
	cert, err := s.issuer.Certificate("rpc")
	if err != nil {
		t.Fatal(err)
	}
	return newEcho(t, name, grpc.Creds(credentials.NewServerTLSFromCert(cert)))
}

// dialGRPCTLS is dialGRPC with TLS inside, and trust in the proxy's CA.
func dialGRPCTLS(t testing.TB, s *tlsShop, target string) *grpc.ClientConn {
	t.Helper()
	return dialGRPC(t, s.addr, target, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(s.own, "")))
}
