package consul_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

func session(t *testing.T, c *consul.Client) *consul.Session {
	t.Helper()
	s, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 10 * time.Second, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func claim(l, service, owner string) lane.Claim {
	return lane.Claim{Lane: lane.Name(l), Service: service, Owner: owner, Host: owner + "-laptop", Install: "box",
		Mode: "shared", Registered: service, ID: "lane:" + l + ":" + service + ":box", Since: "10:00"}
}

func claims(t *testing.T, c *consul.Client, l lane.Name) []lane.Claim {
	t.Helper()
	got, err := c.Claims(deadline(t), l)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAClaimIsHeldByOne(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l := unique("dev-alice")
		alice, bob := session(t, c), session(t, c)
		first := claim(l, "orders", "alice")
		if err := alice.Claim(deadline(t), first); err != nil {
			t.Fatal(err)
		}
		if err := alice.Claim(deadline(t), first); err != nil {
			t.Errorf("the holder again: %v", err)
		}
		var held *consul.ClaimHeldError
		if err := bob.Claim(deadline(t), claim(l, "orders", "bob")); !errors.As(err, &held) {
			t.Fatalf("want held, got %v", err)
		}
		first.Session = alice.ID()
		if held.Held != first {
			t.Errorf("held by %+v, want %+v", held.Held, first)
		}
		if err := bob.Claim(deadline(t), claim(l, "stock", "bob")); err != nil {
			t.Errorf("another service is free: %v", err)
		}
		if err := bob.Release(deadline(t), lane.Name(l), "orders"); err != nil {
			t.Error(err)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 2 || got[0] != first {
			t.Errorf("a release by another must change nothing: %+v", got)
		}
		if err := alice.Release(deadline(t), lane.Name(l), "orders"); err != nil {
			t.Error(err)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 1 || got[0].Service != "stock" {
			t.Errorf("released key must be gone: %+v", got)
		}
		if err := bob.Claim(deadline(t), claim(l, "orders", "bob")); err != nil {
			t.Errorf("free again: %v", err)
		}
		if err := bob.Destroy(deadline(t)); err != nil {
			t.Error(err)
		}
		if got := claims(t, c, lane.Name(l)); len(got) != 0 {
			t.Errorf("a destroyed session leaves %+v", got)
		}
	})
}

func TestTakeOverTellsTheLoser(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l := unique("dev-alice")
		alice, bob, carol := session(t, c), session(t, c), session(t, c)
		for _, service := range []string{"orders", "stock"} {
			if err := alice.Claim(deadline(t), claim(l, service, "alice")); err != nil {
				t.Fatal(err)
			}
		}
		lost := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { lost <- alice.Run(ctx) }()

		old := claims(t, c, lane.Name(l))[0]
		begin := time.Now()
		if err := bob.TakeOver(deadline(t), old, claim(l, "orders", "bob")); err != nil {
			t.Fatal(err)
		}
		var gone *consul.ClaimLostError
		if err := <-lost; !errors.As(err, &gone) || gone.By.Owner != "bob" || gone.Service != "orders" {
			t.Fatalf("%v", err)
		}
		t.Logf("noticed after %v", time.Since(begin))
		got := claims(t, c, lane.Name(l))
		if len(got) != 2 || got[0].Session != bob.ID() || got[1].Session != alice.ID() {
			t.Errorf("only one claim may change hands: %+v", got)
		}
		// Carol is too late: she still believes in alice.
		var held *consul.ClaimHeldError
		if err := carol.TakeOver(deadline(t), old, claim(l, "orders", "carol")); !errors.As(err, &held) || held.Held.Owner != "bob" {
			t.Errorf("%v", err)
		}
	})
}

