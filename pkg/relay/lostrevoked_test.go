package relay_test

import (
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/tunnel"
)

// What a relay has heard to be revoked is so also when the registry has forgotten it.
func TestARevocationOutlivesItsKey(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay("one", nil)
		revoked, good := w.grant(nil), w.grant(nil)
		if err := w.client.Revoke(t.Context(), consul.Revocation{ID: revoked.ID, User: "alice"}); err != nil {
			t.Fatal(err)
		}
		out := func() bool {
			l := w.laptop(r.addr, w.token(revoked), "box", "127.0.0.1:1")
			_, err := l.try(w.claim())
			return err != nil && refusal(l.end()) == 401
		}
		w.eventually("it is turned out", out)
		if err := w.client.Pardon(t.Context(), revoked.ID); err != nil {
			t.Fatal(err)
		}
		w.eventually("the relay misses it", func() bool { return len(r.audit.lines("revocation lost")) == 1 })
		if !out() {
			t.Error("a revoked token comes in again")
		}
		l := w.laptop(r.addr, w.token(good), "desk", says(t, "desk"))
		l.hold(w.claim())
		l.release("one")
		// It is missed once, whatever else is heard.
		if err := w.client.Revoke(t.Context(), consul.Revocation{ID: good.ID}); err != nil {
			t.Fatal(err)
		}
		l.happened(tunnel.Disconnected, 0)
		if got := r.audit.lines("revocation lost"); len(got) != 1 || got[0]["token"] != revoked.ID || !out() {
			t.Errorf("the audit log: %v", got)
		}
		if err := w.client.Pardon(t.Context(), good.ID); err != nil {
			t.Error(err)
		}
	})
}
