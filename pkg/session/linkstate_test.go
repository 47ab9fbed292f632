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
	"lane/pkg/lane"
	"lane/pkg/proxy"
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
		l := &link{o: &Relay{}, s: &session{log: traffic.NewLog(1), o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}}, first: make(chan struct{}), state: control.RelayConnecting}
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
	l := &link{o: &Relay{}, agent: agent, s: &session{log: traffic.NewLog(1), o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}}, first: make(chan struct{}), state: control.RelayConnecting}
	for i, what := range []tunnel.EventKind{"", tunnel.Connected} {
		if l.take(tunnel.Event{What: what}, now); !l.status().Removed.IsZero() || !l.status().Gone.IsZero() {
			t.Errorf("%d: %+v", i, l.status())
		}
	}
	l.take(tunnel.Event{What: tunnel.Disconnected, Err: errors.New("gone")}, now)
	if st := l.status(); !st.Removed.Equal(now.Add(30*time.Second)) || !st.Gone.Equal(now.Add(105*time.Second)) || st.Cut != 0 {
		t.Errorf("%+v", st)
	}
	// One that says that it ends removes them at once, and nothing is left to wait for; the
	// next one says no such thing.
	l.take(tunnel.Event{What: tunnel.Connected}, now)
	for _, what := range []tunnel.EventKind{tunnel.Draining, tunnel.Retrying} {
		l.take(tunnel.Event{What: what, Err: errors.New("gone")}, now)
	}
	if st := l.status(); st.State != control.RelayReconnecting || !st.Removed.IsZero() || !st.Gone.IsZero() {
		t.Errorf("%+v", st)
	}
	l.take(tunnel.Event{What: tunnel.Connected}, now)
	l.take(tunnel.Event{What: tunnel.Disconnected, Err: errors.New("gone")}, now)
	if st := l.status(); st.Removed.IsZero() || st.Gone.IsZero() {
		t.Errorf("%+v", st)
	}
}

// A request is counted as cut off if the guard has recorded it so since the tunnel was lost.
func TestWhatALostTunnelCutsOff(t *testing.T) {
	lost := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(d time.Duration) time.Time { return lost.Add(d) }
	row := func(code lane.Code, front traffic.Front, start time.Time, took time.Duration) traffic.Exchange {
		return traffic.Exchange{Code: code, Front: front, Start: start, Took: took}
	}
	log := traffic.NewLog(16)
	for _, e := range []traffic.Exchange{
		row(proxy.CodeRelayLost, traffic.FrontGuard, at(-time.Minute), time.Minute),
		row(proxy.CodeRelayLost, traffic.FrontGuard, at(-time.Second), time.Second-time.Millisecond), // the streams end first
		row("", traffic.FrontGuard, at(-time.Second), time.Second),                                   // its answer had been given
		row(proxy.CodeRelayLost, traffic.FrontGuard, at(-time.Minute), time.Second),                  // cut by an earlier loss
		row(proxy.CodeRelayLost, traffic.FrontForward, at(-time.Second), time.Second),                // a call through the relay
		row(lane.CodeUpstreamConnect, traffic.FrontGuard, at(-time.Second), time.Second),
	} {
		log.Put(e)
	}
	l := &link{s: &session{log: log}, since: lost}
	if n := l.cut(); n != 2 {
		t.Errorf("%d were cut off, want 2", n)
	}
	if l.begun = lost.Add(-time.Millisecond / 2); l.cut() != 1 { // the link that is lost is as new
		t.Errorf("%d were cut off by the second loss, want 1", l.cut())
	}
}

// Whom the tunnel has cut off, and whom not: who comes later from the same port is
// another one.
func TestWhoWasCutOff(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var c cuts
	if c.has("a", now) {
		t.Error("nobody was")
	}
	c.add("a", now)
	for began, want := range map[time.Time]bool{now.Add(-time.Hour): true, now: true, now.Add(lateHead): true, now.Add(lateHead + 1): false} {
		if c.has("a", began) != want || c.has("b", began) {
			t.Errorf("%v: %v, b %v", began, c.has("a", began), c.has("b", began))
		}
	}
	c.fresh("a")
	c.fresh("b")
	if c.has("a", now) {
		t.Error("a new caller has the port")
	}
	c.add("a", now)
	c.add("b", now.Add(cutsKept+time.Second))
	if c.has("a", now) || !c.has("b", now) {
		t.Error("what was long ago is forgotten, and nothing else")
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
