package session_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/session"
	"lane/pkg/token"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// relayed is a relay at the registry itself, and the way in for a session; end ends
// the relay, and waits.
func (w *world) relayed() (by *session.Relay, end func()) {
	w.t.Helper()
	dir := w.t.TempDir()
	key, err := (token.Keeper{Dir: dir}).Key()
	if err != nil {
		w.t.Fatal(err)
	}
	cert, err := relay.Certificate(dir, nil, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := consul.Open(consul.Config{Address: w.addr, Getenv: func(string) string { return "" }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sign = func(life time.Duration) string {
		now := time.Now().Truncate(time.Second)
		text, err := token.Sign(key, &token.Grant{ID: token.NewID(), User: "alice", Lanes: []string{string(w.lane)}, Services: []string{"*"}, Issued: now, Expires: now.Add(life)})
		if err != nil {
			w.t.Fatal(err)
		}
		return text
	}
	text := w.sign(time.Hour)
	up := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- relay.Run(ctx, relay.Options{Listener: ln, TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Client: client,
			Watcher: consul.NewWatcher(client, consul.WatchOptions{}), Verifier: token.NewVerifier(key.Public().(ed25519.PublicKey), time.Now),
			Name: "relay", Advertise: loopback, Ports: relay.Ports{First: 31100, Last: 32700}, ClaimTTL: 10 * time.Second,
			Policy: lane.DefaultPolicy(), Log: traffic.NewLog(16), Ready: func() { close(up) }})
	}()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the relay: %v", err)
		}
		client.Close()
	}
	w.t.Cleanup(end)
	select {
	case <-up:
	case err := <-done:
		w.t.Fatalf("the relay: %v", err)
	}
	return &session.Relay{URL: "wss://" + ln.Addr().String(), Pin: tunnel.Fingerprint(cert.Certificate[0]),
		Token: func(context.Context) (string, error) { return text, nil }}, end
}

// A session that comes in by a relay writes nothing to the registry, in all its life.
func TestByARelayASessionWritesNothing(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		w.baseline(w.service("orders"))
		w.local.says("mine")
		o := w.options("box")
		o.Mode = session.ModeAuto
		o.Relay, _ = w.relayed()
		o.Relay.Outgoing = true
		o.Owner = "root@vm"
		w.front.set(nil)
		r := run(t, o)
		st := r.up()
		v := st.Services[0]
		if st.Registry.Index == 0 {
			t.Error("no index of the registry")
		}
		if st.Relay == nil || st.Relay.State != control.RelayOK || st.Relay.Name != "relay" || v.Registered != w.service("orders") || v.State != control.StateUp || v.Guard == "" {
			t.Errorf("status %+v %+v", st.Relay, v)
		}
		if st.Owner != "alice" { // as the claim has it, and so everybody else
			t.Errorf("the owner is %q", st.Owner)
		}
		if code, body, err := w.ask(st, "/"); code != 200 || body != "mine" || err != nil {
			t.Errorf("%d %q %v", code, body, err)
		}
		w.local.close()
		eventually(t, "the port is closed", func() bool {
			return slices.ContainsFunc(w.instances(), func(in instance) bool { return in.App == "critical" }) && r.status().Services[0].State == control.StateLocalClosed
		})
		w.local.open()
		eventually(t, "up again", func() bool { return r.status().Services[0].State == control.StateUp })
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		if puts := w.front.writes(); len(puts) != 0 {
			t.Errorf("written: %v", puts)
		}
		if in, cl := w.instances(), w.claims(); len(in) != 1 || in[0].App != "" || len(cl) != 0 { // the baseline is none of ours
			t.Errorf("left: %v %v", in, cl)
		}
	})
}

func TestARelayThatGoesIsSaidAndIsNoEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	var end func()
	o.Relay, end = w.relayed()
	r := run(t, o)
	r.up()
	end()
	eventually(t, "reconnecting", func() bool {
		st := r.status()
		return st.Relay.State == control.RelayReconnecting && st.Relay.Error != "" && st.Services[0].State == control.StateUnconfirmed
	})
	if h := r.status().History; len(h) == 0 || !strings.Contains(h[len(h)-1].Text, "the relay is lost") {
		t.Errorf("history %v", h)
	}
	err := r.stop()
	var left *session.LeftBehindError
	if !errors.As(err, &left) || !strings.Contains(err.Error(), "The claim lane/declared/"+string(w.lane)+"/") ||
		!strings.Contains(err.Error(), "if it has died, Consul does within 1m45s") {
		t.Errorf("Run = %v", err)
	}
}

