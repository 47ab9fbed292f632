package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/tunnel/wiretest"
)

// through is an agent whose connections go through a wire.
func through(t testing.TB, tm timing, r *testRelay, w *wiretest.Wire, change func(*AgentConfig)) *testAgent {
	t.Helper()
	return startAgent(t, tm, r, func(c *AgentConfig) {
		c.URL = "wss://" + w.Addr()
		c.Handle = echo
		if change != nil {
			change(c)
		}
	})
}

func (r *testRelay) echoes(t testing.TB) {
	t.Helper()
	s := r.dial(t, "orders")
	defer func() { _ = s.Close() }()
	_, _ = io.WriteString(s, "ping")
	_ = s.CloseWrite()
	if b, err := io.ReadAll(s); string(b) != "ping" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// A pulled cable closes nothing. Both ends find out by themselves within ten
// seconds, with the waits that are the product's, and leave no goroutine; the
// requests under way fail, and are sent to nobody a second time.
func TestAPulledCableIsFoundOutWithinTenSeconds(t *testing.T) {
	t.Parallel()
	r := startRelay(t, defaults, nil)
	w := wire1(t, r.addr, wiretest.Config{})
	var came atomic.Int64
	hung := make(chan error, 1)
	a := through(t, defaults, r, w, func(c *AgentConfig) {
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) {
			came.Add(1)
			if _, err := io.Copy(s, s); err != nil {
				hung <- err
			}
		}
	})
	a.claim(t, orders(TCP))
	a.Report("c1", State{Ready: true})
	r.auth.want(t, "state orders ready=true", 1)
	s := r.dial(t, "orders")
	_, _ = io.WriteString(s, "ping")
	_, _ = io.ReadFull(s, make([]byte, 4))
	old := r.links1()

	w.Freeze()
	began := time.Now()
	// Opening and writing succeed, since nobody knows yet.
	late := r.dial(t, "orders")
	_, _ = io.WriteString(late, "nobody hears this")
	for _, s := range []Stream{s, late} {
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
	}
	r.auth.want(t, "lost orders", 1)
	found := time.Since(began)
	e := a.want(t, Disconnected)
	if !errors.Is(e.Err, ErrLost) {
		t.Errorf("%v", e.Err)
	}
	both := time.Since(began)
	// 10 s, and what a busy machine adds; yamux's own settings need 40.
	if found > 30*time.Second || both > 30*time.Second {
		t.Errorf("the relay found out after %v, both after %v", found, both)
	}
	if err := <-hung; !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	if _, err := r.Dial(t.Context(), "dev-alice", "orders", Header{}); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	t.Logf("found out after %v and %v", found, both)

	w.Cut()
	w.Thaw()
	r.auth.want(t, "up dev-alice orders", 2)
	r.auth.want(t, "state orders ready=true", 2) // said again
	r.echoes(t)
	if n := came.Load(); n != 2 {
		t.Errorf("%d streams came, want the first and the last", n)
	}
	if n := r.auth.count("gone"); n != 0 {
		t.Error("the claim was given up in between")
	}
	select {
	case <-old.done: // all its goroutines have ended; TestMain counts them, too
	case <-time.After(patience):
		t.Error("something is left of the old link")
	}
}

// So they do while both directions are full, when a ping cannot even be sent: the
// write that is not taken ends the session (hashicorp/yamux#142).
func TestAPulledCableUnderLoad(t *testing.T) {
	t.Parallel()
	r := startRelay(t, defaults, nil)
	w := wire1(t, r.addr, wiretest.Config{})
	ends := make(chan error, 2)
	a := through(t, defaults, r, w, func(c *AgentConfig) {
		c.Handle = func(_ context.Context, _ Claim, _ Header, s Stream) {
			go func() { _, _ = io.Copy(io.Discard, s) }()
			_, err := noise(s, 1<<40, 1)
			ends <- err
		}
	})
	a.claim(t, orders(TCP))
	s := r.dial(t, "orders")
	go func() {
		_, err := noise(s, 1<<40, 2)
		ends <- err
	}()
	if _, err := io.CopyN(io.Discard, s, 8<<20); err != nil {
		t.Fatal(err)
	}
	w.Freeze()
	began := time.Now()
	if _, err := io.Copy(io.Discard, s); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	for range 2 {
		if err := <-ends; !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("found out after %v", d)
	} else {
		t.Logf("found out after %v", d)
	}
}

// asAgent makes the test's program an agent of that relay, with that pin, until
// its input ends.
const asAgent, asRelay = "LANE_TEST_TUNNEL_AGENT", "LANE_TEST_TUNNEL_RELAY"

