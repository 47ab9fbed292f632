package relay_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/token"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// byCertificate is a relay that takes a certificate alone, and what makes those of users.
func (w *world) byCertificate(change func(*relay.Options)) (*running, func(user string, end time.Time) *tls.Certificate) {
	w.t.Helper()
	signer, pool := newAuthorityUntil(w.t)
	return w.relay("one", func(o *relay.Options) {
		o.TLS.ClientCAs, o.TLS.ClientAuth, o.WithoutToken = pool, tls.RequireAndVerifyClientCert, true
		if change != nil {
			change(o)
		}
	}), signer
}

// A certificate alone lets its user in, for the lanes of that name; who has none that is
// good and a user's does not come in, and a token beside it has to be the same user's.
func TestACertificateAlone(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r, signer := w.byCertificate(nil)
	soon := time.Now().Add(time.Hour)
	alices := signer("alice", soon)
	l := w.laptopAs(r.addr, "", "box", says(t, "box"), alices)
	at := l.hold(w.claim())
	if in := w.instances(); len(in) != 1 || !strings.HasSuffix(in[0], " alice") {
		t.Errorf("%v", in)
	}
	if got := get(at["address"], w.lane); got != "box" {
		t.Errorf("called: %q", got)
	}
	other := w.claim()
	other.ID, other.Lane = "two", "dev-shared"
	var no *tunnel.Refusal
	if _, err := l.try(other); !errors.As(err, &no) || no.Code != 403 || !strings.Contains(no.Text, "the certificate of alice alone does not allow") {
		t.Errorf("another lane: %v", err)
	}
	// A token beside it says more, and no less than before.
	both := w.laptopAs(r.addr, w.token(w.grant(nil)), "desk", says(t, "desk"), alices)
	both.hold(other)
	both.release("two")

	expired := signer("alice", time.Now().Add(-time.Minute))
	stranger, _ := newAuthorityUntil(t)
	for name, c := range map[string]struct {
		cert *tls.Certificate
		text string
		code int // of the relay; 0: TLS refuses it
		why  string
	}{
		"none":                   {nil, "", 0, ""},
		"another authority's":    {stranger("alice", soon), "", 0, ""},
		"an expired one":         {expired, "", 0, ""},
		"no name":                {signer("", soon), "", 403, "no user's"},
		"a name with a space":    {signer("alice smith", soon), "", 403, "no user's"},
		"a path":                 {signer("../alice", soon), "", 403, "no user's"},
		"a name with a line end": {signer("alice\nbob", soon), "", 403, "no user's"},
		"letters of others":      {signer("аlice", soon), "", 403, "no user's"}, // a Cyrillic a
		"no lane's name":         {signer("alice@example", soon), "", 403, "is no lane"},
		"a pattern":              {signer("*", soon), "", 403, "no user's"},
		"another's token":        {signer("bob", soon), w.token(w.grant(nil)), 403, "the token is of alice, and the certificate of bob"},
		"a bad token":            {alices, "x.y.z", 401, "no whole token"},
	} {
		t.Run(name, func(t *testing.T) {
			l := w.laptopAs(r.addr, c.text, "den", says(t, "den"), c.cert)
			_, err := l.try(w.claim())
			end := l.end()
			var tls *tunnel.ClientCertificateError
			if err == nil || c.code == 0 && !errors.As(end, &tls) || refusal(end) != c.code || !strings.Contains(end.Error(), c.why) {
				t.Errorf("Claim = %v, Run = %v", err, end)
			}
		})
	}
	// Another user's lane.
	b := w.laptopAs(r.addr, "", "bobs", says(t, "bob"), signer("bob", soon))
	hers := w.claim()
	hers.Lane = "dev-alice"
	if _, err := b.try(hers); !errors.As(err, &no) || no.Code != 403 || !no.Claim {
		t.Errorf("bob in alice's lane: %v", err)
	}
	// Where it was not said so, a token is needed beside it.
	strict, signer2 := w.byCertificate(func(o *relay.Options) { o.WithoutToken = false })
	s := w.laptopAs(strict.addr, "", "strict", says(t, "s"), signer2("alice", soon))
	if _, err := s.try(w.claim()); err == nil || refusal(s.end()) != 401 || !strings.Contains(s.end().Error(), "a token is needed") {
		t.Errorf("without --without-token: %v", s.end())
	}
	if in := w.instances(); len(in) != 1 {
		t.Errorf("%v", in)
	}
}

// It is revoked by the ID that the audit log has, and ends when the certificate does.
func TestACertificateThatEnds(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	var later atomic.Int64
	clock := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	r, signer := w.byCertificate(func(o *relay.Options) {
		o.Now, o.Verifier = clock, token.NewVerifier(w.key.Public().(ed25519.PublicKey), clock)
	})
	l := w.laptopAs(r.addr, "", "box", says(t, "box"), signer("alice", time.Now().Add(2*time.Hour)))
	l.hold(w.claim())
	id := r.tokens("link")[0]
	if !relay.ByCertificate(id) || token.CheckID(id) != nil {
		t.Fatalf("the ID is %q", id)
	}
	if err := w.client.Revoke(t.Context(), consul.Revocation{ID: id}); err != nil {
		t.Fatal(err)
	}
	l.happened(tunnel.Disconnected, 0)
	w.nothing("revoked")
	if err := <-l.over; refusal(err) != 401 || !strings.Contains(err.Error(), "the certificate was revoked") {
		t.Errorf("revoked: %v", err)
	}
	// Another one of the same user is another one.
	again := w.laptopAs(r.addr, "", "box", says(t, "box"), signer("alice", time.Now().Add(time.Hour)))
	again.hold(w.claim())
	later.Store(int64(time.Hour + time.Minute))
	again.happened(tunnel.Disconnected, 0)
	w.nothing("expired")
	if gone := r.audit.lines("gone"); len(gone) != 2 || gone[0]["why"] != "revoked" || gone[1]["why"] != "certificate expired" {
		t.Errorf("the audit log: %v", gone)
	}
}

// Without a certificate asked for, nobody would need anything.
func TestNothingAloneLetsIn(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	_, pool := newAuthority(t)
	for name, c := range map[string]*tls.Config{
		"no authority": {Certificates: []tls.Certificate{w.cert}, ClientAuth: tls.RequireAndVerifyClientCert},
		"only asked":   {Certificates: []tls.Certificate{w.cert}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		client := open(t, w.addr)
		err = relay.Run(t.Context(), relay.Options{Listener: ln, TLS: c, WithoutToken: true, Client: client, Watcher: consul.NewWatcher(client, consul.WatchOptions{}),
			Verifier: token.NewVerifier(nil, time.Now), Name: "one", Advertise: netip.MustParseAddr("127.0.0.1"), Ports: relay.Ports{First: 30100, Last: 31999},
			Policy: lane.DefaultPolicy(), Log: traffic.NewLog(1)})
		if err == nil || !strings.Contains(err.Error(), "has to be asked for") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
