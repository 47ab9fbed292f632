package consul_test

import (
	"errors"
	"slices"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// dead registers a lane's instance and lets its liveness check fail.
func dead(t *testing.T, c *consul.Client, l, service string) consul.Entry {
	t.Helper()
	h := c.NewHold(registration(l, service), consul.HoldOptions{App: true})
	if err := h.Register(deadline(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Deregister(deadline(t)); err != nil {
			t.Error(err)
		}
	})
	consul.SetCheck(t, c, registration(l, service).ID+":live", "critical")
	var found consul.Entry
	eventually(t, "the registry shows it as dead", func() bool {
		for _, e := range remains(t, c).Entries {
			if e.Service == service {
				found = e
			}
		}
		return found.ID != "" && !found.Alive
	})
	return found
}

func remains(t *testing.T, c *consul.Client) consul.Remains {
	t.Helper()
	r, err := c.Remains(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func still(err error) bool {
	var s *consul.StillThereError
	return errors.As(err, &s)
}

func TestADeadInstanceIsRemovedIfItIsDeadStill(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		e := dead(t, c, l, service)
		if e.Install != "box" || e.Owner != "alice" || e.Lane != lane.Name(l) || e.Node == "" {
			t.Errorf("%+v", e)
		}
		if known, err := c.Knows(deadline(t), e); err != nil || !known {
			t.Errorf("known: %v %v", known, err)
		}
		// It beats again.
		consul.SetCheck(t, c, e.ID+":live", "passing")
		eventually(t, "it lives", func() bool {
			return slices.ContainsFunc(remains(t, c).Entries, func(now consul.Entry) bool { return now.ID == e.ID && now.Alive })
		})
		if err := c.RemoveDead(deadline(t), e); !still(err) {
			t.Errorf("alive: %v", err)
		}
		// Its process is asleep, and somebody claims it.
		consul.SetCheck(t, c, e.ID+":live", "critical")
		eventually(t, "it is dead", func() bool {
			return slices.ContainsFunc(remains(t, c).Entries, func(now consul.Entry) bool { return now.ID == e.ID && !now.Alive })
		})
		s := session(t, c)
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		if err := c.RemoveDead(deadline(t), e); !still(err) || len(of(t, c, lane.Name(l), service)) != 1 {
			t.Errorf("claimed: %v", err)
		}
		if err := s.Release(deadline(t), lane.Name(l), service); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.RemoveDead(deadline(t), e); err != nil || len(of(t, c, lane.Name(l), service)) != 0 {
				t.Errorf("dead: %v, %v", err, of(t, c, lane.Name(l), service))
			}
		}
	})
}

// What another agent has registered is not removed through this one.
func TestADeadInstanceOfAnotherNodeStays(t *testing.T) {
	c := open(t, consultest.Embedded(t)) // a real agent keeps its own node's entries alone
	service, l := unique("orders"), unique("dev-alice")
	consul.RegisterElsewhere(t, c, "desk-7", registration(l, service), "critical")
	all := remains(t, c).Entries
	if len(all) != 1 || all[0].Node != "desk-7" || all[0].Alive {
		t.Fatalf("%+v", all)
	}
	if known, err := c.Knows(deadline(t), all[0]); err != nil || known {
		t.Errorf("known: %v %v", known, err)
	}
	var elsewhere *consul.ElsewhereError
	if err := c.RemoveDead(deadline(t), all[0]); !errors.As(err, &elsewhere) || elsewhere.Node != "desk-7" {
		t.Errorf("%v", err)
	}
	if len(remains(t, c).Entries) != 1 {
		t.Error("it is gone")
	}
}

func TestAKeyIsRemovedIfNobodyHasClaimedItMeanwhile(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		key := "lane/declared/" + l + "/" + service
		held := func() consul.Held {
			t.Helper()
			all := remains(t, c).Claims
			i := slices.IndexFunc(all, func(h consul.Held) bool { return h.Service == service })
			if i < 0 {
				t.Fatalf("no %s in %+v", key, all)
			}
			return all[i]
		}
		consul.PutKey(t, c, key, `{"owner":"alice"}`)
		before := held()
		s := session(t, c)
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		for _, h := range []consul.Held{before, held()} {
			if err := c.RemoveKey(deadline(t), h); !still(err) {
				t.Errorf("claimed: %v", err)
			}
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 || got[0].Session != s.ID() {
			t.Errorf("%+v", got)
		}
		if err := s.Release(deadline(t), lane.Name(l), service); err != nil {
			t.Fatal(err)
		}
		consul.PutKey(t, c, key, `nonsense`)
		if err := c.RemoveKey(deadline(t), held()); err != nil || len(claims(t, c, lane.Name(l))) != 0 {
			t.Errorf("%v, %+v", err, claims(t, c, lane.Name(l)))
		}
	})
}

func TestADeadSessionEndsIfNothingOfItLives(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		service, l := unique("orders"), unique("dev-alice")
		e := dead(t, c, l, service)
		s, err := c.OpenSession(deadline(t), consul.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Claim(deadline(t), claim(l, service, "alice")); err != nil {
			t.Fatal(err)
		}
		held := claims(t, c, lane.Name(l))
		consul.SetCheck(t, c, e.ID+":live", "passing")
		eventually(t, "the registry shows it", func() bool {
			return still(c.RemoveClaims(deadline(t), s.ID(), held)) || len(claims(t, c, lane.Name(l))) == 0
		})
		if got := claims(t, c, lane.Name(l)); len(got) != 1 {
			t.Fatalf("a living one's claim: %+v", got)
		}
		consul.SetCheck(t, c, e.ID+":live", "critical")
		eventually(t, "the claim is gone", func() bool { return c.RemoveClaims(deadline(t), s.ID(), held) == nil })
		if got := claims(t, c, lane.Name(l)); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}
