package relay_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/relay/facts"
	"lane/pkg/token"
	"lane/tunnel"
)

func TestAClaimIsServedAndGivenUp(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		text := w.token(w.grant(nil))
		l := w.laptop(r.addr, text, "box", says(t, "alice's"))
		got := l.hold(w.claim(facts.Zone, "z1"))
		at := got[facts.Address]
		if got[facts.Registered] != w.service || got[facts.Mode] != "shared" || got[facts.Relay] != "one" || at == "" {
			t.Errorf("answered %v", got)
		}
		w.eventually("passing", func() bool {
			in := w.instances()
			return len(in) == 1 && in[0] == fmt.Sprintf("%s %s passing alice", w.service, at)
		})
		if cl := w.claims(); len(cl) != 1 || cl[0].Owner != "alice" || cl[0].Relay != "one" || cl[0].Generation == 0 || cl[0].Install != "box" {
			t.Errorf("claims %+v", cl)
		}
		for tag, want := range map[string]string{w.lane: "alice's", "": "baseline", "dev-bob": "baseline", "Bad Tag": "baseline"} {
			if body := get(at, tag); body != want {
				t.Errorf("tag %q: %s, want %s", tag, body, want)
			}
		}
		if links, claims, _ := r.figures.Held(); links != 1 || claims != 1 {
			t.Errorf("figures: %d %d", links, claims)
		}
		l.agent.Report("one", tunnel.State{Ready: false, Note: "nothing listens"})
		w.eventually("critical", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], "critical") })
		l.release("one")
		w.nothing("released")
		if err := l.end(); err != nil {
			t.Error(err)
		}
		r.end()
		if a := r.audit.String(); strings.Contains(a, text[len(text)-20:]) || len(r.audit.lines("up")) != 1 || len(r.audit.lines("gone")) != 1 {
			t.Errorf("audit:\n%s", a)
		}
	})
}

func TestWhoComesIn(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	_, foreign, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := w.token(w.grant(nil))
	forged, err := token.Sign(foreign, w.grant(nil))
	if err != nil {
		t.Fatal(err)
	}
	revoked := w.grant(nil)
	if err := w.client.Revoke(t.Context(), consul.Revocation{ID: revoked.ID}); err != nil {
		t.Fatal(err)
	}
	old := w.grant(func(g *token.Grant) { g.Issued, g.Expires = g.Issued.Add(-2*time.Hour), g.Issued.Add(-time.Hour) })
	parts := strings.Split(good, ".")
	for name, c := range map[string]struct{ text, why string }{
		"no token":             {"", "a token is needed"},
		"cut":                  {good[:len(good)/2], "no whole token"},
		"without a signature":  {parts[0] + "." + parts[1] + ".", "signature"},
		"another's signature":  {forged, "signature"},
		"expired":              {w.token(old), "has expired"},
		"revoked":              {w.token(revoked), "was revoked"},
		"two tokens, one good": {good + "," + forged, "no whole token"},
	} {
		t.Run(name, func(t *testing.T) {
			l := w.laptop(r.addr, c.text, "box", "127.0.0.1:1")
			_, err := l.try(w.claim())
			if end := l.end(); err == nil || refusal(end) != 401 || !strings.Contains(end.Error(), c.why) {
				t.Errorf("Claim = %v, Run = %v; want %q", err, end, c.why)
			}
		})
	}
	w.nothing("refused")
	l := w.laptop(r.addr, good, "box", "127.0.0.1:1")
	l.hold(w.claim())
	if r.figures.Refused() < 7 {
		t.Errorf("refused: %d", r.figures.Refused())
	}
}

