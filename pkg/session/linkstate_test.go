package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// What a session says of its tunnel, by what happens to it.
func TestTheStatesOfATunnel(t *testing.T) {
	gone := errors.New("gone")
	up, down := tunnel.Event{What: tunnel.Connected}, tunnel.Event{What: tunnel.Disconnected, Err: gone}
	still := "slept 2 m 03 s: the tunnel is made anew"
	retry, drain, woke := tunnel.Event{What: tunnel.Retrying, Err: gone}, tunnel.Event{What: tunnel.Draining}, tunnel.Event{What: tunnel.Woke, Slept: 123 * time.Second}
	for _, c := range []struct {
		name   string
		events []tunnel.Event
		state  string
		news   string
	}{
		{"nothing yet", nil, control.RelayConnecting, ""},
		{"not reached", []tunnel.Event{retry, retry}, control.RelayConnecting, ""},
		{"up", []tunnel.Event{retry, up}, control.RelayOK, ""},
		{"down", []tunnel.Event{up, down, retry}, control.RelayReconnecting, "the relay is lost: gone"},
		{"back", []tunnel.Event{up, down, retry, up}, control.RelayOK, "the relay is lost: gone; the relay is back after 5 s"},
		{"it says so, and another one is there", []tunnel.Event{up, drain, up}, control.RelayOK, "the relay goes away: another link is made"},
		{"it says so, and there is no other", []tunnel.Event{up, drain, retry}, control.RelayReconnecting, "the relay goes away: another link is made; the relay is lost: gone"},
		{"after a sleep", []tunnel.Event{up, woke}, control.RelayReconnecting, still},
		{"after a sleep, back", []tunnel.Event{up, woke, up}, control.RelayOK, still + "; the relay is back after 2 s"},
		{"asleep twice", []tunnel.Event{up, woke, woke}, control.RelayReconnecting, still},
	} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		l := &link{o: &Relay{}, s: &session{o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}}, first: make(chan struct{}), state: control.RelayConnecting}
		var news []string
		for i, e := range c.events {
			now = now.Add(time.Duration(i) * time.Second)
			for _, what := range l.take(e, now) {
				news = append(news, what.text)
				if lost := strings.HasPrefix(what.text, "the relay is lost"); what.warn != lost {
					t.Errorf("%s: %q warns: %v", c.name, what.text, what.warn)
				}
			}
		}
		if got := strings.Join(news, "; "); l.state != c.state || got != c.news {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, l.state, got, c.state, c.news)
		}
		if now = now.Add(time.Minute); c.state == control.RelayReconnecting && l.word() != control.RelayLost {
			t.Errorf("%s: after a minute %s", c.name, l.word())
		}
	}
}

// While a tunnel is lost a session says until when the registry shows its instances: as
// long as the relay keeps them, and, if that has died, as long as Consul does.
func TestWhenALostTunnelIsForgotten(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	agent, err := tunnel.NewAgent(tunnel.AgentConfig{URL: "wss://relay.test.example", Install: "i", Handle: func(context.Context, tunnel.Claim, tunnel.Header, tunnel.Stream) {}})
	if err != nil {
		t.Fatal(err)
	}
	l := &link{o: &Relay{}, agent: agent, s: &session{o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}}, first: make(chan struct{}), state: control.RelayConnecting}
	for i, what := range []tunnel.EventKind{"", tunnel.Connected} {
		if l.take(tunnel.Event{What: what}, now); !l.status().Removed.IsZero() || !l.status().Gone.IsZero() {
			t.Errorf("%d: %+v", i, l.status())
		}
	}
	l.take(tunnel.Event{What: tunnel.Disconnected, Err: errors.New("gone")}, now)
	if st := l.status(); !st.Removed.Equal(now.Add(30*time.Second)) || !st.Gone.Equal(now.Add(105*time.Second)) || st.Cut != 0 {
		t.Errorf("%+v", st)
	}
}

// A request is counted as cut off if it was being served to a stream that ended with the
// tunnel.
func TestWhatALostTunnelCutsOff(t *testing.T) {
	lost := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) time.Time { return lost.Add(d) }
	row := func(from, err string, front traffic.Front, start time.Time, took time.Duration) traffic.Exchange {
		return traffic.Exchange{From: from, Err: err, Front: front, Start: start, Took: took}
	}
	const left = "the caller went away before the answer"
	log := traffic.NewLog(16)
	for _, e := range []traffic.Exchange{
		row("a", left, traffic.FrontGuard, at(-time.Minute), time.Minute),
		row("a", left, traffic.FrontGuard, at(-time.Second), time.Second+time.Millisecond), // another one of its, as HTTP/2 has them
		row("a", "", traffic.FrontGuard, at(-time.Second), time.Second),                    // its answer had been given
		row("a", left, traffic.FrontGuard, at(-time.Minute), time.Second),                  // it had left long before
		row("a", left, traffic.FrontForward, at(-time.Second), time.Second),                // another door's
		row("a", left, traffic.FrontGuard, at(time.Second), time.Second),                   // of a later caller at the same port
		row("b", left, traffic.FrontGuard, at(-time.Second), time.Second),                  // not by the tunnel
		row("c", left, traffic.FrontGuard, at(-time.Hour), time.Second),                    // cut by an earlier loss
	} {
		log.Put(e)
	}
	l := &link{s: &session{log: log}, since: lost}
	if n := l.cut(); n != 0 {
		t.Errorf("without a stream that was cut: %d", n)
	}
	l.cuts = map[string]time.Time{"a": lost, "c": at(-time.Hour).Add(time.Second)}
	if n := l.cut(); n != 2 {
		t.Errorf("%d were cut off, want 2", n)
	}
}

// What the relay says of a lost claim is told without the number of its refusal.
func TestALostClaimIsToldInWords(t *testing.T) {
	for want, why := range map[string]error{
		"bob on den has taken it over": &tunnel.Refusal{Code: 409, Text: "claim lost: bob on den has taken it over"},
		"gone":                         errors.New("claim lost: gone"),
	} {
		f := &far{v: &service{}, lost: make(chan struct{})}
		f.lose(why)
		var lost *consul.ClaimLostError
		if err := f.Run(t.Context()); !errors.As(err, &lost) || lost.Text != want || f.v.lost != want {
			t.Errorf("%v: %v, %q", why, err, f.v.lost)
		}
	}
}
