package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/session"
	"lane/pkg/traffic"
)

// wire is a line between a session and its relay that can be cut.
type wire struct {
	t        *testing.T
	addr, to string
	done     sync.WaitGroup

	mu    sync.Mutex
	ln    net.Listener
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	w := &wire{t: t, to: to}
	w.join()
	t.Cleanup(w.cut)
	return w
}

// join lets connections through from now on.
func (w *wire) join() {
	w.t.Helper()
	ln, err := listen(w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.ln, w.addr = ln, ln.Addr().String()
	w.mu.Unlock()
	w.done.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", w.to)
			if err != nil {
				a.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, a, b)
			w.mu.Unlock()
			for _, d := range [][2]net.Conn{{a, b}, {b, a}} {
				w.done.Go(func() {
					_, _ = io.Copy(d[0], d[1])
					d[0].Close()
				})
			}
		}
	})
}

// cut ends all connections, and lets none through.
func (w *wire) cut() {
	w.mu.Lock()
	_ = w.ln.Close()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
	w.mu.Unlock()
	w.done.Wait()
}

// A lost tunnel costs the requests that are under way: their callers are told, and so is
// whoever looks at the session. What had ended before is none of them, and a connection
// that is kept for later neither.
func TestALostTunnelSaysWhatItHasCutOff(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Relay, _ = w.relayed()
	line := newWire(t, strings.TrimPrefix(o.Relay.URL, "wss://"))
	o.Relay.URL = "wss://" + line.addr
	r := run(t, o)
	if st := r.up(); st.Relay.State != control.RelayOK {
		t.Fatalf("%+v", st.Relay)
	}
	at := "127.0.0.1:" + w.instances()[0].Port
	old := &http.Transport{DisableKeepAlives: true}
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	defer h2.CloseIdleConnections()
	ask := func(by *http.Transport, path string) string {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+path, nil)
		if err != nil {
			return err.Error()
		}
		req.Header.Set("X-Lane-Tag", string(w.lane))
		resp, err := by.RoundTrip(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.Status + " " + resp.Header.Get("X-Lane-Error") + " " + strings.TrimSpace(string(body))
	}
	for _, by := range []*http.Transport{old, h2} {
		if got := ask(by, "/"); got != "200 OK  local" {
			t.Fatal(got)
		}
	}
	got := make(chan string)
	for _, by := range []*http.Transport{old, old, h2} {
		go func() { got <- ask(by, "/slow") }()
	}
	for range 3 {
		<-w.local.inside
	}
	line.cut()
	for range 3 {
		if s := <-got; !strings.HasPrefix(s, "502 Bad Gateway E_RELAY_LOST ") {
			t.Error(s)
		}
	}
	eventually(t, "three are counted", func() bool {
		r := r.status().Relay
		return r.State == control.RelayReconnecting && r.Cut == 3 && r.Removed.Sub(r.Since) == 30*time.Second
	})
	rows, _, err := r.ctl().Since(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for _, e := range rows {
		switch route := traffic.Route(&e); {
		case route == traffic.RouteLost && e.Code == "E_RELAY_LOST" && e.Status == 0 && traffic.PathOf(&e) == "/slow":
			lost++
		case route != traffic.RouteLane || e.Failed():
			t.Errorf("%s %s: %s", traffic.PathOf(&e), route, e.Err)
		}
	}
	if lost != 3 || len(rows) != 5 {
		t.Errorf("%d of %d are lost", lost, len(rows))
	}
	line.join()
	eventually(t, "back", func() bool {
		st := r.status()
		return st.Relay.State == control.RelayOK && st.Relay.Cut == 0 && st.Relay.Removed.IsZero() && slices.ContainsFunc(st.History, func(e control.Event) bool {
			return strings.HasPrefix(e.Text, "the relay is back after ") && strings.HasSuffix(e.Text, "; 3 requests were cut off")
		})
	})
	if err := r.stop(); err != nil && !strings.Contains(err.Error(), errEnd.Error()) {
		t.Error(err)
	}
}

// A relay's no to a claim says by which relay it is, and about what.
func TestARelaysNoIsAboutAClaim(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	by, _ := w.relayed()
	first, second := w.options("box"), w.options("other")
	first.Relay, second.Relay = by, by
	r := run(t, first)
	r.up()
	var no *session.RelayRefusedError
	if err := run(t, second).wait(); !errors.As(err, &no) || no.Code != http.StatusConflict || no.Name != "relay" || no.Lane != w.lane || no.Service != w.service("orders") || no.TakeOver {
		t.Errorf("%v, %+v", err, no)
	}
	if err := r.stop(); !errors.Is(err, errEnd) {
		t.Error(err)
	}
}
