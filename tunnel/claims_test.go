package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"lane/tunnel/wiretest"
)

// A claim outlives its link for a while, and not longer.
func TestAClaimWithoutALinkExpires(t *testing.T) {
	t.Parallel()
	tm := quick()
	r := startRelay(t, tm, nil)
	w := wire1(t, r.addr, wiretest.Config{})
	a := through(t, tm, r, w, nil)
	a.claim(t, orders(TCP))
	w.To("127.0.0.1:1") // nothing listens there
	w.Cut()
	r.auth.want(t, "lost orders", 1)
	r.auth.want(t, "gone orders: expired", 1)
	until(t, "the relay knows it no more", func() bool { // first it is gone for the Authority
		_, err := r.Dial(t.Context(), "dev-alice", "orders", Header{})
		return errors.Is(err, ErrUnknown)
	})
	w.To(r.addr)
	r.auth.want(t, "up dev-alice orders", 2) // it comes back by itself
	r.echoes(t)
}

// Who may have a claim that somebody has: the same machine with a later program,
// at once; the same user's other machine, if asked to; nobody else.
func TestWhoMayTakeAClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		token, install  string
		older, takeover bool
		want            string // of the refusal; "": he gets it
		loses           bool
	}{
		{name: "a later program of this machine", token: "alice/2", install: "install-1", loses: true},
		{name: "an earlier program of this machine", token: "alice/2", install: "install-1", older: true, want: "newer session"},
		{name: "her other machine", token: "alice/2", install: "install-2", want: "your session on laptop"},
		{name: "her other machine, taking over", token: "alice/2", install: "install-2", takeover: true, loses: true},
		{name: "another user", token: "bob/3", install: "install-3", want: "held by alice on laptop"},
		{name: "another user, taking over", token: "bob/3", install: "install-3", takeover: true, want: "held by alice on laptop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := startRelay(t, quick(), nil)
			first := startAgent(t, quick(), r, func(c *AgentConfig) { c.Handle, c.Generation = says("first"), 1000 })
			first.claim(t, orders(TCP))
			second := startAgent(t, quick(), r, func(a *AgentConfig) {
				a.Handle, a.Host, a.Install, a.Generation = says("second"), "other", c.install, 2000
				if c.older {
					a.Generation = 500
				}
				a.Token = func(context.Context) (string, error) { return c.token, nil }
			})
			claim := orders(TCP)
			claim.ID, claim.Takeover = "c2", c.takeover
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := second.Claim(ctx, claim)
			has := "first"
			if c.want == "" {
				has = "second"
				if err != nil {
					t.Fatal(err)
				}
			} else if no := asRefusal(err, 0); no.Code != 409 || !strings.Contains(no.Text, c.want) {
				t.Errorf("%v", err)
			}
			if b, err := io.ReadAll(r.dial(t, "orders")); string(b) != has || err != nil {
				t.Errorf("%q answers, %v", b, err)
			}
			if c.loses {
				if no := asRefusal(first.want(t, ClaimLost).Err, 0); no.Code != 409 || !strings.Contains(no.Text, "alice on other") {
					t.Errorf("%v", no)
				}
			}
			if n := r.auth.count("gone"); n != 0 {
				t.Errorf("%v", r.auth.calls)
			}
			second.stop()
			first.stop()
			if n := r.auth.count("gone orders: released"); n != 1 {
				t.Errorf("%v", r.auth.calls)
			}
		})
	}
}

// Who may give up what an agent has left: who comes after it and knows its ID, and the
// same install once the link is lost. Nothing is claimed by that.
func TestWhoMayEndAClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                  string
		token, install, agent string
		lost, byInstall       bool // its link is lost; the install is enough
		want                  string
	}{
		{name: "its successor", token: "alice/2", install: "install-1", agent: "first"},
		{name: "its successor, behind a lost link", token: "alice/2", install: "install-1", agent: "first", lost: true},
		{name: "another agent of this install", token: "alice/2", install: "install-1", agent: "second", lost: true, want: "another session"},
		{name: "this install, behind a lost link", token: "alice/2", install: "install-1", lost: true, byInstall: true},
		{name: "this install, while the link stands", token: "alice/2", install: "install-1", byInstall: true, want: "another session"},
		{name: "another install", token: "alice/2", install: "install-2", lost: true, byInstall: true, want: "another session"},
		{name: "another user's", token: "bob/3", install: "install-1", lost: true, byInstall: true, want: "another session"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tm := quick()
			tm.grace = patience
			r := startRelay(t, tm, nil)
			w := wire1(t, r.addr, wiretest.Config{})
			first := through(t, tm, r, w, func(c *AgentConfig) { c.ID, c.Generation = "first", 1000 })
			first.claim(t, orders(HTTP))
			if c.lost {
				w.To("127.0.0.1:1") // nothing listens there
				w.Cut()
				r.auth.want(t, "lost orders", 1)
			}
			second := startAgent(t, tm, r, func(a *AgentConfig) {
				a.ID, a.Install, a.Generation = c.agent, c.install, 1<<40
				a.Token = func(context.Context) (string, error) { return c.token, nil }
			})
			claim := orders(HTTP)
			claim.End, claim.Takeover = true, c.byInstall
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := second.Claim(ctx, claim)
			gone := r.auth.count("gone orders: released")
			switch {
			case c.want == "" && (err != nil || gone != 1):
				t.Errorf("%v, %d times gone", err, gone)
			case c.want != "" && (asRefusal(err, 0).Code != 409 || !strings.Contains(err.Error(), c.want) || gone != 0):
				t.Errorf("%v, %d times gone", err, gone)
			}
			if n := r.auth.count("up dev-alice orders"); n != 1 {
				t.Errorf("claimed %d times", n)
			}
		})
	}
}