func TestNoRelay(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	good, end := w.relayed()
	end()
	for name, c := range map[string]struct {
		change func(*session.Relay)
		want   func(error) bool
	}{
		"not a URL": {func(r *session.Relay) { r.URL = "http://127.0.0.1:1" }, func(err error) bool { return err != nil }},
		"no token": {func(r *session.Relay) {
			r.Token = func(context.Context) (string, error) { return "", errors.New("no token here") }
		}, func(err error) bool { return err != nil && strings.Contains(err.Error(), "no token here") }},
		"a proxy that is away": {func(r *session.Relay) { r.Proxy = &url.URL{Scheme: "http", Host: "127.0.0.1:1"} }, func(err error) bool {
			var no *session.RelayError
			return errors.As(err, &no)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := w.options("box")
			by := *good
			c.change(&by)
			o.Relay = &by
			var said bytes.Buffer
			o.Log = slog.New(slog.NewTextHandler(&said, nil))
			o = session.Impatient(o, 2*time.Second) // nothing comes, however long it waits
			err := run(t, o).wait()
			if !c.want(err) {
				t.Errorf("Run = %v", err)
			}
			var no *session.RelayError
			if told := strings.Contains(said.String(), "the relay is not reached yet"); told != errors.As(err, &no) {
				t.Errorf("the wait is told: %v, with %v", told, err)
			}
			var left *session.LeftBehindError
			if errors.As(err, &left) || strings.Contains(said.String(), "waiting for the relay") {
				t.Errorf("nothing was registered, and it is waited for: %v, %s", err, &said)
			}
		})
	}
}

// At a limit of the relay's, a session and an exposed port are told so at once, and
// not that there is no relay.
func TestTooManyTunnels(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	by, _ := w.relayed()
	var others sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); others.Wait() })
	for range 3 {
		up := make(chan struct{})
		a, err := tunnel.NewAgent(tunnel.AgentConfig{URL: by.URL, Pin: by.Pin, Token: by.Token, Install: "other", Host: "other",
			Handle: func(context.Context, tunnel.Claim, tunnel.Header, tunnel.Stream) {},
			Notify: func(e tunnel.Event) {
				if e.What == tunnel.Connected {
					close(up)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		others.Go(func() { _ = a.Run(ctx) })
		select {
		case <-up:
		case <-time.After(patience):
			t.Fatal("no tunnel")
		}
	}
	o := w.options("box")
	o.Relay = by
	var no *session.RelayRefusedError
	if err := run(t, o).wait(); !errors.As(err, &no) || no.Code != 429 {
		t.Errorf("a session: %v", err)
	}
	no = nil
	if err := session.Expose(t.Context(), session.ExposeOptions{Relay: by, Lane: w.lane, RuntimeDir: shortDir(t), Name: "debugger", Local: []string{"127.0.0.1:1"},
		Install: "box", Host: "box", Log: slog.New(slog.DiscardHandler), Now: time.Now, Ready: func(string, string) {}}); !errors.As(err, &no) || no.Code != 429 {
		t.Errorf("an exposed port: %v", err)
	}
}

// A token that ends soon is told, until another one lies ready; with that the session
// outlives it, and nobody gets the baseline in between.
func TestATokenThatEndsSoonIsToldAndReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	w.baseline(w.service("orders"))
	w.local.says("mine")
	o := w.options("box")
	o.Relay, _ = w.relayed()
	var now atomic.Pointer[string]
	set := func(life time.Duration) { text := w.sign(life); now.Store(&text) }
	const life = 20 * time.Second
	set(life)
	o.Relay.Token = func(context.Context) (string, error) { return *now.Load(), nil }
	r := run(t, o)
	r.up()
	soon := func(all []string) bool {
		return slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, "the token for the relay ends in ") })
	}
	history := func(st control.Status) (out []string) {
		for _, e := range st.History {
			out = append(out, e.Text)
		}
		return out
	}
	eventually(t, "it is told", func() bool { st := r.status(); return soon(st.Warnings) && soon(history(st)) })
	before, over := w.claims(), time.Now().Add(life+2*time.Second)
	set(time.Hour)
	if st := r.status(); soon(st.Warnings) {
		t.Errorf("another one lies ready: %q", st.Warnings)
	}
	eventually(t, "the relay takes it", func() bool {
		return slices.ContainsFunc(history(r.status()), func(s string) bool { return strings.Contains(s, "the relay has taken a new token") })
	})
	// Until the old one has ended: every call comes to the lane, and nothing was given up.
	for st := r.status(); time.Now().Before(over); {
		if code, body, err := w.ask(st, "/"); code != 200 || body != "mine" || err != nil {
			t.Fatalf("a gap: %d %q %v", code, body, err)
		}
		if now := w.claims(); !slices.Equal(now, before) {
			t.Fatalf("claims %v, before %v", now, before)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	st := r.status()
	if slices.ContainsFunc(history(st), func(s string) bool { return strings.Contains(s, "the relay is lost") }) ||
		st.Relay.State != control.RelayOK || st.Services[0].State != control.StateUp {
		t.Errorf("%+v %q", st.Relay, history(st))
	}
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
}

// So does an exposed port: nobody who dials it is turned away in between.
func TestAnExposedPortOutlivesItsFirstToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	by, _ := w.relayed()
	var now atomic.Pointer[string]
	const life = 12 * time.Second
	text := w.sign(life)
	now.Store(&text)
	by.Token = func(context.Context) (string, error) { return *now.Load(), nil }
	ctx, end := context.WithCancel(context.Background())
	at, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- session.Expose(ctx, session.ExposeOptions{Relay: by, Lane: w.lane, RuntimeDir: shortDir(t), Name: "debugger", Local: []string{w.local.addr},
			Install: "box", Host: "box", Log: slog.New(slog.DiscardHandler), Now: time.Now, Ready: func(_, addr string) { at <- addr }})
	}()
	defer end()
	var addr string
	select {
	case addr = <-at:
	case err := <-done:
		t.Fatal(err)
	}
	over := time.Now().Add(life + 2*time.Second)
	text2 := w.sign(time.Hour)
	now.Store(&text2)
	for time.Now().Before(over) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("a gap: %v", err)
		}
		_ = conn.Close()
		select {
		case <-time.After(100 * time.Millisecond):
		case err := <-done:
			t.Fatalf("it ended: %v", err)
		}
	}
	end()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// One that is not replaced ends the session, and one with time left is not spoken of.
func TestATokenThatIsNotReplacedEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Relay, _ = w.relayed()
	long := run(t, o)
	if st := long.up(); len(st.Relay.Error) != 0 || slices.ContainsFunc(st.Warnings, func(s string) bool { return strings.Contains(s, "token") }) {
		t.Errorf("with an hour left: %q", st.Warnings)
	}
	if err := long.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
	o = w.options("box")
	by, _ := w.relayed()
	short := w.sign(10 * time.Second)
	by.Token = func(context.Context) (string, error) { return short, nil }
	o.Relay = by
	var no *session.RelayRefusedError
	if err := run(t, o).wait(); !errors.As(err, &no) || no.Code != 401 || !strings.Contains(no.Text, "expired") {
		t.Errorf("Run = %v", err)
	}
}

// A token's file that is gone, or open to others, is told while the session runs, and not
// only when its tunnel breaks; when it is back, nothing is said any more.
func TestATokenThatCannotBeReadIsTold(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Relay, _ = w.relayed()
	good := o.Relay.Token
	var gone atomic.Bool
	o.Relay.Token = func(ctx context.Context) (string, error) {
		if gone.Load() {
			return "", errors.New("there is no file token")
		}
		return good(ctx)
	}
	r := run(t, o)
	warned := func(st control.Status) bool {
		return slices.ContainsFunc(st.Warnings, func(s string) bool {
			return strings.Contains(s, "there is no file token: the tunnel that stands goes on until ")
		})
	}
	if st := r.up(); warned(st) {
		t.Errorf("warned of a good one: %v", st.Warnings)
	}
	gone.Store(true)
	if st := r.status(); !warned(st) || st.Relay.State != control.RelayOK {
		t.Errorf("not warned: %v", st.Warnings)
	}
	gone.Store(false)
	if st := r.status(); warned(st) {
		t.Errorf("warned of one that is back: %v", st.Warnings)
	}
}