func TestASessionThatIsGoneIsOpenedAgain(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l := unique("dev-alice")
		alice, bob := session(t, c), session(t, c)
		if err := alice.Claim(deadline(t), claim(l, "orders", "alice")); err != nil {
			t.Fatal(err)
		}
		id := alice.ID()
		background(t, alice.Run)
		if err := consul.DestroySession(deadline(t), c, id); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the claim is back under a new session", func() bool {
			got := claims(t, c, lane.Name(l))
			return len(got) == 1 && got[0].Session == alice.ID() && alice.ID() != id
		})

		// The twin: another was faster.
		m := unique("dev-bob")
		if err := bob.Claim(deadline(t), claim(m, "orders", "bob")); err != nil {
			t.Fatal(err)
		}
		if err := consul.DestroySession(deadline(t), c, bob.ID()); err != nil {
			t.Fatal(err)
		}
		if err := alice.Claim(deadline(t), claim(m, "orders", "alice")); err != nil {
			t.Fatal(err)
		}
		var gone *consul.ClaimLostError
		if err := bob.Run(deadline(t)); !errors.As(err, &gone) || gone.By.Owner != "alice" {
			t.Errorf("%v", err)
		}
	})
}

func TestAClaimWhoseKeyIsDeletedIsLost(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		l := unique("dev-alice")
		alice := session(t, c)
		if err := alice.Claim(deadline(t), claim(l, "orders", "alice")); err != nil {
			t.Fatal(err)
		}
		consul.PutKey(t, c, "lane/declared/"+l+"/orders", "")
		var gone *consul.ClaimLostError
		if err := alice.Run(deadline(t)); !errors.As(err, &gone) || gone.By.Session != "" {
			t.Errorf("%v", err)
		}
	})
}

func TestClaimsOfAnEndedSessionAreRefused(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		c := open(t, addr)
		alice := session(t, c)
		if err := consul.DestroySession(deadline(t), c, alice.ID()); err != nil {
			t.Fatal(err)
		}
		if err := alice.Claim(deadline(t), claim(unique("dev-alice"), "orders", "alice")); !errors.Is(err, consul.ErrSessionLost) {
			t.Errorf("%v", err)
		}
		var invalid *consul.ValidationError
		if err := alice.Claim(deadline(t), claim("prod", "orders", "alice")); !errors.As(err, &invalid) {
			t.Errorf("%v", err)
		}
		if _, err := c.OpenSession(deadline(t), consul.SessionOptions{TTL: 5 * time.Second}); !errors.As(err, &invalid) {
			t.Errorf("a TTL below Consul's least: %v", err)
		}
	})
}

// A registry that has just restarted can deny a session for a moment that it has on
// disk. Its claims are not lost by that: nobody else has them.
func TestASessionThatIsDeniedForAMoment(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		f, direct := newFront(t, addr), open(t, addr)
		l := unique("dev-alice")
		alice := session(t, open(t, f.addr))
		for _, service := range []string{"orders", "stock"} {
			if err := alice.Claim(deadline(t), claim(l, service, "alice")); err != nil {
				t.Fatal(err)
			}
		}
		old := alice.ID()
		var renewed, looked atomic.Bool
		f.set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/v1/session/renew/") && renewed.CompareAndSwap(false, true):
				answers(r.URL.Path, http.StatusNotFound, "Session id not found")(w, r, next)
			case strings.HasPrefix(r.URL.Path, "/v1/session/info/") && looked.CompareAndSwap(false, true):
				answers(r.URL.Path, http.StatusOK, "[]")(w, r, next)
			default:
				next.ServeHTTP(w, r)
			}
		})
		lost := make(chan error, 1)
		background(t, func(ctx context.Context) error {
			lost <- alice.Run(ctx)
			return nil
		})
		alice.Check()
		eventually(t, "both claims are under another session", func() bool {
			got := claims(t, direct, lane.Name(l))
			return alice.ID() != old && len(got) == 2 && got[0].Session == alice.ID() && got[1].Session == alice.ID()
		})
		eventually(t, "the old session has ended", func() bool { return !consul.SessionLives(t, direct, old) })
		// The twin: another's is lost.
		bob := session(t, direct)
		if err := bob.TakeOver(deadline(t), claims(t, direct, lane.Name(l))[0], claim(l, "orders", "bob")); err != nil {
			t.Fatal(err)
		}
		var gone *consul.ClaimLostError
		if err := <-lost; !errors.As(err, &gone) || gone.By.Owner != "bob" {
			t.Errorf("%v", err)
		}
	})
}