func TestWhatMayBeClaimed(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	l := w.laptop(r.addr, w.token(w.grant(func(g *token.Grant) {
		g.Services, g.Lanes = []string{w.service, "payment", "consul", "lane-relay"}, append(g.Lanes, "test")
	})), "box", says(t, "x"))
	// 403 is what another token would help against.
	for name, c := range map[string]struct {
		code   int
		change func(*tunnel.Claim)
	}{
		"another lane":       {403, func(c *tunnel.Claim) { c.Lane = "dev-bob" }},
		"another service":    {403, func(c *tunnel.Claim) { c.Service = "reviews" }},
		"a denied service":   {423, func(c *tunnel.Claim) { c.Service = "payment" }},
		"the registry":       {422, func(c *tunnel.Claim) { c.Service = "consul" }},
		"a relay":            {422, func(c *tunnel.Claim) { c.Service = "lane-relay" }},
		"a reserved lane":    {422, func(c *tunnel.Claim) { c.Lane = "test" }},
		"a mode of its own":  {422, func(c *tunnel.Claim) { c.Facts[facts.Mode] = "baseline" }},
		"a lane in its env":  {422, func(c *tunnel.Claim) { c.Facts[facts.Env] = strings.Repeat("x", 600) }},
		"an address to bind": {403, func(c *tunnel.Claim) { c.Lane, c.Facts[facts.Address] = "dev-bob", "0.0.0.0:80" }},
	} {
		t.Run(name, func(t *testing.T) {
			cl := w.claim()
			c.change(&cl)
			_, err := l.try(cl)
			var no *tunnel.Refusal
			if !errors.As(err, &no) || no.Code != c.code || !no.Claim {
				t.Errorf("Claim = %v, want %d", err, c.code)
			}
		})
	}
	w.nothing("refused")
	if n := len(r.audit.lines("refused")); n != 9 {
		t.Errorf("%d refusals in the audit log:\n%s", n, r.audit)
	}
	l.hold(w.claim())
}

func TestAClaimHasOneHolder(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		one, two := w.relay("one", nil), w.relay("two", nil)
		text := w.token(w.grant(nil))
		first := w.laptop(one.addr, text, "box", says(t, "box"))
		at := first.hold(w.claim())[facts.Address]
		// Another machine of hers, at either relay, and another user whose token is for the
		// same lane.
		for name, r := range map[string]*running{"one": one, "two": two} {
			other := w.laptop(r.addr, text, "desk", says(t, "desk"))
			if _, err := other.try(w.claim()); refusal(err) != 409 || !strings.Contains(err.Error(), "alice") {
				t.Errorf("another machine at %s: %v", name, err)
			}
			c := w.claim()
			c.Takeover = true
			bob := w.laptop(r.addr, w.token(w.grant(func(g *token.Grant) { g.User = "bob" })), "den", says(t, "bob's"))
			if _, err := bob.try(c); refusal(err) != 409 {
				t.Errorf("another user at %s, by force: %v", name, err)
			}
			_, _ = other.end(), bob.end()
		}
		if body := get(at, w.lane); body != "box" {
			t.Error(body)
		}
		// By force, it is hers: the first one hears of it, and there is one instance.
		c := w.claim()
		c.Takeover = true
		second := w.laptop(two.addr, text, "desk", says(t, "desk"))
		at2 := second.hold(c)[facts.Address]
		first.happened(tunnel.ClaimLost, 0)
		w.eventually("one instance", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at2+" passing") })
		if body := get(at2, w.lane); body != "desk" {
			t.Error(body)
		}
		if cl := w.claims(); len(cl) != 1 || cl[0].Install != "desk" || cl[0].Relay != "two" {
			t.Errorf("claims %+v", cl)
		}
		second.release("one")
		w.nothing("released")

		// A session that registers by itself is nobody's to take, but its own user's.
		s, err := w.client.OpenSession(t.Context(), consul.SessionOptions{TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Claim(t.Context(), lane.Claim{Lane: lane.Name(w.lane), Service: w.service, Owner: "alice", Host: "pc", Install: "desk", Mode: "shared", Registered: w.service, ID: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := second.try(w.claim()); refusal(err) != 409 {
			t.Errorf("held by a session: %v", err)
		}
		if err := s.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
		second.hold(w.claim())
	})
}

func TestATunnelThatBreaksIsSeenAtOnceAndComesBack(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		j := newJunction(t, r.addr)
		l := w.laptop(j.ln.Addr().String(), w.token(w.grant(nil)), "box", says(t, "box"))
		at := l.hold(w.claim())[facts.Address]
		w.eventually("passing", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], "passing") })
		j.lead("127.0.0.1:1")
		w.eventually("critical", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], "critical") })
		if body := get(at, w.lane); body != "502 E_RELAY_LOST" {
			t.Errorf("without a tunnel: %s", body)
		}
		if body := get(at, ""); body != "baseline" {
			t.Errorf("untagged, without a tunnel: %s", body)
		}
		if cl := w.claims(); len(cl) != 1 || cl[0].Session == "" {
			t.Errorf("the claim stands: %+v", cl)
		}
		j.lead(r.addr)
		w.eventually("passing again", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at+" passing") })
		if body := get(at, w.lane); body != "box" {
			t.Errorf("back: %s", body)
		}
	})
}

