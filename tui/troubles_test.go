package tui

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/tui/internal/scene"
)

// Where there is no room for all, the details of one problem give way to another one: the
// closed port is what the user can mend.
func TestAnotherProblemStandsBeforeTheDetailsOfOne(t *testing.T) {
	away := func(closed bool) func(*control.Status) {
		return func(s *control.Status) {
			s.Registry.State, s.Registry.Critical, s.Registry.Removed = registryUnreachable, scene.Now().Add(9*time.Second), scene.Now().Add(90*time.Second)
			s.Services[0].State = control.StateUnproved
			if closed {
				s.Services[1].State = control.StateLocalClosed
				s.Warnings = []string{"orders: no baseline is registered"}
			}
		}
	}
	newUser(t, 80, 24).running(away(false)).wantScreen("Others may see orders, payments critical in <= 9s, gone in <= 90s", "No proof meanwhile that callers reach orders")
	newUser(t, 80, 24).running(away(true)).wantScreen("does not answer; routing by", "!! payments: nothing listens on 127.0.0.1:8081", "orders: no baseline", "not:Others may see", "not:more problem").
		keys("l").wantScreen("Others may see", "No proof meanwhile", "nothing listens", "orders: no baseline")
}

// A screen without room for problems above the list says the worst of them below it.
func TestASmallScreenSaysWhatIsWrong(t *testing.T) {
	closed := func(s *control.Status) {
		s.Services[1].State = control.StateLocalClosed
		s.Warnings = []string{"be careful", "again"}
	}
	newUser(t, 40, 10).running().wantScreen("enlarge to 60x15", "not:!!")
	newUser(t, 40, 10, proposing).running().wantScreen("enlarge to 60x15", "not:shop http")
	u := newUser(t, 40, 10).running(closed).wantFlat("!! payments: nothing listens on 127.0.0.1:8081; its lane callers get errors (+2)", "not:enlarge")
	u.keys("space").wantFlat("!! payments: nothing listens on", "PAUSED +0 new").keys("space")
	u.send(statusMsg{at: scene.Now(), err: errors.New("connection refused")}).wantFlat("GONE", "!! The session does not answer: connection refused")
	for _, l := range strings.Split(u.screen(), "\n") {
		if wide(l) > 40 {
			t.Errorf("too wide: %q", l)
		}
	}
}

// What is wrong with a filter stands under where that begins, or, where there is no room,
// with the part that it is about.
func TestAFaultStandsUnderItsPart(t *testing.T) {
	for _, c := range []struct {
		typed string
		w     int
		want  []string
	}{
		{"/svc:orders st:abc", 80, []string{" /svc:orders st:abc", `             ^ "abc" is no status`}},
		{"/st:", 80, []string{" /st:", "  ^ a value is missing"}},
		{"/path:/a/very/long/path/that/takes/room/of/mine st:abc", 80, []string{" st:abc", ` "abc" is no status; try st:5xx ^`}},
		{"/path:/" + strings.Repeat("a", 90) + " st:abc", 80, []string{`~`, ` ! "st:abc": "abc" is no status`}},
		{"/svc:orders st:abc", 60, []string{" /svc:orders st:abc", `             ^ "abc" is no status`}},
	} {
		u := newUser(t, c.w, 24).running().keys(c.typed)
		lines := strings.Split(strings.TrimRight(u.screen(), "\n"), "\n")
		input, fault := lines[len(lines)-2], lines[len(lines)-1]
		if !strings.Contains(input, c.want[0]) || !strings.Contains(fault, c.want[1]) {
			t.Errorf("%q at %d:\n%s\n%s", c.typed, c.w, input, fault)
			continue
		}
		if at := strings.Index(fault, "^"); at >= 0 && input[at:at+3] != "st:" {
			t.Errorf("%q: the mark is under %q", c.typed, input[at:])
		}
		u.keys("esc").wantScreen("not:^ ")
	}
}

// The keys below say what ends what is unusual about the list, and no more where nothing is.
func TestTheKeysSayWhatEndsIt(t *testing.T) {
	u := newUser(t, 80, 24, doing(&doer{})).running().wantScreen("enter detail", "not:esc end filter", "not:space resume", "not:p copy")
	u.keys("space").wantScreen("space resume  enter detail", "| PAUSED (view only) |", "consul OK", "not:space pause").keys("space")
	u.keys("/svc:orders", "enter").wantScreen("esc end filter").keys("esc").wantScreen("not:esc end filter")
	relayed := func(s *control.Status) { s.Relay = &control.RelayStatus{State: control.RelayOK, RoundTrip: .038} }
	newUser(t, 80, 24).running(relayed).keys("space").wantScreen("| PAUSED | relay OK 38ms | consul OK")
	newUser(t, 140, 40).running().keys("space").wantScreen("PAUSED (view only)", "space resume")
	empty := newUser(t, 80, 24, doing(&doer{})).status(unused).wantScreen("p copy proxy", "d doctor", "S services", "not:enter detail")
	empty.status(unused, func(s *control.Status) { s.Proxy = "" }).wantScreen("not:p copy proxy")
}

// The log says that nothing has happened only where nothing has.
func TestTheLogOfNothing(t *testing.T) {
	const none, more = "Nothing has happened to this session", "Nothing else has happened to this session"
	quiet := func(s *control.Status) { s.History, s.Warnings = nil, nil }
	closed := func(s *control.Status) { s.Services[0].State = control.StateLocalClosed }
	newUser(t, 80, 24).status(quiet).keys("l").wantScreen(none, "not:"+more)
	u := newUser(t, 80, 24).status(quiet, closed).keys("l").wantScreen("!! orders: nothing listens", more, "not:"+none+" ")
	u.send(statusMsg{at: scene.Now(), err: errors.New("connection refused")}).wantScreen("!! The session does not answer: connection refused", "not:nothing listens")
	newUser(t, 80, 24).running(eventful).keys("l").wantScreen("the registry does not answer", "not:Nothing")
}

// The services below the list: the way to each, what it is called and calls.
func TestTheServicesBelowTheList(t *testing.T) {
	u := newUser(t, 140, 40).running().wantScreen("EXPOSED VIA", "IN/s   OUT/s", "FALLBACKS (", "direct 10.2.0.77:40117", "direct as lane-dev-alice-payments")
	u.running(func(s *control.Status) {
		s.Relay = &control.RelayStatus{URL: "wss://relay.test", State: control.RelayOK}
	}).wantScreen("relay relay.test", "relay relay.test as lane-dev-alice-", "not:direct")
	u.running(func(s *control.Status) {
		s.Relay = &control.RelayStatus{URL: "wss://relay.test", Name: "relay-1:7443", State: control.RelayOK}
		s.Services[0].State = control.StateLocalClosed
	}).wantScreen("relay relay-1 ", "its lane callers get errors")
}

// Beside the list the overview has the calls of the same trace; where there is one alone, and
// in the open exchange, whose hops are a key away, it has not.
func TestTheOverviewHasTheHops(t *testing.T) {
	rows := scene.Exchanges()
	rows[0].TraceID, rows[1].TraceID, rows[2].TraceID = "abc", "abc", "other"
	rows = rows[:3]
	u := newUser(t, 140, 40).status().send(batchMsg{at: scene.Now(), rows: rows}).keys("k").wantScreen("| Hops", "-> "+rows[1].Service)
	u.keys("enter").wantScreen("not: Hops").keys("esc", "j").wantScreen("not:| Hops")
}
