package tunnel

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

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
	if _, err := r.Dial(t.Context(), "dev-alice", "orders", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	w.To(r.addr)
	r.auth.want(t, "up dev-alice orders", 2) // it comes back by itself
	r.echoes(t)
}

// asAgent makes the test's program an agent of that relay, with that pin, until
// its input ends.
const asAgent, asRelay = "LANE_TEST_TUNNEL_AGENT", "LANE_TEST_TUNNEL_RELAY"

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(asAgent) != "":
		agentProcess()
	case os.Getenv(asRelay) != "":
		relayProcess()
	default:
		goleak.VerifyTestMain(m)
	}
}

func agentProcess() {
	addr, pin, _ := strings.Cut(os.Getenv(asAgent), " ")
	a, err := newAgent(AgentConfig{
		URL: "wss://" + addr, Pin: pin, Install: "install-1", Host: "laptop", Handle: echo,
		Token: func(context.Context) (string, error) { return "alice/1", nil },
	}, defaults)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	go func() { _, _ = a.Claim(ctx, orders(TCP)) }()
	if err := a.Run(ctx); err != nil {
		panic(err)
	}
}

func program(t testing.TB) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// relayProcess is a relay that a test kills, with the certificate in that
// directory. It prints where it listens.
func relayProcess() {
	dir := os.Getenv(asRelay)
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	r, err := newRelay(RelayConfig{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Authority: newAuthority()}, defaults)
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	if err := r.Serve(ctx, l); err != nil {
		panic(err)
	}
}