// The second relay takes over at once, by the installation and its newer link, and not
// because anything has expired; the first one removes nothing of it.
func TestAnotherRelayTakesOver(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		one, two := w.relay("one", nil), w.relay("two", nil)
		j := newJunction(t, one.addr)
		l := w.laptop(j.ln.Addr().String(), w.token(w.grant(nil)), "box", says(t, "box"))
		l.hold(w.claim())
		j.lead(two.addr)
		_, n := l.happened(tunnel.Claimed, 0)
		e, _ := l.happened(tunnel.Claimed, n)
		at := e.Facts[facts.Address]
		if e.Facts[facts.Relay] != "two" {
			t.Errorf("claimed by %v", e.Facts)
		}
		w.eventually("the first lets go", func() bool { _, claims, _ := one.figures.Held(); return claims == 0 })
		one.end()
		w.eventually("one instance, of the second", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at+" passing") })
		if cl := w.claims(); len(cl) != 1 || cl[0].Relay != "two" {
			t.Errorf("claims %+v", cl)
		}
		if body := get(at, w.lane); body != "box" {
			t.Error(body)
		}
		l.release("one")
		w.nothing("released")
	})
}

// A relay that ends keeps the claims of laptops that are to come back: without them the
// lane's callers would silently get the baseline meanwhile.
func TestARelayThatRestartsKeepsTheClaim(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		one := w.relay("one", nil)
		j := newJunction(t, one.addr)
		l := w.laptop(j.ln.Addr().String(), w.token(w.grant(nil)), "box", says(t, "box"))
		l.hold(w.claim())
		seen := w.watch()
		w.eventually("who routes sees it", func() bool { return seen().Kind == lane.KindLaneMatch })
		one.end()
		if in, cl := w.instances(), w.claims(); len(in) != 0 || len(cl) != 1 || cl[0].Session == "" || !cl[0].Vacant {
			t.Errorf("after its end: %v %+v", in, cl)
		}
		w.eventually("who routes misses it", func() bool { return seen().Reason == lane.ReasonLaneDeclaredAbsent })
		two := w.relay("one", nil)
		j.lead(two.addr)
		_, n := l.happened(tunnel.Claimed, 0)
		e, _ := l.happened(tunnel.Claimed, n)
		w.eventually("back", func() bool {
			in := w.instances()
			return len(in) == 1 && strings.Contains(in[0], e.Facts[facts.Address]+" passing")
		})
		w.eventually("who routes sees it again", func() bool { return seen().Kind == lane.KindLaneMatch })
		if cl := w.claims(); len(cl) != 1 || cl[0].Vacant {
			t.Errorf("back: %+v", cl)
		}
		l.release("one")
		w.nothing("released")
	})
}

