package consul_test

import (
	"errors"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func TestWhatADeadSessionLeftIsRemoved(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		dead, err := c.OpenSession(deadline(t), consul.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := dead.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		left := claims(t, c, lane.Name(l))
		for range 2 { // it may be called again
			if err := c.RemoveLeftover(deadline(t), dead.ID(), left); err != nil {
				t.Fatal(err)
			}
			if got := of(t, c, lane.Name(l), service); len(got) != 0 {
				t.Errorf("instance: %+v", got)
			}
			if got := claims(t, c, lane.Name(l)); len(got) != 0 {
				t.Errorf("claim: %+v", got)
			}
			if err := dead.Claim(deadline(t), claim(l, service, "alice")); !errors.Is(err, consul.ErrSessionLost) {
				t.Errorf("session: %v", err)
			}
		}
	})
}

func TestASuccessorsClaimAndInstanceStay(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		dead, err := c.OpenSession(deadline(t), consul.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := dead.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		left := claims(t, c, lane.Name(l))
		next := session(t, c)
		if err := next.TakeOver(deadline(t), left[0], claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
		defer func() {
			if err := h.Deregister(deadline(t)); err != nil {
				t.Error(err)
			}
		}()
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if err := c.RemoveLeftover(deadline(t), dead.ID(), left); err != nil {
			t.Fatal(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 1 {
			t.Errorf("instance: %+v", got)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 || got[0].Session != next.ID() {
			t.Errorf("claim: %+v", got)
		}
	})
}
