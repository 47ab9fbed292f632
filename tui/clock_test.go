package tui

import (
	"io/fs"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// watch is a clock that a test moves.
type watch struct{ at time.Time }

func (w *watch) set(o *Options)               { o.Now = func() time.Time { return w.at } }
func (w *watch) later(d time.Duration) *watch { w.at = w.at.Add(d); return w }

// calls are n calls in the lane, one each second, the last one now.
func calls(n int) []traffic.Exchange {
	out := make([]traffic.Exchange, n)
	for i := range out {
		out[i] = traffic.Exchange{Seq: uint64(i) + 1, Start: scene.Now().Add(time.Duration(i+1-n) * time.Second), Took: time.Millisecond,
			Front: traffic.FrontGuard, From: "10.2.0.9:51022", Method: "GET", URL: "http://orders/", Service: "orders",
			Lane: "dev-alice", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Guard: traffic.GuardPassed, Status: 200}
	}
	return out
}

// A key shows the time of now, though the session has said nothing for long.
func TestKeyBringsTheTime(t *testing.T) {
	w := &watch{at: scene.Now()}
	u := newUser(t, 100, 30, w.set).status().rows(calls(11)...).keys("g").wantScreen("in the last 10s", "1.1 ")
	w.later(24 * time.Second)
	u.keys("j").wantScreen("in the last 34s", "0.3 ", " 0 rows/s")
	u.keys("esc", "S").wantScreen("0.3 requests/s in the lane", "in the last 34s")
	w.later(5 * time.Minute)
	u.keys("esc", "S").wantScreen("none in the lane in the last 5 minutes").keys("esc", "g").wantScreen("Nobody has called anybody")
	// A clock that goes back makes nothing younger.
	at := u.m.now
	w.later(-time.Hour)
	if u.keys("j"); !u.m.now.Equal(at) {
		t.Errorf("%v became %v", at, u.m.now)
	}
}

// What is paused keeps its time: nothing of what has happened since is in it.
func TestPausedFiguresStay(t *testing.T) {
	w := &watch{at: scene.Now()}
	u := newUser(t, 140, 40, w.set).status().rows(calls(11)...).keys("space", "g").wantScreen("in the last 10s")
	w.later(24 * time.Second)
	u.keys("j").wantScreen("in the last 10s")
	if d := u.m.ages(); d != 0 {
		t.Errorf("what stays is drawn anew after %v", d)
	}
	u.keys("space", "g", "G", "g").wantScreen("in the last 34s")
}

// A tick is asked for only where something that is on the screen gets old, and as
// often as that changes.
func TestAges(t *testing.T) {
	quiet := func(u *user) {}
	for name, c := range map[string]struct {
		w, h int
		rows int
		do   func(*user)
		want time.Duration
	}{
		"list":                   {80, 24, 11, quiet, 0},
		"list with figures":      {140, 40, 11, quiet, time.Second},
		"none called":            {140, 40, 0, quiet, 0},
		"help below figures":     {140, 40, 11, func(u *user) { u.keys("?") }, time.Second},
		"help":                   {80, 24, 11, func(u *user) { u.keys("?") }, 0},
		"graph":                  {80, 24, 11, func(u *user) { u.keys("g") }, time.Second},
		"graph of a long time":   {80, 24, 241, func(u *user) { u.keys("g") }, 8 * time.Second},
		"graph of all the time":  {80, 24, 400, func(u *user) { u.keys("g") }, 10 * time.Second},
		"graph of nothing":       {80, 24, 0, func(u *user) { u.keys("g") }, 0},
		"services":               {80, 24, 11, func(u *user) { u.keys("S") }, time.Second},
		"services of nothing":    {80, 24, 0, func(u *user) { u.keys("S") }, 10 * time.Second},
		"services, just started": {80, 24, 0, func(u *user) { u.status(func(s *control.Status) { s.Started = scene.Now() }).keys("S") }, time.Second},
		"fallbacks":              {80, 24, 11, func(u *user) { u.keys("b") }, 0},
	} {
		u := newUser(t, c.w, c.h).status().rows(calls(c.rows)...)
		c.do(u)
		if got := u.m.ages(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if d := newUser(t, 140, 40).m.ages(); d != 0 {
		t.Errorf("without a session: %v", d)
	}
}

// One tick is under way at a time, unless a sooner one is needed; the last one is
// followed by none when nothing gets old any more.
func TestTicks(t *testing.T) {
	w := &watch{at: scene.Now()}
	u := newUser(t, 80, 24, w.set).status().rows(calls(241)...)
	var asked []time.Duration
	u.m.wait = func(d time.Duration, msg tea.Msg) tea.Cmd {
		asked = append(asked, d)
		return func() tea.Msg { return msg }
	}
	send := func(msg tea.Msg) (next []tea.Msg) {
		m, cmd := u.m.Update(msg)
		if u.m = m.(model); cmd != nil {
			next = append(next, cmd())
		}
		return next
	}
	key := func(r rune) tea.Msg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}} }
	first := send(key('g'))
	if len(first) != 1 || len(send(key('j'))) != 0 {
		t.Fatalf("asked for %v", asked)
	}
	w.later(8 * time.Second)
	second := send(first[0])
	u.wantScreen("in the last 4m")
	if len(second) != 1 {
		t.Fatalf("nothing follows the first tick: %v", asked)
	}
	// A session that has just begun shows its age by the second.
	s := scene.Status()
	s.Started = w.at
	send(statusMsg{at: w.at, status: s})
	sooner := send(key('S'))
	if len(sooner) != 1 || len(send(second[0])) != 0 {
		t.Fatalf("asked for %v", asked)
	}
	send(key('S'))
	w.later(time.Second)
	if len(send(sooner[0])) != 0 {
		t.Error("the list of 80 columns shows nothing that gets old")
	}
	if len(asked) != 3 || asked[0] != 8*time.Second || asked[2] != time.Second {
		t.Errorf("asked for %v", asked)
	}
}

// Two files of one second have two names.
func TestExportTwice(t *testing.T) {
	d := &full{}
	u := newUser(t, 80, 24, func(o *Options) { o.Deeds = d }).running()
	u.deeds("e").wantScreen("140215.har: 7 exchanges").deeds("e").wantScreen("140215-2.har: 7 exchanges")
	for range 9 {
		u.deeds("e")
	}
	u.wantScreen("not written: file already exists")
	if len(d.saved) != 9 {
		t.Errorf("%d files", len(d.saved))
	}
}

// full writes over nothing.
type full struct{ doer }

func (d *full) Save(name string, content []byte) (string, error) {
	if _, is := d.saved[name]; is || strings.Contains(name, "/") {
		return "", fs.ErrExist
	}
	return d.doer.Save(name, content)
}
