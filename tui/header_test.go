package tui

import (
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/tui/internal/scene"
)

// How much the header says depends on its width: what is worth least gives way first, and
// what the session is never does.
func TestTheHeaderGivesWay(t *testing.T) {
	everything := func(s *control.Status) {
		s.Env = "dev-3"
		s.Relay = &control.RelayStatus{Name: "relay-1:7443", State: control.RelayOK, Since: scene.Now().Add(-26*time.Hour - 2*time.Minute - 3*time.Second), RoundTrip: .0384}
	}
	all := []string{"alice@desk-7", "2 services", "2 fallbacks", " idx 88213", " up 26:02:03", "proxy 127.0.0.1:7474", "err 2.1%", "relay relay-1 OK 38ms"}
	u := newUser(t, 300, 40).status(everything).rows(scene.Hour()...)
	header := func() string { line, _, _ := strings.Cut(u.screen(), "\n"); return line }
	gone := 0
	for w := 300; w >= wideWidth; w-- {
		u.m.width = w
		h := header()
		if !strings.Contains(h, " lane dev-alice | env dev-3 |") || !strings.Contains(h, "consul OK") || !strings.Contains(h, "7.0 rows/s") {
			t.Fatalf("%d columns: %s", w, h)
		}
		for i, part := range all {
			if shown := strings.Contains(h, part); i < gone && shown {
				t.Errorf("%d columns: %q is back, and %q is not: %s", w, part, all[gone-1], h)
			} else if !shown && i >= gone {
				gone = i + 1
			}
		}
	}
	if gone != 6 {
		t.Errorf("at %d columns %d of %d have given way: %s", u.m.width, gone, len(all), header())
	}
	u.m.width = 80
	if h := header(); !strings.Contains(h, "| relay OK 38ms | consul OK ") || strings.Contains(h, "idx") || strings.Contains(h, " up ") {
		t.Errorf("80 columns: %s", h)
	}
	// A tunnel that is lost has not stood for any time, and a registry that is away has told no
	// index that counts.
	newUser(t, 200, 40).running(everything, troubled, func(s *control.Status) { s.Relay.State = control.RelayReconnecting }).
		wantScreen("relay relay-1 RECONNECTING", "not: up 26", "not: idx ")
}

// While a tunnel stands its time runs; without one nothing does.
func TestTheClockOfATunnelRuns(t *testing.T) {
	for _, relayed := range []bool{true, false} {
		s := scene.Status()
		if relayed {
			s.Relay = &control.RelayStatus{Name: "relay", State: control.RelayOK, Since: scene.Now()}
		}
		if got := ages(&s); got != relayed {
			t.Errorf("with a tunnel %v: the clock runs %v", relayed, got)
		}
	}
}
