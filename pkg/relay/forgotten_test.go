package relay_test

import (
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/relay"
	"lane/pkg/token"
)

// A relay removes the revocations of tokens that have long ended, and no other key there.
func TestOldRevocationsGo(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		var ahead atomic.Int64
		r := w.relay("one", func(o *relay.Options) {
			relay.ForgetOften(o)
			o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		})
		old, long := w.grant(nil), w.grant(nil)
		for id, expires := range map[string]time.Time{old.ID: old.Expires, long.ID: time.Now().Add(10 * 24 * time.Hour)} {
			if err := w.client.Revoke(t.Context(), consul.Revocation{ID: id, User: "alice", Expires: expires}); err != nil {
				t.Fatal(err)
			}
		}
		foreign := token.NewID()
		w.put("/v1/kv/lane/revoked/"+foreign, `{"reason":"by hand"}`)
		t.Cleanup(func() {
			for _, id := range []string{long.ID, foreign} {
				if err := w.client.Pardon(t.Context(), id); err != nil && t.Context().Err() == nil {
					t.Error(err)
				}
			}
		})
		// They are heard at a time of their own: the clock moves behind that.
		l := w.laptop(r.addr, w.token(old), "box", "127.0.0.1:1")
		if _, err := l.try(w.claim()); err == nil {
			t.Error("a revoked token")
		}
		w.eventually("both revocations are heard", func() bool {
			for _, g := range []*token.Grant{old, long} {
				l := w.laptop(r.addr, w.token(g), "box", "127.0.0.1:1")
				if _, err := l.try(w.claim()); err == nil || refusal(l.end()) != 401 {
					return false
				}
			}
			return true
		})
		ahead.Store(int64(14 * time.Hour))
		w.eventually("the old one is removed", func() bool {
			all, err := w.client.Revocations(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, there := all[old.ID]
			return !there && len(r.audit.lines("revocation removed")) > 0
		})
		all, err := w.client.Revocations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{long.ID, foreign} {
			if _, ok := all[id]; !ok {
				t.Errorf("%s is gone: %v", id, all)
			}
		}
		if gone := r.audit.lines("revocation removed"); len(gone) != 1 || gone[0]["token"] != old.ID {
			t.Errorf("the audit log: %v", gone)
		}
	})
}
