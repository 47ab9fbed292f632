package consul_test

import (
	"errors"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func TestSomebodyElsesInstanceIsMarkedAsDraining(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		reg := registration(l, service)
		reg.Weight, reg.Meta = 3, map[string]string{"team": "pay"}
		h := c.NewHold(reg, consul.HoldOptions{App: true})
		defer func() { _ = h.Deregister(deadline(t)) }()
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		before := of(t, c, lane.Name(l), service)[0]
		for again := range 2 { // it may be done again
			if marked, err := open(t, addr).MarkDraining(deadline(t), before); err != nil || marked != (again == 0) {
				t.Fatalf("time %d: marked %v, %v", again+1, marked, err)
			}
			after := of(t, c, lane.Name(l), service)
			want := before
			want.Draining = true
			if len(after) != 1 || after[0] != want {
				t.Errorf("%+v\nwant %+v", after, want)
			}
		}
		for range 2 { // and be taken back, also twice
			if err := open(t, addr).UnmarkDraining(deadline(t), before); err != nil {
				t.Fatal(err)
			}
			if after := of(t, c, lane.Name(l), service); len(after) != 1 || after[0] != before {
				t.Errorf("taken back: %+v\nwant %+v", after, before)
			}
		}
		if err := h.Deregister(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if err := c.UnmarkDraining(deadline(t), before); err != nil {
			t.Errorf("one that is gone: %v", err)
		}
		if after := of(t, c, lane.Name(l), service); len(after) != 0 {
			t.Errorf("one that was gone is back: %+v", after)
		}
	})
}

func TestOnlyALanesInstanceIsMarked(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service := unique("orders")
		consul.RegisterBaseline(t, c, service, service+"-1", "127.0.0.1", 80, map[string]string{"lane": "gray"})
		var invalid *consul.ValidationError
		if _, err := c.MarkDraining(deadline(t), lane.Instance{ID: service + "-1", Registered: service}); !errors.As(err, &invalid) {
			t.Errorf("somebody's own: %v", err)
		}
		var elsewhere *consul.ElsewhereError
		id := consul.InstanceID("dev-alice", service, "box")
		if _, err := c.MarkDraining(deadline(t), lane.Instance{ID: id, Registered: service, Node: "desk-7"}); !errors.As(err, &elsewhere) || elsewhere.Node != "desk-7" {
			t.Errorf("another agent's: %v", err)
		}
		all, err := c.InstancesOf(deadline(t), service)
		if err != nil || len(all) != 1 || all[0].Draining {
			t.Errorf("%+v %v", all, err)
		}
	})
}

// A session that still runs ends when its claim is dropped; a successor's claim
// is not touched.
func TestAClaimThatTheOperatorDrops(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		s := session(t, c)
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		held := claims(t, c, lane.Name(l))[0]
		other := held
		other.Session = "00000000-0000-0000-0000-000000000000"
		if err := c.DropClaim(deadline(t), other); err != nil {
			t.Fatal(err)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 {
			t.Fatalf("another's claim was dropped: %+v", got)
		}
		done := make(chan error, 1)
		ctx := deadline(t)
		go func() { done <- s.Run(ctx) }()
		if err := c.DropClaim(deadline(t), held); err != nil {
			t.Fatal(err)
		}
		var lost *consul.ClaimLostError
		if err := <-done; !errors.As(err, &lost) || lost.Service != service {
			t.Errorf("the session: %v", err)
		}
	})
}
