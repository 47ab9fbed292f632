package consul_test

import (
	"errors"
	"testing"
	"time"

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
			if err := c.RemoveLeftover(deadline(t), dead.ID(), "", left); err != nil {
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
		if err := c.RemoveLeftover(deadline(t), dead.ID(), "", left); err != nil {
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

// Who has joined a claim leaves an instance behind that is no successor's.
func TestWhatStoodBesideAClaimIsRemoved(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		holder := session(t, c)
		if err := holder.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
		if err := h.Register(deadline(t)); err != nil {
			t.Fatal(err)
		}
		joined := claim(l, service, "bob")
		joined.Install, joined.ID = "another", consul.InstanceID(lane.Name(l), service, "box")
		if err := c.RemoveLeftover(deadline(t), "", "", []lane.Claim{joined}); err != nil {
			t.Fatal(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 || got[0].Owner != "alice" {
			t.Errorf("the holder's claim: %+v", got)
		}
	})
}

// A newer session of the same machine, which stands beside the claim's holder too, has
// the dead one's ID and no claim: its instance is told by its mark, and stays; so it does
// when the older one leaves in order. What bears the dead one's mark goes.
func TestANewerSessionsInstanceStays(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		holder := session(t, c)
		if err := holder.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		hold := func(mark string, port int) *consul.Hold {
			r := registration(l, service)
			r.Session, r.Port = mark, port
			h := c.NewHold(r, consul.HoldOptions{App: true})
			if err := h.Register(deadline(t)); err != nil {
				t.Fatal(err)
			}
			return h
		}
		older := hold("older", 8080)
		newer := hold("newer", 8081)
		joined := claim(l, service, "bob")
		joined.Install, joined.ID = "another", consul.InstanceID(lane.Name(l), service, "box")
		if err := c.RemoveLeftover(deadline(t), "", "older", []lane.Claim{joined}); err != nil {
			t.Fatal(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 1 {
			t.Errorf("the guardian of the older one has removed it: %+v", got)
		}
		if err := older.Deregister(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 1 {
			t.Errorf("the older one has removed it: %+v", got)
		}
		if err := c.RemoveLeftover(deadline(t), "", "newer", []lane.Claim{joined}); err != nil {
			t.Fatal(err)
		}
		if got := of(t, c, lane.Name(l), service); len(got) != 0 {
			t.Errorf("left: %+v", got)
		}
		if err := newer.Deregister(deadline(t)); err != nil { // there is nothing any more
			t.Fatal(err)
		}
	})
}

func TestActivity(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		s := session(t, c)
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		read := func() string {
			all := c.WithActivity(deadline(t), claims(t, c, lane.Name(l)))
			if len(all) != 1 {
				t.Fatalf("claims %+v", all)
			}
			return all[0].Active
		}
		if got := read(); got != "" {
			t.Errorf("before anything: %q", got)
		}
		for _, at := range []string{"10:00", "10:30"} {
			if err := s.Active(deadline(t), lane.Name(l), service, at); err != nil || read() != at {
				t.Errorf("Active = %v, read %q", err, read())
			}
		}
		next := session(t, c) // it has taken the claim over; the other's word is not its own
		if err := next.TakeOver(deadline(t), claims(t, c, lane.Name(l))[0], claim(l, service, "bob")); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != "" {
			t.Errorf("a successor's claim shows %q", got)
		}
		if err := next.Active(deadline(t), lane.Name(l), service, "11:00"); err != nil || read() != "11:00" {
			t.Errorf("over the lock of who has lost the claim: %v, %q", err, read())
		}
		if err := s.Destroy(deadline(t)); err != nil {
			t.Fatal(err)
		}
		if got := read(); got != "11:00" {
			t.Errorf("after the former one's end: %q", got)
		}
		if err := s.Active(deadline(t), "Bad_Lane", service, "x"); err == nil {
			t.Error("no lane's name was written")
		}
	})
}

// A relay's session holds the claims of many, one after the other.
func TestActivityIsOfTheHolderAlone(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		s := session(t, c)
		take := func(owner, since string) {
			t.Helper()
			cl := claim(l, service, owner)
			cl.Since = since
			if err := s.Claim(deadline(t), cl); err != nil {
				t.Fatal(err)
			}
		}
		read := func() string { return c.WithActivity(deadline(t), claims(t, c, lane.Name(l)))[0].Active }
		const before, at, after = "2026-01-02T03:04:05Z", "2026-01-02T04:04:05+01:00", "2026-01-02T03:04:06Z" // the first two are one moment
		take("alice", before)
		if err := s.Active(deadline(t), lane.Name(l), service, at); err != nil || read() != at {
			t.Errorf("Active = %v, read %q", err, read())
		}
		take("bob", after) // in one step: alice's claim was not given up before
		if got := read(); got != "" {
			t.Errorf("the next holder's claim shows what is older than itself: %q", got)
		}
		take("alice", before)
		if got := read(); got != at {
			t.Errorf("alice's own again: %q", got)
		}
		if err := s.Release(deadline(t), lane.Name(l), service); err != nil {
			t.Fatal(err)
		}
		take("carol", before) // even in the same second
		if got := read(); got != "" {
			t.Errorf("after the release: %q", got)
		}
	})
}

// A session that was opened in the moment of its opener's death is known by its name
// alone.
func TestSessionsAreRemovedByTheirName(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l := unique("dev-alice")
		dead, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 10 * time.Second, Name: "lane " + l})
		if err != nil {
			t.Fatal(err)
		}
		if err := dead.Claim(deadline(t), claim(l, "orders", "alice")); err != nil {
			t.Fatal(err)
		}
		if err := c.EndIfEmpty(deadline(t), dead.ID()); err != nil || !consul.SessionLives(t, c, dead.ID()) {
			t.Errorf("one that holds a claim was ended: %v", err)
		}
		empty, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.EndIfEmpty(deadline(t), empty.ID()); err != nil || consul.SessionLives(t, c, empty.ID()) {
			t.Errorf("one that holds nothing lives: %v", err)
		}
		other, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 10 * time.Second, Name: "lane " + l + "-2"})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"", "lane " + l} {
			if err := c.RemoveSessions(deadline(t), name); err != nil {
				t.Fatal(err)
			}
			if name == "" && !consul.SessionLives(t, c, dead.ID()) {
				t.Error("no name ended a session")
			}
		}
		if consul.SessionLives(t, c, dead.ID()) || len(claims(t, c, lane.Name(l))) != 0 {
			t.Error("it lives")
		}
		if !consul.SessionLives(t, c, other.ID()) {
			t.Error("another one was ended")
		}
		if err := other.Destroy(deadline(t)); err != nil {
			t.Error(err)
		}
	})
}