// A relay that is killed says nothing to anybody. All its agents are on the next
// one within fifteen seconds, each at a moment of its own, and their claims with
// them: by the same install and a higher generation, not by waiting for an end.
func TestAKilledRelay(t *testing.T) {
	t.Parallel()
	other := startRelay(t, defaults, nil)
	old := exec.Command(program(t))
	old.Env = append(os.Environ(), asRelay+"="+save(t, other.conf.TLS.Certificates[0]))
	old.Stderr = t.Output()
	in, err := old.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := old.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = old.Process.Kill(); _ = old.Wait() })
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	w := wire1(t, strings.TrimSpace(addr), wiretest.Config{})
	var agents []*testAgent
	for i := range 3 {
		agents = append(agents, through(t, defaults, other, w, func(c *AgentConfig) { c.Install = fmt.Sprintf("install-%d", i) }))
	}
	agents[0].claim(t, orders(TCP))
	generation := uint64(0)
	for i, a := range agents {
		if e := a.want(t, Connected); i == 0 {
			generation = e.Generation
		}
	}
	if len(other.Links()) != 0 {
		t.Fatal("an agent is on the wrong relay")
	}
	w.To(other.addr)
	_ = old.Process.Kill()
	began := time.Now()
	for i, a := range agents {
		if e := a.want(t, Connected); i == 0 && e.Generation <= generation {
			t.Errorf("generation %d after %d", e.Generation, generation)
		}
	}
	other.auth.want(t, "up dev-alice orders", 1)
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("all back after %v", d)
	}
	other.echoes(t)
}

// A relay that is told to end lets what is under way end, and its agents are
// elsewhere meanwhile.
func TestARelayThatEndsDrains(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.drain = patience
	old := startRelay(t, tm, nil)
	next := serveAnother(t, tm, old)
	w := wire1(t, old.addr, wiretest.Config{})
	a := through(t, tm, old, w, nil)
	a.claim(t, orders(TCP))
	s := old.dial(t, "orders")
	_, _ = io.WriteString(s, "before, ")
	_, _ = io.ReadFull(s, make([]byte, 8))
	w.To(next.addr)
	stopped := make(chan struct{})
	go func() { defer close(stopped); old.stop() }()
	a.want(t, Draining)
	next.auth.want(t, "up dev-alice orders", 1)
	next.echoes(t)
	if n := old.auth.count("gone orders: stopping"); n != 1 {
		t.Errorf("%v", old.auth.calls)
	}
	if n := old.auth.count("lost"); n != 0 {
		t.Errorf("%v", old.auth.calls)
	}
	select {
	case <-stopped:
		t.Fatal("the relay did not wait")
	default:
	}
	_, _ = io.WriteString(s, "after")
	_ = s.CloseWrite()
	if b, err := io.ReadAll(s); string(b) != "after" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	_ = s.Close()
	select {
	case <-stopped:
	case <-time.After(patience / 2):
		t.Error("the relay waits although nothing is under way")
	}
}

func TestADrainEnds(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.drain = 200 * time.Millisecond
	r, _ := pair(t, tm, echo)
	s := r.dial(t, "orders")
	r.stop()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// Who says so a second time does not wait for what is under way.
func TestADrainIsCutShort(t *testing.T) {
	t.Parallel()
	tm := quick()
	tm.drain = 10 * patience
	force := make(chan struct{})
	r := startRelay(t, tm, func(c *RelayConfig) { c.Force = force })
	a := startAgent(t, tm, r, as("alice/1"))
	a.claim(t, orders(TCP))
	s := r.dial(t, "orders")
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	a.want(t, Draining)
	select {
	case <-stopped:
		t.Fatal("it did not wait")
	default:
	}
	close(force)
	select {
	case <-stopped:
	case <-time.After(patience):
		t.Fatal("it waits all the same")
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
}

// serveAnother is a second relay with the first one's certificate.
func serveAnother(t testing.TB, tm timing, r *testRelay) *testRelay {
	t.Helper()
	return startRelay(t, tm, func(c *RelayConfig) { c.TLS = r.conf.TLS.Clone() })
}

// A request under way when the link is lost fails, and nobody sends it again.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	w := wire1(t, r.addr, wiretest.Config{})
	var posts atomic.Int64
	arrived := make(chan struct{}, 1)
	hold := make(chan struct{})
	t.Cleanup(func() { close(hold) })
	app := httpServer(t, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		posts.Add(1)
		arrived <- struct{}{}
		<-hold
	}))
	a := through(t, quick(), r, w, func(c *AgentConfig) { c.Handle = to(app) })
	a.claim(t, orders(HTTP))
	failed := make(chan error, 1)
	go func() {
		resp, err := r.client(t, "orders").Post("http://orders/", "text/plain", strings.NewReader("once"))
		if err == nil {
			_ = resp.Body.Close()
		}
		failed <- err
	}()
	<-arrived
	w.Cut()
	if err := <-failed; !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	r.auth.want(t, "up dev-alice orders", 2)
	if n := posts.Load(); n != 1 {
		t.Errorf("the application got it %d times", n)
	}
}
