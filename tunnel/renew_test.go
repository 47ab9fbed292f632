package tunnel

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// holder is an agent whose token can be replaced.
func holder(t *testing.T, r *testRelay, token string) (*testAgent, *atomic.Value) {
	t.Helper()
	var now atomic.Value
	now.Store(token)
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Handle = echo
		c.Token = func(context.Context) (string, error) { return now.Load().(string), nil }
	})
	return a, &now
}

// A token that is replaced in time costs nothing: the stream under way goes on, the
// claim is not given up for a moment, and the old token's end is nobody's any more.
func TestARenewedToken(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	a, token := holder(t, r, "alice/1")
	a.claim(t, orders(TCP))
	if renewed, err := a.Renew(t.Context()); renewed || err != nil {
		t.Errorf("the same token: %v %v", renewed, err)
	}
	s := r.dial(t, "orders")
	_, _ = io.WriteString(s, "before, ")
	_, _ = io.ReadFull(s, make([]byte, 8))
	token.Store("alice/2")
	if renewed, err := a.Renew(t.Context()); !renewed || err != nil {
		t.Fatalf("%v %v", renewed, err)
	}
	r.auth.want(t, "up dev-alice orders", 2) // the new one is asked whether it may
	r.Revoke(t.Context(), func(h Holder) bool { return h.TokenID == "1" }, "gone")
	_, _ = io.WriteString(s, "after")
	_ = s.CloseWrite()
	if b, err := io.ReadAll(s); string(b) != "after" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if l := r.Links(); len(l) != 1 || l[0].Holder.TokenID != "2" {
		t.Errorf("%+v", l)
	}
	if r.auth.count("gone") != 0 || r.auth.count("lost") != 0 {
		t.Errorf("%v", r.auth.calls)
	}
	// The new one's revocation is its own.
	r.Revoke(t.Context(), func(h Holder) bool { return h.TokenID == "2" }, "revoked")
	if r.auth.count("gone orders: revoked") != 1 {
		t.Errorf("%v", r.auth.calls)
	}
}

// Where the old token ends, the tunnel lives by the new one, and without one it ends.
func TestARenewedTokenLivesLonger(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	soon := time.Now().Add(10 * time.Second) // a busy machine has claimed and renewed by then
	r.auth.expire["alice/1"], r.auth.expire["bob/1"] = soon, soon
	a, token := holder(t, r, "alice/1")
	a.claim(t, orders(TCP))
	b, _ := holder(t, r, "bob/1")
	other := orders(TCP)
	other.Service = "reviews"
	b.claim(t, other)
	token.Store("alice/2")
	if renewed, err := a.Renew(t.Context()); !renewed || err != nil {
		t.Fatalf("%v %v", renewed, err)
	}
	b.want(t, Disconnected) // its token has ended, and alice's first one too
	r.echoes(t)
	if r.auth.count("lost orders") != 0 || r.auth.count("gone orders") != 0 {
		t.Errorf("%v", r.auth.calls)
	}
}

// A new token that is not taken changes nothing; one that allows less loses that, and
// only that.
func TestANewTokenThatIsNotTaken(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	r.auth.deny["alice/forged"] = refuse(401, "the signature does not fit")
	a, token := holder(t, r, "alice/1")
	a.claim(t, orders(TCP))
	other := Claim{ID: "c2", Lane: "dev-alice", Service: "reviews", Kind: TCP}
	a.claim(t, other)
	for name, c := range map[string]struct {
		code int
		say  string
	}{"alice/forged": {401, "signature"}, "bob/2": {403, "is of alice"}, "": {401, "no token"}} {
		token.Store(name)
		renewed, err := a.Renew(t.Context())
		if no := asRefusal(err, 0); renewed || no.Code != c.code || !strings.Contains(no.Text, c.say) {
			t.Errorf("%q: %v %v", name, renewed, err)
		}
	}
	r.echoes(t)
	if l := r.Links(); len(l) != 1 || l[0].Holder.TokenID != "1" || r.auth.count("up") != 2 {
		t.Errorf("%+v %v", l, r.auth.calls)
	}
	r.auth.mu.Lock()
	r.auth.deny["reviews"] = refuse(403, "the token allows orders")
	r.auth.mu.Unlock()
	token.Store("alice/3")
	if renewed, err := a.Renew(t.Context()); !renewed || err != nil {
		t.Fatalf("%v %v", renewed, err)
	}
	if e := a.want(t, ClaimLost); e.Claim.Service != "reviews" || asRefusal(e.Err, 0).Code != 403 {
		t.Errorf("%+v", e)
	}
	if r.auth.count("gone reviews: revoked") != 1 || r.auth.count("gone orders") != 0 {
		t.Errorf("%v", r.auth.calls)
	}
	r.echoes(t)
}