// save writes a certificate where relayProcess looks for it.
func save(t testing.TB, c tls.Certificate) string {
	t.Helper()
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

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

func says(what string) func(context.Context, Claim, Header, Stream) {
	return func(_ context.Context, _ Claim, _ Header, s Stream) { _, _ = io.WriteString(s, what) }
}

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
	if d := time.Since(began); d > 5*time.Second {
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
	soon := time.Now().Add(2 * time.Second)
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

// The relay takes one claim away, and leaves the others.
func TestDrop(t *testing.T) {
	t.Parallel()
	r, a := pair(t, quick(), echo)
	stock := Claim{ID: "s", Lane: "dev-alice", Service: "stock", Kind: TCP}
	a.claim(t, stock)
	r.Drop("dev-alice", "orders", refuse(409, "taken over on another relay"))
	e := a.want(t, ClaimLost)
	if no := asRefusal(e.Err, 0); no.Code != 409 || e.Claim.ID != "c1" {
		t.Errorf("%v", e)
	}
	r.auth.want(t, "gone orders: taken over", 1)
	if _, err := r.Dial(t.Context(), "dev-alice", "orders", Header{}); !errors.Is(err, ErrUnknown) {
		t.Errorf("%v", err)
	}
	_ = r.dial(t, "stock").Close()
	r.Tell("dev-alice", "stock", map[string]string{"mode": "isolated"})
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

// connectProxy is an HTTP proxy that knows CONNECT and asks for a password, if it
// has one. open, if not nil, opens TLS.
func connectProxy(t testing.TB, password string, open *tls.Config, idle time.Duration) (string, *atomic.Int64) {
	t.Helper()
	var used atomic.Int64
	addr := httpServer(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		want := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
		if password != "" && req.Header.Get("Proxy-Authorization") != want {
			http.Error(w, "who are you", http.StatusProxyAuthRequired)
			return
		}
		if req.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		if req.Header.Get("Authorization") != "" {
			t.Error("the proxy got the token")
		}
		used.Add(1)
		up, err := wiretest.New(req.Host, wiretest.Config{Idle: idle})
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		b, err := net.Dial("tcp", up.Addr())
		if err != nil {
			t.Error(err)
			return
		}
		a, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(a, "HTTP/1.1 200 OK\r\n\r\n")
		if rw.Reader.Buffered() > 0 {
			t.Error("the client did not wait")
		}
		if open != nil {
			a = tls.Server(a, open)
		}
		_ = Join(t.Context(), a, b)
	}))
	return addr, &used
}

func TestProxies(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	run := func(t *testing.T, proxy string, change func(*AgentConfig)) *testAgent {
		u, err := url.Parse(proxy)
		if err != nil {
			t.Fatal(err)
		}
		return startAgent(t, quick(), r, func(c *AgentConfig) {
			c.Proxy, c.Handle = u, echo
			if change != nil {
				change(c)
			}
		})
	}
	t.Run("CONNECT with a password", func(t *testing.T) {
		addr, used := connectProxy(t, "secret", nil, 0)
		a := run(t, "http://alice:secret@"+addr, nil)
		a.claim(t, orders(TCP))
		r.echoes(t)
		if used.Load() != 2 {
			t.Errorf("%d connections", used.Load())
		}
		a.stop()
	})
	t.Run("CONNECT refused", func(t *testing.T) {
		addr, used := connectProxy(t, "secret", nil, 0)
		a := run(t, "http://alice:wrong@"+addr, nil)
		e := a.want(t, Retrying)
		var pe *ProxyError
		if !errors.As(e.Err, &pe) || !strings.HasPrefix(pe.Status, "407") || strings.Contains(e.Err.Error(), "wrong") {
			t.Errorf("%v", e.Err)
		}
		if used.Load() != 0 {
			t.Error("it was used")
		}
		a.stop()
	})
	t.Run("a proxy that opens TLS", func(t *testing.T) {
		corp, pool := certificate(t, "Example Corp Web Gateway")
		addr, _ := connectProxy(t, "", &tls.Config{Certificates: []tls.Certificate{corp}}, 0)
		a := run(t, "http://"+addr, nil)
		err := <-a.ended
		var ce *CertificateError
		if !errors.As(err, &ce) || ce.Pinned || !strings.Contains(ce.Issuer, "Example Corp Web Gateway") {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"Example Corp Web Gateway", "opens TLS", r.addr, "trust that issuer"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q is missing in: %v", part, err)
			}
		}
		a = run(t, "http://"+addr, func(c *AgentConfig) { c.Pin = r.pin })
		if err := <-a.ended; !errors.As(err, &ce) || !ce.Pinned || !strings.Contains(err.Error(), "Example Corp Web Gateway") {
			t.Errorf("%v", err)
		}
		_ = pool
	})
	t.Run("a pinned certificate of another name", func(t *testing.T) {
		a := startAgent(t, quick(), r, func(c *AgentConfig) {
			_, port, _ := net.SplitHostPort(r.addr)
			c.URL, c.Pin, c.Roots, c.Handle = "wss://localhost:"+port, r.pin, nil, echo
		})
		a.claim(t, orders(TCP))
		r.echoes(t)
		a.stop()
	})
	t.Run("a proxy that closes what is idle", func(t *testing.T) {
		// The pings come every 5 s; the proxies that are known wait 60 s.
		tm := quick()
		tm.beat = 200 * time.Millisecond
		tm.write = patience
		r := startRelay(t, tm, nil)
		addr, used := connectProxy(t, "", nil, 4*time.Second)
		u, _ := url.Parse("http://" + addr)
		a := startAgent(t, tm, r, func(c *AgentConfig) { c.Proxy, c.Handle = u, echo })
		a.claim(t, orders(TCP))
		if !pause(t, 6*time.Second) {
			return
		}
		r.echoes(t)
		if used.Load() != 2 {
			t.Errorf("%d connections", used.Load())
		}
		a.stop()
	})
}

// The relay's certificate is looked at each time; what could be a captive portal
// after a sleep does not end an agent that has been connected.
func TestACertificateThatChanges(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	other := startRelay(t, quick(), nil) // another certificate
	w := wire1(t, r.addr, wiretest.Config{})
	a := through(t, quick(), r, w, nil)
	a.want(t, Connected)
	w.To(other.addr)
	w.Cut()
	e := a.want(t, Retrying)
	var ce *CertificateError
	if !errors.As(e.Err, &ce) {
		t.Errorf("%v", e.Err)
	}
	w.To(r.addr)
	a.want(t, Connected)
	if len(other.Links()) != 0 {
		t.Error("linked without trust")
	}
}