// What came in by a revoked token is out of the registry before its tunnel ends.
func TestRevoked(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		g := w.grant(nil)
		l, other := w.laptop(r.addr, w.token(g), "box", says(t, "box")), w.laptop(r.addr, w.token(w.grant(nil)), "desk", says(t, "desk"))
		at := l.hold(w.claim())[facts.Address]
		stays := w.claim()
		stays.Lane = "dev-shared"
		defer other.release("one")
		other.hold(stays)
		if err := w.client.Revoke(t.Context(), consul.Revocation{ID: g.ID}); err != nil {
			t.Fatal(err)
		}
		l.happened(tunnel.Disconnected, 0)
		w.nothing("when the tunnel ends")
		if gone := r.audit.lines("gone"); len(gone) != 1 || gone[0]["why"] != "revoked" {
			t.Errorf("the audit log says %v", gone)
		}
		if conn, err := net.Dial("tcp", at); err == nil {
			_ = conn.Close()
			t.Error("its port is still open")
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if _, err := l.agent.Claim(ctx, w.claim()); refusal(err) != 401 {
			t.Errorf("it comes back: %v", err)
		}
		if refusal(l.end()) != 401 {
			t.Errorf("Run = %v", l.end())
		}
		if _, claims, _ := r.figures.Held(); claims != 1 {
			t.Errorf("%d claims are left, want another token's", claims)
		}
	})
}

func TestATokenThatEnds(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	var later atomic.Int64 // how far the relay's clock has gone on
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	r := w.relay("one", func(o *relay.Options) {
		o.Now, o.Verifier = clock, token.NewVerifier(w.key.Public().(ed25519.PublicKey), clock)
	})
	l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "box"))
	l.hold(w.claim())
	later.Store(int64(59 * time.Minute))
	w.eventually("it is good until its end", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], "passing") })
	later.Store(int64(time.Hour))
	l.happened(tunnel.Disconnected, 0)
	w.nothing("when the tunnel ends")
	if gone := r.audit.lines("gone"); len(gone) != 1 || gone[0]["why"] != "token expired" {
		t.Errorf("the audit log says %v", gone)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := l.agent.Claim(ctx, w.claim()); refusal(err) != 401 || !strings.Contains(err.Error(), "expired") {
		t.Errorf("it comes back: %v", err)
	}
}

// With certificates, a token is worth nothing in other hands than its user's.
func TestTheCertificateIsTheTokensUsers(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	signer, pool := newAuthority(t)
	r := w.relay("one", func(o *relay.Options) {
		o.TLS.ClientCAs, o.TLS.ClientAuth = pool, tls.RequireAndVerifyClientCert
	})
	text := w.token(w.grant(nil))
	alices, bobs := signer("alice"), signer("bob")
	stranger, _ := newAuthority(t)
	others := stranger("alice")
	w.laptopAs(r.addr, text, "box", says(t, "box"), alices).hold(w.claim())
	l := w.laptopAs(r.addr, text, "desk", says(t, "desk"), bobs)
	if _, err := l.try(w.claim()); err == nil || refusal(l.end()) != 403 || !strings.Contains(l.end().Error(), "of bob") {
		t.Errorf("bob's certificate: %v", l.end())
	}
	for name, cert := range map[string]*tls.Certificate{"none": nil, "another authority's": others} {
		l := w.laptopAs(r.addr, text, "den", says(t, "den"), cert)
		if got, err := l.try(w.claim()); err == nil {
			t.Errorf("%s: let in, %v", name, got)
		}
		var want *tunnel.ClientCertificateError
		err := l.end()
		if !errors.As(err, &want) || want.Shown != (cert != nil) {
			t.Errorf("%s: %v", name, err)
		}
		says := map[string]string{"none": ", and there is none", "another authority's": "does not take this machine's certificate: it says: "}[name]
		if err != nil && (!strings.Contains(err.Error(), says) || strings.ContainsAny(err.Error(), "\"{}") || strings.Contains(err.Error(), "WebSocket")) {
			t.Errorf("%s: in a library's words: %v", name, err)
		}
		why := map[string]string{"none": "there is no client certificate", "another authority's": `the client certificate of "alice" is not taken: x509: `}[name]
		w.eventually("the audit log says "+why, func() bool {
			return slices.ContainsFunc(r.audit.lines("turned away"), func(m map[string]any) bool {
				return strings.HasPrefix(fmt.Sprint(m["why"]), why) && m["remote"] != nil
			})
		})
	}
	// Who talks no TLS, or breaks off, is not one of them.
	before := r.figures.Refused()
	for _, text := range []string{"", "GET / HTTP/1.1\r\n\r\n"} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, text)
		if text != "" { // the relay ends it
			_, _ = io.ReadAll(conn)
		}
		_ = conn.Close()
	}
	if got := r.figures.Refused(); got != before {
		t.Errorf("%d were refused, want %d", got, before)
	}
	if in := w.instances(); len(in) != 1 {
		t.Errorf("%v", in)
	}
}

