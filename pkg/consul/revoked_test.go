package consul_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func TestRevocationsAreHeard(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		var mu sync.Mutex
		var last map[string]consul.Revocation
		heard := make(chan struct{}, 64)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- c.WatchRevocations(ctx, func(all map[string]consul.Revocation) {
				mu.Lock()
				last = all
				mu.Unlock()
				heard <- struct{}{}
			}, func(err error) { t.Error(err) })
		}()
		until := func(what string, ok func(map[string]consul.Revocation) bool) {
			t.Helper()
			limit := time.After(time.Minute)
			for {
				mu.Lock()
				now := last
				mu.Unlock()
				if now != nil && ok(now) {
					return
				}
				select {
				case <-heard:
				case <-limit:
					t.Fatalf("%s: %v", what, now)
				}
			}
		}
		one, other := unique("TOKEN"), unique("TOKEN")
		until("the first answer, with none of these", func(all map[string]consul.Revocation) bool { _, ok := all[one]; return !ok })
		if err := c.Revoke(deadline(t), consul.Revocation{ID: one, User: "alice", By: "bob"}); err != nil {
			t.Fatal(err)
		}
		until("revoked", func(all map[string]consul.Revocation) bool {
			_, wrong := all[other]
			return all[one].User == "alice" && all[one].ID == one && !wrong
		})
		consul.PutKey(t, c, "lane/revoked/"+other, "what is this")
		until("a value that cannot be read revokes too", func(all map[string]consul.Revocation) bool { _, ok := all[other]; return ok })
		for _, id := range []string{one, other} {
			if err := c.Pardon(deadline(t), id); err != nil {
				t.Error(err)
			}
		}
		until("pardoned", func(all map[string]consul.Revocation) bool { return len(all) == 0 })
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		var bad *consul.ValidationError
		for _, id := range []string{"", "../switches/kill", "a/b", "a b"} {
			if err := c.Revoke(deadline(t), consul.Revocation{ID: id}); !errors.As(err, &bad) {
				t.Errorf("%q: %v", id, err)
			}
		}
	})
}

// A session that holds the claims of many goes on when it loses one.
func TestOneClaimIsLostAndTheOthersStay(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		lost := make(chan *consul.ClaimLostError, 8)
		s, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 10 * time.Second, Lost: func(e *consul.ClaimLostError) { lost <- e }})
		if err != nil {
			t.Fatal(err)
		}
		other := session(t, c)
		one, two, three := unique("dev-alice"), unique("dev-bob"), unique("dev-carol")
		for _, l := range []string{one, two, three} {
			if err := s.Claim(deadline(t), claim(l, "orders", "x")); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		want := func(l string) {
			t.Helper()
			select {
			case e := <-lost:
				if e.Lane != lane.Name(l) || e.Service != "orders" {
					t.Errorf("lost %v, want %s", e, l)
				}
			case <-time.After(time.Minute):
				t.Fatalf("nobody hears that %s is lost", l)
			}
		}
		if err := other.TakeOver(deadline(t), claims(t, c, lane.Name(one))[0], claim(one, "orders", "y")); err != nil {
			t.Fatal(err)
		}
		want(one)
		consul.PutKey(t, c, "lane/declared/"+two+"/orders", "")
		want(two)
		if got := claims(t, c, lane.Name(three)); len(got) != 1 || got[0].Session != s.ID() {
			t.Errorf("the third: %v", got)
		}
		select {
		case err := <-done:
			t.Errorf("Run ended: %v", err)
		default:
		}
		cancel()
		if err := errors.Join(<-done, s.Destroy(context.Background())); err != nil {
			t.Error(err)
		}
	})
}

func TestOnlyWhatStandsAtTheAddressIsRemoved(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		reg := registration(l, service)
		h := c.NewHold(reg, consul.HoldOptions{App: true})
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		// Another process has registered under the same ID, which replaces ours.
		other := reg
		other.Port++
		theirs := c.NewHold(other, consul.HoldOptions{App: true})
		if err := theirs.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if err := h.Withdraw(deadline(t)); err != nil {
			t.Error(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 1 {
			t.Errorf("another's instance was removed: %v", got)
		}
		for range 2 { // the second time it is gone already
			if err := theirs.Withdraw(deadline(t)); err != nil {
				t.Error(err)
			}
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}
