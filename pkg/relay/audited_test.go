package relay_test

import (
	"context"
	"slices"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/relay"
	"lane/pkg/token"
	"lane/tunnel"
)

// tokens are the tokens of the audit log's lines with that message.
func (r *running) tokens(msg string) (out []string) {
	for _, line := range r.audit.lines(msg) {
		if id, ok := line["token"].(string); ok { // without one: the relay did not know yet what is revoked
			out = append(out, id)
		}
	}
	return out
}

// The audit log has what was let in as that, and what was not as that, with the token by
// which it was asked, whoever refuses it: the tunnel itself, or the relay.
func TestTheAuditLogSaysWhatWasRefused(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", func(o *relay.Options) { o.Limits = tunnel.Limits{Agents: 1, Claims: 1} })
	alice := w.grant(nil)
	bob := w.grant(func(g *token.Grant) { g.User = "bob" })

	first := w.laptop(r.addr, w.token(alice), "one", "127.0.0.1:1")
	first.happened(tunnel.Connected, 0)
	first.hold(w.claim())
	if got := r.tokens("link"); !slices.Equal(got, []string{alice.ID}) {
		t.Errorf("let in: %v", got)
	}

	// One tunnel too many, twice.
	for range 2 {
		over := w.laptop(r.addr, w.token(alice), "two", "127.0.0.1:1")
		if err := <-over.over; err == nil {
			t.Error("a second tunnel")
		}
	}
	if got := r.tokens("turned away"); !slices.Equal(got, []string{alice.ID, alice.ID}) {
		t.Errorf("turned away: %v", got)
	}
	if got := r.tokens("link"); len(got) != 1 {
		t.Errorf("let in: %v", got)
	}

	// Somebody else's claim, and one claim too many.
	second := w.laptop(r.addr, w.token(bob), "three", "127.0.0.1:1")
	second.happened(tunnel.Connected, 0)
	if _, err := second.try(w.claim()); err == nil {
		t.Error("a claim of alice's")
	}
	more := w.claim()
	more.ID, more.Service = "two", "another"
	if _, err := first.try(more); err == nil {
		t.Error("a claim too many")
	}
	if got := r.tokens("refused"); !slices.Equal(got, []string{bob.ID, alice.ID}) {
		t.Errorf("refused: %v", got)
	}

	// What a claim becomes has its token, too.
	if err := first.end(); err != nil {
		t.Error(err)
	}
	if got := r.tokens("gone"); !slices.Equal(got, []string{alice.ID}) {
		t.Errorf("gone: %v", got)
	}
}

// A new token that is another user's is refused, and not noted as renewed; a good one is.
func TestTheAuditLogOfARenewal(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	alice, next, bob := w.grant(nil), w.grant(nil), w.grant(func(g *token.Grant) { g.User = "bob" })
	now := w.token(alice)
	up := make(chan struct{}, 1)
	a, err := tunnel.NewAgent(tunnel.AgentConfig{URL: "wss://" + r.addr, Pin: tunnel.Fingerprint(w.cert.Certificate[0]), Install: "one", Host: "one",
		Token:  func(context.Context) (string, error) { return now, nil },
		Handle: func(context.Context, tunnel.Claim, tunnel.Header, tunnel.Stream) {},
		Notify: func(e tunnel.Event) {
			if e.What == tunnel.Connected {
				up <- struct{}{}
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() { end(); <-done }()
	<-up
	now = w.token(bob)
	if _, err := a.Renew(ctx); err == nil {
		t.Error("bob's token was taken")
	}
	if got := r.tokens("turned away"); !slices.Equal(got, []string{bob.ID}) || len(r.tokens("token renewed")) != 0 {
		t.Errorf("turned away: %v; renewed: %v", got, r.tokens("token renewed"))
	}
	now = w.token(next)
	if _, err := a.Renew(ctx); err != nil {
		t.Error(err)
	}
	if got := r.tokens("token renewed"); !slices.Equal(got, []string{next.ID}) {
		t.Errorf("renewed: %v", got)
	}
}
