package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/tunnel/wiretest"
)

// What is refused is not tried again.
func TestARefusedTokenEndsTheAgent(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 403} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			r := startRelay(t, quick(), nil)
			r.auth.deny["alice/1"] = refuse(code, "the token of alice has expired at 10:00")
			w := wire1(t, r.addr, wiretest.Config{})
			a := through(t, quick(), r, w, nil)
			_, err := a.Claim(t.Context(), orders(TCP))
			if no := asRefusal(err, 0); no.Code != code || no.Text != "the token of alice has expired at 10:00" {
				t.Errorf("%v", err)
			}
			if err := <-a.ended; asRefusal(err, 0).Code != code {
				t.Errorf("%v", err)
			}
			if n := w.Taken(); n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
	t.Run("anything else is tried again", func(t *testing.T) {
		t.Parallel()
		r := startRelay(t, quick(), nil)
		r.auth.deny["alice/1"] = refuse(503, "the registry is away")
		a := startAgent(t, quick(), r, nil)
		for range 3 {
			if e := a.want(t, Retrying); asRefusal(e.Err, 0).Code != 503 {
				t.Errorf("%v", e.Err)
			}
		}
		r.auth.mu.Lock()
		delete(r.auth.deny, "alice/1")
		r.auth.mu.Unlock()
		a.want(t, Connected)
	})
}

// A revoked token's claims are gone before its links are closed, and nothing comes
// back.
func TestRevoke(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	w := wire1(t, r.addr, wiretest.Config{})
	a := through(t, quick(), r, w, nil)
	a.claim(t, orders(TCP))
	bob := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Token = func(context.Context) (string, error) { return "bob/2", nil }
		c.Handle = echo
	})
	stock := Claim{ID: "s", Lane: "dev-bob", Service: "stock", Kind: TCP}
	bob.claim(t, stock)
	s := r.dial(t, "orders")
	r.auth.mu.Lock()
	r.auth.deny["alice/1"] = refuse(403, "the token of alice is revoked")
	r.auth.mu.Unlock()
	began := time.Now()
	r.Revoke(t.Context(), func(h Holder) bool { return h.TokenID == "1" }, "the token of alice is revoked")
	if d := time.Since(began); d > 20*time.Second { // it is done at once; a busy machine adds to that
		t.Errorf("after %v", d)
	}
	if n := r.auth.count("gone orders: revoked"); n != 1 {
		t.Errorf("%v", r.auth.calls)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	err := <-a.ended
	if no := asRefusal(err, 0); no.Code != 403 || no.Text != "the token of alice is revoked" {
		t.Errorf("%v", err)
	}
	if e := a.want(t, Disconnected); asRefusal(e.Err, 0).Code != 401 {
		t.Errorf("%v", e.Err)
	}
	if n := w.Taken(); n != 3 { // two of the link, and one that was refused
		t.Errorf("%d connections", n)
	}
	if n := r.auth.count("gone stock"); n != 0 {
		t.Error("bob's is gone too")
	}
	if _, err := r.Dial(t.Context(), "dev-bob", "stock", Header{}); err != nil {
		t.Error(err)
	}
}

// A link does not outlive its token; an agent with a new one comes back.
func TestAnExpiredToken(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	soon := time.Now().Add(10 * time.Second) // a busy machine has claimed by then
	r.auth.expire["alice/1"] = soon
	var asked atomic.Int64
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Token = func(context.Context) (string, error) { return fmt.Sprintf("alice/%d", asked.Add(1)), nil }
		c.Handle = echo
	})
	a.claim(t, orders(TCP))
	if e := a.want(t, Disconnected); asRefusal(e.Err, 0).Code != 401 || !strings.Contains(e.Err.Error(), "expired") {
		t.Errorf("%v", e.Err)
	}
	if time.Now().Before(soon) {
		t.Error("too early")
	}
	r.auth.want(t, "up dev-alice orders", 2)
	r.echoes(t)
}