// newAuthority makes client certificates for users, and what verifies them.
func newAuthority(t *testing.T) (func(user string) *tls.Certificate, *x509.CertPool) {
	t.Helper()
	until, pool := newAuthorityUntil(t)
	return func(user string) *tls.Certificate { return until(user, time.Now().Add(time.Hour)) }, pool
}

func newAuthorityUntil(t *testing.T) (func(user string, end time.Time) *tls.Certificate, *x509.CertPool) {
	t.Helper()
	caPublic, ca, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "users"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, root, root, caPublic, ca)
	if err != nil {
		t.Fatal(err)
	}
	if root, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return func(user string, end time.Time) *tls.Certificate {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user}, NotBefore: root.NotBefore, NotAfter: end,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, public, ca)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}
	}, pool
}

func TestTheWayOut(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	admin := says(t, "admin")
	r := w.relay("one", func(o *relay.Options) { o.Own = []string{admin} })
	w.register("reviews", "reviews-1", says(t, "reviews"))
	w.register("meta", "meta-1", "169.254.169.254:80")
	w.register("meta", "meta-2", "[fe80::1]:80")
	w.register("named", "named-1", "relay.test.example:80")
	w.register("own", "own-1", admin)
	w.register("own", "own-2", r.addr)
	w.register("evil", "evil-1", w.addr)
	w.register("evil", "evil-2", "127.0.0.1:8300")
	w.register("evil", "evil-3", strings.Replace(w.addr, "127.0.0.1", "127.0.0.2", 1))
	w.register("dead", "dead-1", "127.0.0.1:1")
	w.register("consul", "consul-1", says(t, "consul"))
	l := w.laptop(r.addr, w.token(w.grant(nil)), "box", "127.0.0.1:1")
	l.hold(w.claim())
	for _, c := range []struct {
		service, instance string
		code              int
	}{
		{"reviews", "reviews-1", 0},
		{"reviews", "reviews-2", 404},
		{"reviews", "", 404},
		{"reviews", "meta-1", 404}, // of another service
		{"nothing", "reviews-1", 404},
		{"127.0.0.1:80", "reviews-1", -1}, // which its own end does not even send
		{"../agent/self", "reviews-1", -1},
		{"meta", "meta-1", 403},
		{"meta", "meta-2", 403},
		{"named", "named-1", 403},
		{"own", "own-1", 403},
		{"own", "own-2", 403},
		{"consul", "consul-1", 403},
		{"evil", "evil-1", 403}, // Consul under another name
		{"evil", "evil-2", 403},
		{"evil", "evil-3", 403},
		{"lane-relay", "lane-relay-1", 403},
		{"dead", "dead-1", 502},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		st, err := l.agent.DialOut(ctx, tunnel.Out{Service: c.service, Facts: map[string]string{facts.Instance: c.instance}})
		var body string
		if err == nil {
			// A refusal may come with the first bytes.
			_, err = io.WriteString(st, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			if err == nil {
				var b []byte
				b, err = io.ReadAll(st)
				body = string(b)
			}
			_ = st.Close()
		}
		cancel()
		if c.code < 0 && err != nil {
			continue
		}
		if refusal(err) != c.code || c.code == 0 && (err != nil || !strings.HasSuffix(body, "reviews")) {
			t.Errorf("%s %q: %v %q, want %d", c.service, c.instance, err, body, c.code)
		}
	}
}

// A guard at the relay can be called by the way out, and sends on to the baseline what
// is of no lane: that is no way to Consul or to a cloud's metadata either.
func TestAGuardLeadsNobodyToConsul(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "laptop"))
		if got := get(l.hold(w.claim())[facts.Address], ""); got != "baseline" {
			t.Errorf("an application: %s", got)
		}
		for i, to := range []string{w.addr, "169.254.169.254:80"} {
			c := w.claim()
			c.ID, c.Service = fmt.Sprint("evil", i), consultest.Name(t, fmt.Sprint("evil", i))
			w.register(c.Service, c.Service+"-1", to)
			if got := get(l.hold(c)[facts.Address], ""); got != "502 E_UPSTREAM_CONNECT" {
				t.Errorf("%s: %s", to, got)
			}
		}
	})
}

