package consul_test

import (
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// The session of a relay that has died lives for ten minutes and more, and has the key
// of the last activity locked.
func TestTheLastActivityIsOfWhoHoldsTheClaim(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l, service := unique("dev-alice"), unique("orders")
		dead, next, other := session(t, c), session(t, c), session(t, c)
		mine := claim(l, service, "alice")
		mine.Since = "2026-11-30T10:00:00Z"
		shown := func() string {
			t.Helper()
			all := c.WithActivity(deadline(t), claims(t, c, lane.Name(l)))
			if len(all) != 1 {
				t.Fatalf("claims: %+v", all)
			}
			return all[0].Active
		}
		active := func(s *consul.Session, at string) {
			t.Helper()
			if err := s.Active(deadline(t), lane.Name(l), service, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := dead.Claim(deadline(t), mine); err != nil {
			t.Fatal(err)
		}
		active(dead, "2026-11-30T10:00:01Z")
		mine.Session = dead.ID()
		if err := next.TakeOver(deadline(t), mine, mine); err != nil {
			t.Fatal(err)
		}
		active(next, "2026-11-30T10:00:02Z")
		active(dead, "2026-11-30T10:00:03Z") // it has lost the claim
		active(other, "2026-11-30T10:00:04Z")
		if got := shown(); got != "2026-11-30T10:00:02Z" {
			t.Errorf("of the claim's holder: %q", got)
		}
		left := func() (out []string) {
			t.Helper()
			r, err := c.Remains(deadline(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range r.Activity {
				if a.Lane == lane.Name(l) {
					out = append(out, a.Key())
				}
			}
			return out
		}
		if got := left(); len(got) > 0 {
			t.Errorf("left, of a claim that stands: %q", got)
		}
		// Given up before the next one has written anything, and before that by force.
		for _, give := range []func(lane.Claim) error{
			func(cl lane.Claim) error { return next.Release(deadline(t), cl.Lane, cl.Service) },
			func(cl lane.Claim) error { return c.DropClaim(deadline(t), cl) },
		} {
			now := claims(t, c, lane.Name(l))[0]
			if now.Session != dead.ID() {
				if err := dead.TakeOver(deadline(t), now, mine); err != nil {
					t.Fatal(err)
				}
			}
			active(dead, "2026-11-30T10:00:05Z")
			now.Session = dead.ID()
			if err := next.TakeOver(deadline(t), now, mine); err != nil {
				t.Fatal(err)
			}
			now.Session = next.ID()
			if err := give(now); err != nil {
				t.Fatal(err)
			}
			if got := left(); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			if err := dead.Claim(deadline(t), mine); err != nil {
				t.Fatal(err)
			}
		}
		// What somebody has left without a claim, lane gc finds.
		if err := dead.Release(deadline(t), lane.Name(l), service); err != nil {
			t.Fatal(err)
		}
		consul.PutKey(t, c, "lane/activity/"+l+"/"+service, "10:00")
		r, err := c.Remains(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range r.Activity {
			if a.Lane == lane.Name(l) {
				if err := c.RemoveActivity(deadline(t), a); err != nil {
					t.Error(err)
				}
			}
		}
		if got := left(); len(r.Activity) == 0 || len(got) > 0 {
			t.Errorf("found %+v, and left %q", r.Activity, got)
		}
	})
}
