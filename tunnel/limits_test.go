package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// hits are the limits that somebody ran into.
type hits struct {
	mu   sync.Mutex
	all  []string
	news chan struct{}
}

func (h *hits) hear(who Holder, what Limit) {
	h.mu.Lock()
	h.all = append(h.all, who.Subject+" "+string(what))
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

func (h *hits) count(what string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, s := range h.all {
		if s == what {
			n++
		}
	}
	return n
}

// want waits for one.
func (h *hits) want(t *testing.T, what string) {
	t.Helper()
	late := time.After(patience)
	for h.count(what) == 0 {
		select {
		case <-h.news:
		case <-late:
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("nobody ran into %q: %v", what, h.all)
		}
	}
}

// limitedRelay is a relay with limits, and who runs into them.
func limitedRelay(t *testing.T, tm timing, l Limits) (*testRelay, *hits) {
	t.Helper()
	h := &hits{news: make(chan struct{}, 1)}
	return startRelay(t, tm, func(c *RelayConfig) { c.Limits, c.Limited = l, h.hear }), h
}

func as(token string) func(*AgentConfig) {
	return func(c *AgentConfig) {
		c.Handle = echo
		c.Token = func(context.Context) (string, error) { return token, nil }
	}
}

// Who opens streams faster than he may waits for a while, and is refused when that
// would be long; in both directions, and nobody else is.
func TestStreamsOverTheRate(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.slot = 50 * time.Millisecond
	r, hit := limitedRelay(t, tm, Limits{Opens: 1}) // and two at once
	r.auth.out = func(context.Context, Holder, Out) (net.Conn, error) { return nil, refuse(404, "nothing there") }
	alice, bob := startAgent(t, tm, r, as("alice/1")), startAgent(t, tm, r, as("bob/2"))
	alice.claim(t, orders(TCP))
	other := orders(TCP)
	other.Service = "reviews"
	bob.claim(t, other)
	var err error
	for range 100 { // a busy machine may take a second for two
		var s Stream
		if s, err = r.Dial(t.Context(), "dev-alice", "orders", Header{}); err != nil {
			break
		}
		_ = s.Close()
	}
	if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "alice opens more than 1 streams a second") {
		t.Errorf("%v", err)
	}
	for range 100 {
		_, err = alice.DialOut(t.Context(), Out{Service: "stock"})
		if asRefusal(err, 0).Code == 429 {
			break
		}
	}
	if no := asRefusal(err, 0); no.Code != 429 || !strings.Contains(no.Text, "alice opens more than 1 streams a second") {
		t.Errorf("out: %v", err)
	}
	if hit.count("alice stream_rate") < 2 || hit.count("bob stream_rate") != 0 {
		t.Errorf("%v", hit.all)
	}
	s, err := r.Dial(t.Context(), "dev-alice", "reviews", Header{})
	if err != nil {
		t.Fatalf("bob: %v", err)
	}
	_ = s.Close()
}

// All streams of one subject together are no faster than the rate, every byte
// arrives, and nobody is cut.
func TestBytesOverTheRateWait(t *testing.T) {
	t.Parallel()
	const speed, much = 128 << 10, 768 << 10 // 128 KiB a second, and 256 at once: a busy machine is quicker, too
	r, hit := limitedRelay(t, quick(), Limits{Rate: speed})
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) {
			_, _ = io.Copy(io.Discard, s)
			_, _ = noise(s, much/2, 7)
			_ = s.CloseWrite()
		}
	})
	a.claim(t, orders(TCP))
	began := time.Now()
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			s := r.dial(t, "orders")
			_, _ = io.WriteString(s, "all")
			_ = s.CloseWrite()
			n, err := io.CopyN(io.Discard, s, 1)
			_ = s.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // to be woken, as a proxy is
			for err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				if err != nil {
					_ = s.SetReadDeadline(time.Time{})
				}
				var more int64
				more, err = io.CopyN(io.Discard, s, much)
				n += more
			}
			if n != much/2 || !errors.Is(err, io.EOF) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	both.Wait()
	// Slower is always possible, faster is not.
	if took := time.Since(began); took < 3500*time.Millisecond {
		t.Errorf("%d bytes in %v", much, took)
	}
	hit.want(t, "alice byte_rate")
	got := r.Traffic()
	if len(got) != 1 || got[0].Subject != "alice" || got[0].Host != "laptop" || got[0].In != much || got[0].Out != 6 {
		t.Errorf("traffic %+v", got)
	}
}

