package relay_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/relay/facts"
	"lane/pkg/token"
	"lane/tunnel"
)

// bobs is bob's laptop, whose token is for alice's lane.
func (w *world) bobs(r *running) *laptop {
	return w.laptop(r.addr, w.token(w.grant(func(g *token.Grant) { g.User = "bob" })), "den", says(w.t, "bob's"))
}

func (w *world) joining() tunnel.Claim {
	c := w.claim()
	c.Join = true
	return c
}

// By agreement two laptops serve one lane side by side, at one relay or at two, and the
// claim stays with the first; when he goes, it is the other's.
func TestTwoSideBySide(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		for _, relays := range []int{1, 2} {
			t.Run(fmt.Sprint(relays), func(t *testing.T) {
				w := newWorld(t, addr)
				one := w.relay("one", nil)
				two := one
				if relays == 2 {
					two = w.relay("two", nil)
				}
				alice := w.laptop(one.addr, w.token(w.grant(nil)), "box", says(t, "alice's"))
				at := alice.hold(w.claim())[facts.Address]
				bob := w.bobs(two)
				// Without the agreement it is refused, in the words of a session that registers
				// by itself.
				if _, err := bob.try(w.claim()); refusal(err) != 409 || !strings.Contains(err.Error(), "alice") {
					t.Errorf("without --join: %v", err)
				}
				got := bob.hold(w.joining())
				at2 := got[facts.Address]
				if got[facts.Holder] != "alice" || got[facts.HolderHost] != "box-host" || at2 == at || got[facts.Registered] != w.service {
					t.Errorf("answered %v", got)
				}
				w.eventually("both pass", func() bool {
					in := w.instances()
					return len(in) == 2 && !slices.ContainsFunc(in, func(s string) bool { return !strings.Contains(s, "passing") })
				})
				if a, b := get(at, w.lane), get(at2, w.lane); a != "alice's" || b != "bob's" {
					t.Errorf("%s, %s", a, b)
				}
				if body := get(at2, ""); body != "baseline" {
					t.Errorf("untagged: %s", body)
				}
				if cl := w.claims(); len(cl) != 1 || cl[0].Owner != "alice" {
					t.Errorf("claims %+v", cl)
				}
				_, n := bob.happened(tunnel.Claimed, 0)
				alice.release("one")
				e, _ := bob.happened(tunnel.Told, n)
				if _, beside := e.Facts[facts.Holder]; beside || e.Facts[facts.Address] != at2 {
					t.Errorf("told %v", e.Facts)
				}
				if cl := w.claims(); len(cl) != 1 || cl[0].Owner != "bob" || cl[0].Install != "den" || cl[0].Session == "" {
					t.Errorf("claims %+v", cl)
				}
				if body := get(at2, w.lane); body != "bob's" {
					t.Error(body)
				}
				// Now he is the holder: alice is refused, and may join.
				if _, err := alice.try(w.claim()); refusal(err) != 409 || !strings.Contains(err.Error(), "bob") {
					t.Errorf("alice, without --join: %v", err)
				}
				if got := alice.hold(w.joining()); got[facts.Holder] != "bob" {
					t.Errorf("answered %v", got)
				}
				alice.release("one")
				bob.release("one")
				w.nothing("released")
			})
		}
	})
}

// With nobody to stand beside, who would join holds the claim; and his own other session
// is not somebody to stand beside.
func TestJoiningNobodyIsClaiming(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	bob := w.bobs(r)
	got := bob.hold(w.joining())
	if _, beside := got[facts.Holder]; beside {
		t.Errorf("answered %v", got)
	}
	if cl := w.claims(); len(cl) != 1 || cl[0].Owner != "bob" {
		t.Errorf("claims %+v", cl)
	}
	bob.release("one")
	w.nothing("released")
}

// Who joins what is isolated is found where the holder's is, and follows him there.
func TestWhoJoinsFollowsTheHolder(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		one, two := w.relay("one", relay.Elsewhere), w.relay("two", nil)
		alice := w.laptop(one.addr, w.token(w.grant(nil)), "box", says(t, "alice's"))
		at := alice.hold(w.claim())[facts.Address]
		bob := w.bobs(two)
		at2 := bob.hold(w.joining())[facts.Address]
		w.eventually("both pass", func() bool { return len(w.instances()) == 2 })
		get(at, "") // a caller that knows no lanes: alice's moves
		isolated := consul.IsolatedName(lane.Name(w.lane), w.service)
		w.eventually("both are isolated", func() bool {
			in := w.instances()
			return len(in) == 2 && !slices.ContainsFunc(in, func(s string) bool { return !strings.HasPrefix(s, isolated+" ") || !strings.Contains(s, "passing") })
		})
		if body := get(at2, w.lane); body != "bob's" {
			t.Error(body)
		}
		alice.release("one")
		w.eventually("the claim is bob's", func() bool {
			cl := w.claims()
			return len(cl) == 1 && cl[0].Owner == "bob" && cl[0].Registered == isolated
		})
		bob.release("one")
		w.nothing("released")
	})
}

// A takeover by its user reaches who has come into the claim by joining, at one relay.
func TestATakeoverFromWhoHadJoined(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	alice := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "alice's"))
	alice.hold(w.claim())
	bob := w.bobs(r)
	bob.hold(w.joining())
	_, n := bob.happened(tunnel.Claimed, 0)
	alice.release("one")
	bob.happened(tunnel.Told, n)
	by := w.claim()
	by.Takeover = true
	if _, err := alice.try(by); refusal(err) != 409 {
		t.Errorf("another's, by force: %v", err)
	}
	desk := w.laptop(r.addr, w.token(w.grant(func(g *token.Grant) { g.User = "bob" })), "desk", says(t, "desk"))
	at := desk.hold(by)[facts.Address]
	bob.happened(tunnel.ClaimLost, 0)
	w.eventually("one instance", func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at+" passing") })
	if cl := w.claims(); len(cl) != 1 || cl[0].Install != "desk" {
		t.Errorf("claims %+v", cl)
	}
	if body := get(at, w.lane); body != "desk" {
		t.Error(body)
	}
	desk.release("one")
	w.nothing("released")
}

// A tunnel that is lost and comes back leaves who stands beside where he was, and one
// that stays away leaves nothing of him, and the holder's claim alone.
func TestWhoJoinedComesAndGoes(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	r := w.relay("one", nil)
	alice := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "alice's"))
	alice.hold(w.claim())
	j := newJunction(t, r.addr)
	bob := w.laptop(j.ln.Addr().String(), w.token(w.grant(func(g *token.Grant) { g.User = "bob" })), "den", says(t, "bob's"))
	at := bob.hold(w.joining())[facts.Address]
	before := w.claims()
	_, n := bob.happened(tunnel.Claimed, 0)
	j.lead("127.0.0.1:1")
	bob.happened(tunnel.Disconnected, 0)
	j.lead(r.addr)
	e, _ := bob.happened(tunnel.Claimed, n)
	if e.Facts[facts.Address] != at || e.Facts[facts.Holder] != "alice" {
		t.Errorf("back: %v", e.Facts)
	}
	if err := bob.end(); err != nil {
		t.Error(err)
	}
	if in := w.instances(); len(in) != 1 || !strings.Contains(in[0], "alice") {
		t.Errorf("%v", in)
	}
	if cl := w.claims(); len(cl) != 1 || cl[0].ID != before[0].ID || cl[0].Session != before[0].Session {
		t.Errorf("claims %+v", cl)
	}
	alice.release("one")
	w.nothing("released")
}