func TestPlainTCPIsExposedByItsIsolatedName(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		echo, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := echo.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}
		}()
		t.Cleanup(func() { _ = echo.Close(); <-done })
		l := w.laptop(r.addr, w.token(w.grant(nil)), "box", echo.Addr().String())
		c := w.claim(facts.Mode, "shared") // which it does not get
		c.Kind = tunnel.TCP
		got := l.hold(c)
		if want := consul.IsolatedName(lane.Name(w.lane), w.service); got[facts.Registered] != want {
			t.Errorf("registered as %s, want %s", got[facts.Registered], want)
		}
		if cl := w.claims(); len(cl) != 0 {
			t.Errorf("it is declared to be in the lane: %+v", cl)
		}
		conn, err := net.Dial("tcp", got[facts.Address])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(limit))
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "hello\n" {
			t.Errorf("%q %v", line, err)
		}
		_ = conn.Close()
		second := w.laptop(r.addr, w.token(w.grant(nil)), "desk", echo.Addr().String())
		if _, err := second.try(c); refusal(err) != 409 {
			t.Errorf("a second one: %v", err)
		}
		l.release("one")
		w.nothing("released")
	})
}

func TestACallerThatLooksAtNoLanesIsolates(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", relay.Elsewhere)
		text := w.token(w.grant(nil))
		isolated := consul.IsolatedName(lane.Name(w.lane), w.service)
		t.Cleanup(func() { _ = w.client.ClearPolicy(context.Background(), w.service) })

		// Who asks for the own name keeps it.
		keeps := w.laptop(r.addr, text, "box", says(t, "box"))
		at := keeps.hold(w.claim(facts.Mode, "shared"))[facts.Address]
		if body := get(at, ""); body != "baseline" {
			t.Error(body)
		}
		keeps.release("one")

		l := w.laptop(r.addr, text, "box", says(t, "box"))
		at = l.hold(w.claim(facts.Mode, facts.Auto))[facts.Address]
		w.eventually("passing", func() bool { in := w.instances(); return len(in) == 1 && in[0] == w.service+" "+at+" passing alice" })
		if body := get(at, w.lane); body != "box" {
			t.Error(body)
		}
		if body := get(at, ""); body != "baseline" {
			t.Error(body)
		}
		e, _ := l.happened(tunnel.Told, 0)
		if e.Facts[facts.Registered] != isolated || !strings.Contains(e.Facts[facts.Note], "127.0.0.1 called it without") {
			t.Errorf("told %v", e.Facts)
		}
		w.eventually("isolated", func() bool { in := w.instances(); return len(in) == 1 && in[0] == isolated+" "+at+" passing alice" })
		if cl := w.claims(); len(cl) != 1 || cl[0].Registered != isolated || cl[0].Mode != "isolated" {
			t.Errorf("claims %+v", cl)
		}
		if body := get(at, w.lane); body != "box" {
			t.Error(body)
		}
		l.release("one")
		w.nothing("released")
		// It is remembered.
		if got := l.hold(w.claim(facts.Mode, facts.Auto)); got[facts.Registered] != isolated {
			t.Errorf("the next one is registered as %v", got)
		}
	})
}