// Who waits for his turn is let go at once by a close, and by a deadline.
func TestAWaitForTheRateEnds(t *testing.T) {
	t.Parallel()
	r, hit := limitedRelay(t, quick(), Limits{Rate: 1})
	a := startAgent(t, quick(), r, func(c *AgentConfig) {
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = io.Copy(io.Discard, s) }
	})
	a.claim(t, orders(TCP))
	for name, end := range map[string]func(Stream){
		"close":    func(s Stream) { _ = s.Close() },
		"abort":    func(s Stream) { s.Abort(499, "enough") },
		"deadline": func(s Stream) { _ = s.SetWriteDeadline(time.Unix(1, 0)) },
	} {
		s := r.dial(t, "orders")
		done := make(chan error, 1)
		go func() {
			_, err := noise(s, 1<<30, 3)
			done <- err
		}()
		hit.want(t, "alice byte_rate")
		end(s)
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("%s: a gigabyte at a byte a second", name)
			}
		case <-time.After(patience):
			t.Fatalf("%s: it waits", name)
		}
	}
}

// A token that has moved all that it may is worth nothing: what came in by it is
// given up, and it does not come back. Another one does.
func TestATokenThatHasMovedAll(t *testing.T) {
	t.Parallel()
	r, hit := limitedRelay(t, quick(), Limits{Volume: 64 << 10})
	a := startAgent(t, quick(), r, as("alice/1"))
	a.claim(t, orders(TCP))
	r.echoes(t) // little
	if hit.count("alice bytes") != 0 {
		t.Error("too early")
	}
	s := r.dial(t, "orders")
	_, _ = noise(s, 128<<10, 1)
	if err := <-a.ended; asRefusal(err, 0).Code != 401 || !strings.Contains(err.Error(), "has moved 65536 bytes") {
		t.Errorf("%v", err)
	}
	if r.auth.count("gone orders: revoked") != 1 || hit.count("alice bytes") == 0 {
		t.Errorf("%v %v", r.auth.calls, hit.all)
	}
	again := startAgent(t, quick(), r, as("alice/2"))
	again.claim(t, orders(TCP))
	r.echoes(t)
}

// Links and claims that come too fast are put off, with the reason.
func TestLinksAndClaimsOverTheRate(t *testing.T) {
	t.Parallel()
	r, hit := limitedRelay(t, quick(), Limits{Links: 1, Asks: 2})
	a := startAgent(t, quick(), r, as("alice/1"))
	for i := range 2 {
		a.claim(t, Claim{ID: fmt.Sprint(i), Lane: "dev-alice", Service: fmt.Sprint("s", i), Kind: HTTP})
	}
	_, err := a.Claim(t.Context(), Claim{ID: "2", Lane: "dev-alice", Service: "s2", Kind: HTTP})
	if no := asRefusal(err, 0); no.Code != 503 || !strings.Contains(no.Text, "alice asks for more than 2 claims a minute") {
		t.Errorf("%v", err)
	}
	hit.want(t, "alice claim_rate")
	second := startAgent(t, quick(), r, as("alice/1"))
	e := second.want(t, Retrying)
	if no := asRefusal(e.Err, 0); no.Code != 503 || !strings.Contains(no.Text, "alice makes more than 1 tunnels a minute") {
		t.Errorf("%v", e.Err)
	}
	hit.want(t, "alice tunnel_rate")
	bob := startAgent(t, quick(), r, as("bob/2"))
	bob.want(t, Connected)
}

// What is kept of users and laptops is bounded, whatever they call themselves.
func TestTheLedgerIsBounded(t *testing.T) {
	g := newLedger(Limits{}.withDefaults())
	for i := range 10 * maxLaptops {
		g.moved("alice", fmt.Sprint("host-", i)).in.Add(1)
		g.quota(fmt.Sprint("user-", i))
	}
	if len(g.laptops) != maxLaptops+1 || g.laptops[laptop{OtherLaptops, OtherLaptops}].in.Load() != 9*maxLaptops {
		t.Errorf("%d laptops", len(g.laptops))
	}
	if len(g.quotas) > pruneAt {
		t.Errorf("%d quotas", len(g.quotas))
	}
	used := g.quota("mallory")
	used.links.Allow()
	for i := range 2 * pruneAt {
		g.quota(fmt.Sprint("more-", i))
	}
	if g.quota("mallory") != used {
		t.Error("what is used up was forgotten")
	}
	g = newLedger(Limits{Volume: 1}.withDefaults())
	for i := range 2 * pruneAt {
		g.spent(Identity{TokenID: fmt.Sprint("token-", i), Expires: time.Unix(1, 0)})
	}
	if len(g.tokens) > pruneAt {
		t.Errorf("%d tokens", len(g.tokens))
	}
}