func says(what string) func(context.Context, Claim, Header, Stream) {
	return func(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = io.WriteString(s, what) }
}

// The relay takes one claim away, and leaves the others.
func TestDrop(t *testing.T) {
	t.Parallel()
	r, a := pair(t, quick(), echo)
	stock := Claim{ID: "s", Lane: "dev-alice", Service: "stock", Kind: TCP}
	a.claim(t, stock)
	r.Drop("dev-alice", "orders", "", refuse(409, "taken over on another relay"))
	e := a.want(t, ClaimLost)
	if no := asRefusal(e.Err, 0); no.Code != 409 || e.Claim.ID != "c1" {
		t.Errorf("%v", e)
	}
	r.auth.want(t, "gone orders: taken over", 1)
	if _, err := r.Dial(t.Context(), "dev-alice", "orders", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	_ = r.dial(t, "stock").Close()
	r.Tell("dev-alice", "stock", "", map[string]string{"mode": "isolated"})
	if e := a.want(t, Told); e.Claim.ID != "s" || e.Facts["mode"] != "isolated" {
		t.Errorf("%v", e)
	}
}

func TestARefusedClaim(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	r.auth.deny["payment"] = refuse(403, "payment is not for tunnels")
	a := startAgent(t, quick(), r, nil)
	_, err := a.Claim(t.Context(), Claim{ID: "p", Lane: "dev-alice", Service: "payment", Kind: HTTP})
	if no := asRefusal(err, 0); no.Code != 403 || no.Text != "payment is not for tunnels" {
		t.Errorf("%v", err)
	}
	if _, err := r.Dial(t.Context(), "dev-alice", "payment", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	a.claim(t, orders(HTTP)) // the others may go on
	if d, ok := a.RTT(); !ok || d <= 0 || d > patience {
		until(t, "a round trip is measured", func() bool { d, ok := a.RTT(); return ok && d > 0 })
	}
	if a.Remote() != r.addr {
		t.Errorf("remote %q", a.Remote())
	}
}

// A relay whose registry is away when a laptop comes back says so. The laptop has
// not lost its claim by that, and asks again; a first claim is told at once.
func TestARelayThatCannotNow(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	w := wire1(t, r.addr, wiretest.Config{})
	a := through(t, quick(), r, w, nil)
	a.claim(t, orders(TCP))
	away := refuse(503, "the registry is away")
	r.auth.mu.Lock()
	r.auth.deny["orders"], r.auth.deny["stock"] = away, away
	r.auth.mu.Unlock()
	w.Cut()
	a.want(t, Connected) // the first
	a.want(t, Connected)
	if _, err := a.Claim(t.Context(), Claim{ID: "s", Lane: "dev-alice", Service: "stock", Kind: TCP}); asRefusal(err, 0).Code != 503 {
		t.Errorf("%v", err)
	}
	r.auth.mu.Lock()
	clear(r.auth.deny)
	r.auth.mu.Unlock()
	r.auth.want(t, "up dev-alice orders", 2)
	r.echoes(t)
	for len(a.events) > 0 {
		if e := <-a.events; e.What == ClaimLost {
			t.Errorf("%v", e.Err)
		}
	}
}

// While there is no relay, a claim waits as long as it may, and says why.
func TestAClaimSaysWhyThereIsNoLink(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	a := startAgent(t, quick(), r, func(c *AgentConfig) { c.URL = "wss://" + l.Addr().String() })
	a.want(t, Retrying)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := a.Claim(ctx, orders(TCP)); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
	if _, ok := a.RTT(); ok {
		t.Error("a round trip without a link")
	}
	if _, err := a.DialOut(t.Context(), Out{Service: "stock"}); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// An agent that waits to try again tries at once when it is told to; to one that does
// not wait it means nothing.
func TestRetryEndsTheWait(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	slow := quick()
	slow.retryMin, slow.retryMax = 1000*time.Hour, 1000*time.Hour // less than a minute of it once in a million
	a := startAgent(t, slow, r, func(c *AgentConfig) { c.URL = "wss://" + l.Addr().String() })
	for range 3 {
		if e := a.want(t, Retrying); e.In == 0 {
			t.Errorf("it does not say when: %+v", e)
		}
		for told := make(chan struct{}); told != nil; { // the pause begins behind the event
			a.Retry()
			select {
			case e := <-a.events:
				a.events <- e
				told = nil
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	b := startAgent(t, quick(), r, nil)
	b.want(t, Connected)
	b.Retry()
	b.claim(t, orders(TCP))
	for len(b.events) > 0 {
		if e := <-b.events; e.What == Disconnected || e.What == Retrying {
			t.Errorf("%+v", e)
		}
	}
}