// After a sleep nothing says that the old connections are dead: the clocks do.
func TestWaking(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), nil)
	w := wire1(t, r.addr, wiretest.Config{})
	var slept atomic.Int64
	a := &testAgent{events: make(chan Event, 1000), ended: make(chan error, 1)}
	tm := quick()
	tm.retryMin, tm.retryMax = time.Hour, time.Hour // a wake does not wait for it
	var err error
	a.Agent, err = newAgent(AgentConfig{
		URL: "wss://" + w.Addr(), Roots: r.roots, Install: "i", Host: "laptop", Handle: echo, Log: logger(t),
		Token:  func(context.Context) (string, error) { return "alice/1", nil },
		Notify: func(e Event) { a.events <- e },
	}, tm)
	if err != nil {
		t.Fatal(err)
	}
	a.wall = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	a.claim(t, orders(TCP))
	w.Freeze() // what the network is for connections of before
	w.To(r.addr)
	slept.Store(int64(10 * time.Minute))
	a.want(t, Woke)
	w.Thaw()
	e := a.want(t, Claimed)
	if e.Generation <= a.conf.Generation {
		t.Errorf("generation %d", e.Generation)
	}
	r.echoes(t)
	if n := r.auth.count("up dev-alice orders"); n != 2 {
		t.Errorf("%v", r.auth.calls)
	}
}

func TestSlept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wall, mono time.Duration
		want       bool
	}{
		{time.Second, time.Second, false},
		{20 * time.Second, time.Second, true},
		{20 * time.Second, 20 * time.Second, false}, // a busy machine
		{10 * time.Second, time.Second, false},      // a corrected clock
		{-time.Hour, time.Second, false},            // set back
		{time.Hour, time.Second, true},
	} {
		if got := slept(c.wall, c.mono, 5*time.Second); got != c.want {
			t.Errorf("slept(%v, %v) = %v", c.wall, c.mono, got)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for failures, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		if got := bound(failures, 250*time.Millisecond, 10*time.Second); got != want {
			t.Errorf("bound(%d) = %v, want %v", failures, got, want)
		}
		var low, high bool
		for range 1000 {
			d := backoff(failures, 250*time.Millisecond, 10*time.Second)
			if d < 0 || d > want {
				t.Fatalf("backoff(%d) = %v", failures, d)
			}
			low, high = low || d < want/3, high || d > 2*want/3
		}
		if !low || !high {
			t.Errorf("backoff(%d) does not spread", failures)
		}
	}
	if got := bound(1_000_000_000, 250*time.Millisecond, 10*time.Second); got != 10*time.Second {
		t.Errorf("%v", got)
	}
}

// Links come and go while claims are made, dialled and released; nothing is left.
func TestManyLinksComeAndGo(t *testing.T) {
	t.Parallel()
	r := startRelay(t, quick(), func(c *RelayConfig) { c.Limits.Agents = 100 })
	w := wire1(t, r.addr, wiretest.Config{})
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			a := through(t, quick(), r, w, func(c *AgentConfig) { c.Install = fmt.Sprintf("i%d", i) })
			for n := range 5 {
				c := Claim{ID: "c", Lane: fmt.Sprintf("lane-%d", i), Service: "orders", Kind: TCP}
				a.claim(t, c)
				if s, err := r.Dial(t.Context(), c.Lane, c.Service, Header{}); err == nil {
					_, _ = io.WriteString(s, "x")
					_ = s.Close()
				}
				if n == 2 {
					w.Cut()
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if err := a.Release(ctx, "c"); err != nil {
					t.Error(err)
				}
				cancel()
			}
			a.stop()
		})
	}
	wg.Wait()
	until(t, "no link and no claim is left", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.all) == 0 && len(r.links) == 0 && len(r.claims) == 0
	})
}
