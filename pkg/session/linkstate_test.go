package session

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/tunnel"
)

// What a session says of its tunnel, by what happens to it.
func TestTheStatesOfATunnel(t *testing.T) {
	gone := errors.New("gone")
	up, down := tunnel.Event{What: tunnel.Connected}, tunnel.Event{What: tunnel.Disconnected, Err: gone}
	retry, drain, woke := tunnel.Event{What: tunnel.Retrying, Err: gone}, tunnel.Event{What: tunnel.Draining}, tunnel.Event{What: tunnel.Woke}
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
		{"after a sleep", []tunnel.Event{up, woke}, control.RelayReconnecting, ""},
		{"after a sleep, back", []tunnel.Event{up, woke, up}, control.RelayOK, "the relay is back after 2 s"},
	} {
		now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		l := &link{s: &session{o: Options{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}}, first: make(chan struct{}), state: control.RelayConnecting}
		var news []string
		for i, e := range c.events {
			now = now.Add(time.Duration(i) * time.Second)
			news = append(news, l.take(e, now)...)
		}
		if got := strings.Join(news, "; "); l.state != c.state || got != c.news {
			t.Errorf("%s: %s, %q; want %s, %q", c.name, l.state, got, c.state, c.news)
		}
		if now = now.Add(time.Minute); c.state == control.RelayReconnecting && l.word() != control.RelayLost {
			t.Errorf("%s: after a minute %s", c.name, l.word())
		}
	}
}
