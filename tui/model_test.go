package tui

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// seq is the number of the selected exchange, 0 for none.
func (u *user) seq() uint64 {
	if e := u.m.list.selected(); e != nil {
		return e.Seq
	}
	return 0
}

func (u *user) wantSeq(want uint64) *user {
	u.t.Helper()
	if got := u.seq(); got != want {
		u.t.Errorf("selected %d, want %d", got, want)
	}
	return u
}

func (u *user) wantScreen(parts ...string) *user {
	u.t.Helper()
	s := u.screen()
	for _, p := range parts {
		if not, no := strings.CutPrefix(p, "not:"); no {
			if strings.Contains(s, not) {
				u.t.Errorf("the screen shows %q:\n%s", not, s)
			}
		} else if !strings.Contains(s, p) {
			u.t.Errorf("the screen lacks %q:\n%s", p, s)
		}
	}
	return u
}

func TestMoving(t *testing.T) {
	u := newUser(t, 80, 24).status().rows(scene.Stream(1, 100)...)
	u.wantSeq(100).wantScreen("FOLLOW")
	u.rows(scene.Stream(101, 1)...).wantSeq(101)

	// Up ends following; what comes then does not move the cursor.
	u.keys("k").wantSeq(100).wantScreen("row 100 of 101", "not:FOLLOW")
	u.rows(scene.Stream(102, 10)...).wantSeq(100)
	u.keys("j", "down", "up").wantSeq(101)
	u.keys("<").wantSeq(1).keys("up").wantSeq(1)
	u.keys("ctrl+f").wantSeq(14).keys("pgdown").wantSeq(27).keys("ctrl+b").wantSeq(14).keys("pgup").wantSeq(1)
	u.keys("end").wantSeq(111).wantScreen("FOLLOW").keys("home").wantSeq(1).keys("G").wantSeq(111).wantScreen("FOLLOW")

	// Down to the last row does not follow; f does, and f again does not.
	u.keys("k", "j").wantSeq(111).rows(scene.Stream(112, 1)...).wantSeq(111)
	u.keys("f").wantSeq(112).keys("f").rows(scene.Stream(113, 1)...).wantSeq(112).wantScreen("not:FOLLOW")
}

func TestNextProblem(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("<").wantSeq(1)
	u.keys("n").wantSeq(4).keys("n").wantSeq(7).keys("n").wantSeq(7).keys("N").wantSeq(4).keys("N").wantSeq(4)
	// In the detail too, and there the detail follows.
	u.keys("enter").wantScreen("inventory", "no instance of inventory").keys("n").wantScreen("no instance of users").wantSeq(7)
	u.keys("esc").wantScreen("row 7 of 7")
}

// TestNoProblemIsSaid: a key that finds nothing says so, until the next key.
func TestNoProblemIsSaid(t *testing.T) {
	u := newUser(t, 80, 24).running()
	u.keys("n").wantSeq(7).wantScreen("no later error or fallback; N goes the other way")
	u.rows(scene.Stream(8, 1)...).wantScreen("no later error") // a row is no key
	u.keys("k").wantScreen("not:no later", "exchanges")
	u.keys("<", "N").wantScreen("no earlier error or fallback; n goes the other way")
	u.keys("n").wantSeq(4).wantScreen("not:no earlier")
	u.keys("/svc:orders", "enter", "n").wantScreen("no later error or fallback that the filter shows", "not:other way")
	u.keys("esc").wantScreen("not:no later")
	// In the detail too.
	u.keys("G", "N", "enter", "n").wantScreen("no later error or fallback", "GET http://users/v1/users/7")
	u.keys("j").wantScreen("not:no later")
}

// TestTextsGoBack: help and services lie over the list or the detail.
func TestTextsGoBack(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("k", "k", "enter").wantScreen("CONNECT api.partner.test:443", "exchange 5")
	u.keys("S").wantScreen("orders: up", "10.2.0.77:40117").keys("?").wantScreen("KEYS").keys("S").wantScreen("orders: up")
	u.keys("esc").wantScreen("exchange 5").keys("?", "?").wantScreen("exchange 5").keys("S", "S").wantScreen("exchange 5")
	u.keys("esc").wantScreen("row 5 of 7").keys("S", "enter").wantScreen("row 5 of 7")
	u.status(troubled).keys("S", "j").wantScreen("not:orders: NOT").keys("esc", "S").wantScreen("orders: NOT") // from its top
	newUser(t, 80, 24).keys("S").wantScreen("has not answered yet")
}

// TestNamesOnlyGrow: the column of names never jumps back.
func TestNamesOnlyGrow(t *testing.T) {
	path := func(u *user) int {
		for l := range strings.Lines(u.screen()) {
			if at := strings.Index(l, " PATH"); at > 0 {
				return at
			}
		}
		t.Fatal("no titles")
		return 0
	}
	u := newUser(t, 80, 24).status().rows(scene.Exchanges()[0])
	narrow := path(u)
	long := scene.Exchanges()[0]
	long.Service = "order-service"
	u.keys("space").rows(long)
	if path(u) != narrow {
		t.Error("a row that waits moved the columns")
	}
	u.keys("space")
	if got := path(u); got != narrow+3 {
		t.Errorf("PATH at %d, was at %d", got, narrow)
	}
	for range 2 * ringSize { // the long name leaves the ring
		u.rows(scene.Exchanges()[0])
	}
	u.keys("/svc:orders", "enter")
	if got := path(u); got != narrow+3 {
		t.Errorf("PATH went back to %d", got)
	}
	u.keys("esc").send(restartMsg{}).rows(scene.Exchanges()[0])
	if got := path(u); got != narrow {
		t.Errorf("another session keeps PATH at %d", got)
	}
}

// TestTotalsStay: whatever the header has to say, the session's fallbacks and
// errors are in it.
func TestTotalsStay(t *testing.T) {
	u := newUser(t, 80, 24).running(troubled)
	u.keys("/svc:orders", "enter").wantScreen("1,206 fb  20 ERR", "consul DOWN 12s")
	u.keys("space").wantScreen("1,206 fb  20 ERR", "PAUSED")
	u.status(troubled, func(s *control.Status) { s.Lane = lane.Name(strings.Repeat("lane-", 8)) }).wantScreen("1,206 fb  20 ERR")
	newUser(t, 140, 40).running(troubled).wantScreen("1,206 fallbacks  20 lane errors")
	newUser(t, 50, 10).running(troubled).wantScreen("1,206 fb 20 ERR")
	newUser(t, 80, 24).running().wantScreen("2 fallbacks", "not:lane error")
	newUser(t, 80, 24).wantScreen("not:fallback")
}

func TestPause(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("space").wantScreen("PAUSED")
	u.rows(scene.Stream(8, 30)...).wantSeq(7).wantScreen("+30 new while paused", "7 exchanges")
	u.keys("space").wantSeq(37).wantScreen("not:PAUSED", "37 exchanges", "FOLLOW")
	// G ends a pause, more than the ring holds included.
	u.keys("k", "space").rows(scene.Stream(38, 4000)...).rows(scene.Stream(4038, 4000)...)
	u.wantScreen("+8,000 new", "37 exchanges").keys("G").wantSeq(8037).wantScreen("newest 5,000 exchanges")
	if len(u.m.list.waiting) != 0 {
		t.Error("rows still wait")
	}
}

func TestRingIsBounded(t *testing.T) {
	u := newUser(t, 80, 24).status()
	for i := range uint64(30) {
		u.rows(scene.Stream(1+i*1000, 1000)...)
	}
	u.wantSeq(30_000)
	if n := len(u.m.list.shown); n != ringSize || len(u.m.list.ring) != ringSize {
		t.Errorf("%d shown, %d kept", n, len(u.m.list.ring))
	}
	u.keys("<").wantSeq(25_001)
	// The selected row leaves: the cursor stands on the oldest.
	u.rows(scene.Stream(30_001, 100)...).wantSeq(25_101)
	// A detail outlives its row.
	u.keys("enter").rows(scene.Stream(30_101, 100)...).wantScreen("exchange 25,101").keys("esc").wantSeq(25_201)
}

func TestFilterLive(t *testing.T) {
	u := newUser(t, 80, 24).running()
	u.keys("/svc:ord").wantScreen("3 of 7 shown", " /svc:ord")
	u.keys("esc").wantScreen("7 exchanges").wantSeq(7)
	u.keys("/svc:orders", "enter").wantScreen("/svc:orders   3 of 7 shown").wantSeq(6)
	// New rows pass it too.
	u.rows(scene.Stream(8, 7)...).wantScreen("6 of 14 shown").wantSeq(14)
	// A wrong part is left out, says why, and cannot be kept.
	u.keys("/ st:9", "enter").wantScreen("6 of 14 shown", `"9" is no status`)
	u.keys("esc").wantScreen("/svc:orders   6 of 14 shown")
	// Typing is typing: no key of the list works.
	u.keys("/q?jG", "ctrl+u").wantScreen("14 of 14 shown")
	u.keys("st:503", "enter").wantSeq(10).keys("/", "up").wantScreen(" /svc:orders").keys("esc")
	u.wantScreen("/st:503").keys("esc").wantScreen("14 exchanges", "not: /st:").keys("esc").wantScreen("14 exchanges")
	// An empty one ends it.
	u.keys("/x", "enter", "/", "ctrl+u", "enter").wantScreen("14 exchanges")
}

func TestFilterKeepsTheRow(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("<", "j", "j").wantSeq(3)
	u.keys("/svc:orders", "enter").wantSeq(3).keys("esc").wantSeq(3)
	u.keys("/st:503", "enter").wantSeq(4)
}

func TestDetailStays(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("enter").wantScreen("GET http://users/v1/users/7", "exchange 7", "Bearer ***"[:0])
	u.rows(scene.Stream(8, 5)...).wantScreen("GET http://users/v1/users/7")
	u.keys("j").wantScreen("not:[1 overview]", "lines 2-20 of 23")
	u.keys("G").wantScreen("lines 5-23 of 23").keys("k").wantScreen("lines 4-22 of 23").keys("<").wantScreen("lines 1-19")
	u.keys("2").wantScreen("authorization: Bearer ***", "not:eyJ").keys("3").wantScreen("set-cookie: sid=***", "not:31d4")
	// The way back follows again, as before.
	u.keys("esc").wantSeq(12).wantScreen("FOLLOW")
	u.keys("k", "enter", "enter").wantSeq(11).wantScreen("not:FOLLOW")
	// Nothing selected, nothing opened.
	newUser(t, 80, 24).status().keys("enter").wantScreen("No traffic yet")
}

func TestQuit(t *testing.T) {
	for _, c := range []struct {
		name     string
		attached bool
		keys     []string
		want     leave
	}{
		{"attached", true, []string{"q"}, leaveQuit},
		{"owner asks", false, []string{"q"}, leaveNot},
		{"owner says yes", false, []string{"q", "y"}, leaveStop},
		{"owner says no", false, []string{"q", "n"}, leaveNot},
		{"owner says no, then yes", false, []string{"q", "esc", "q", "y"}, leaveStop},
		{"y alone", false, []string{"y"}, leaveNot},
		{"another key", false, []string{"q", "x"}, leaveNot},
		{"from the help", true, []string{"?", "q"}, leaveQuit},
		{"from the detail", true, []string{"enter", "q"}, leaveQuit},
		{"q in a filter", true, []string{"/q"}, leaveNot},
		{"ctrl+c", false, []string{"ctrl+c"}, leaveInterrupt},
		{"ctrl+c in a filter", false, []string{"/a", "ctrl+c"}, leaveInterrupt},
		{"ctrl+c at the question", false, []string{"q", "ctrl+c"}, leaveInterrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUser(t, 80, 24, func(o *Options) { o.Attached = c.attached }).running().keys(c.keys...)
			if u.m.leaving != c.want {
				t.Errorf("leaves as %d, want %d", u.m.leaving, c.want)
			}
			if _, cmd := u.m.Update(nil); (cmd != nil) != (c.want != leaveNot) {
				t.Errorf("the program ends: %v", cmd != nil)
			}
		})
	}
	u := newUser(t, 80, 24).running().send(statusMsg{at: scene.Now(), err: io.EOF}).keys("q")
	if newUser(t, 80, 24, demo).running().keys("q").m.leaving != leaveQuit {
		t.Error("a demo asks")
	}
	if u.m.leaving != leaveQuit {
		t.Error("there is nothing to stop when the session is gone")
	}
}

// TestFastTyping: a terminal may bring several keys in one message; what is
// pasted is no keys at all.
func TestFastTyping(t *testing.T) {
	typed := func(s string) tea.KeyMsg { return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(s)} }
	u := newUser(t, 80, 24).running().send(typed("kkN")).wantSeq(4)
	u.send(typed("G/svc:ord")).wantScreen(" /svc:ord", "3 of 7 shown").keys("esc").wantSeq(7)
	u.send(typed("qy"))
	if u.m.leaving != leaveStop {
		t.Error("qy did not stop")
	}
	pasted := typed("gqy")
	pasted.Paste = true
	u = newUser(t, 80, 24).running().send(pasted).wantSeq(7)
	if u.m.leaving != leaveNot || u.m.asking {
		t.Error("a pasted text was taken as keys")
	}
	u.keys("/").send(pasted).wantScreen(" /gqy")
}

func TestHelpHasAllKeys(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {140, 40}} {
		u := newUser(t, size[0], size[1], doing(&doer{})).running().keys("?")
		all := u.screen()
		for range 2 {
			u.keys("ctrl+f")
			all += u.screen()
		}
		for _, k := range Keys() {
			if !strings.Contains(all, fit(k.Keys, 12)+k.Means) && k.Keys != "q" && k.Keys != "ctrl+c" {
				t.Errorf("%v: the help lacks %s, %s", size, k.Keys, k.Means)
			}
		}
		for _, k := range traffic.FilterKeys() {
			if !strings.Contains(all, k.Key+":") {
				t.Errorf("%v: the help lacks %s", size, k.Key)
			}
		}
		u.keys("esc").wantScreen("FOLLOW")
	}
}

// TestKeysAreUnambiguous: one key does one thing in one place.
func TestKeysAreUnambiguous(t *testing.T) {
	for _, in := range []place{inList, inDetail, inServices, inHelp, inTry, inFallbacks, inGraph, inEvents, inAnswers} {
		seen := map[string]action{}
		for _, b := range append(bindings(), tryKey()) {
			if b.where&in == 0 {
				continue
			}
			for _, k := range b.Keys() {
				if was, ok := seen[k]; ok && was != b.act {
					t.Errorf("place %d: %q does both %d and %d", in, k, was, b.act)
				}
				seen[k] = b.act
			}
		}
	}
}

// Only who has something to propose has the key for it.
func TestWhatToTry(t *testing.T) {
	u := newUser(t, 80, 24, proposing).running()
	u.wantScreen("shop http://127.0.0.1:40001/").keys("t").wantScreen("export CONSUL_HTTP_ADDR", "what to try").keys("?", "G").wantScreen("what to try meanwhile")
	u.keys("t", "esc").wantScreen("not:export CONSUL_HTTP_ADDR", "ROUTE")
	newUser(t, 80, 24, demo).running().keys("t").wantScreen("not:what to try", "ROUTE").keys("?").wantScreen("not:what to try")
}

func TestGoneAndBack(t *testing.T) {
	down := statusMsg{at: scene.Now(), err: io.ErrUnexpectedEOF}
	u := newUser(t, 80, 24).running().send(down)
	down.at = down.at.Add(90 * time.Second)
	u.send(down).wantScreen("SESSION GONE 90s", "do not change", "not:consul OK")
	if v := u.m.View(); !strings.Contains(v, "\x1b[2m") {
		t.Error("history is not dimmed")
	}
	u.status().wantScreen("consul OK", "not:GONE", "not:history")
	// Another session: its numbers start again.
	u.send(restartMsg{}).wantScreen("No traffic yet").rows(scene.Exchanges()...).wantSeq(7)
}

func TestRegistryStates(t *testing.T) {
	for _, c := range []struct {
		state string
		ago   time.Duration
		want  string
	}{
		{"fresh", time.Hour, "consul OK "}, {"stale", 42 * time.Second, "consul STALE 42s"},
		{"unreachable", 3 * time.Minute, "consul DOWN 3m"}, {"", time.Second, "consul ?"},
	} {
		newUser(t, 80, 24).running(func(s *control.Status) {
			s.Registry.State, s.Registry.Since = c.state, scene.Now().Add(-c.ago)
		}).wantScreen(c.want)
	}
	newUser(t, 80, 24).running(func(s *control.Status) {
		s.Registry = control.RegistryStatus{State: "unreachable"}
	}).wantScreen("consul DOWN  ")
}

func TestRelayStates(t *testing.T) {
	at := func(ago time.Duration) time.Time { return scene.Now().Add(-ago) }
	for _, c := range []struct {
		relay *control.RelayStatus
		want  []string
	}{
		{nil, []string{"not:relay"}},
		{&control.RelayStatus{State: control.RelayOK, RoundTrip: 0.038}, []string{"relay OK 38ms", "not:!!"}},
		{&control.RelayStatus{State: control.RelayOK}, []string{"relay OK | consul OK"}},
		{&control.RelayStatus{State: control.RelayReconnecting, Since: at(4 * time.Second), Error: "EOF"}, []string{"relay RECONNECTING 4s", "!! relay RECONNECTING 4s: the lane's callers get errors"}},
		{&control.RelayStatus{State: control.RelayLost, Since: at(3 * time.Minute)}, []string{"relay LOST 3m", "!! relay LOST 3m"}},
	} {
		newUser(t, 160, 24).running(func(s *control.Status) { s.Relay = c.relay }).wantScreen(c.want...)
	}
}

func TestRate(t *testing.T) {
	u := newUser(t, 80, 24).status()
	now := scene.Now()
	rows := func(at time.Time, n int) batchMsg {
		out := scene.Stream(1, n)
		for i := range out {
			out[i].Start = at
		}
		return batchMsg{at: at, rows: out}
	}
	// History is no traffic of now.
	old := rows(now.Add(-time.Hour), 300)
	old.at = now
	u.send(old).wantScreen(" 0 rows/s")
	for i := range 10 {
		u.send(rows(now.Add(time.Duration(i)*time.Second), 12))
	}
	u.wantScreen(" 12 rows/s")
	u.send(statusMsg{at: now.Add(12 * time.Second), status: scene.Status()}).wantScreen(" 4.8 rows/s")
	u.send(statusMsg{at: now.Add(20 * time.Second), status: scene.Status()}).wantScreen(" 0 rows/s")
}

func TestLossBannerEnds(t *testing.T) {
	u := newUser(t, 80, 24).running()
	u.send(batchMsg{at: scene.Now(), rows: scene.Stream(20, 2), lost: 12}).wantScreen("12 rows came too fast", "12 not listed")
	u.send(statusMsg{at: scene.Now().Add(6 * time.Second), status: scene.Status()}).wantScreen("not:too fast", "12 not listed")
	u.send(batchMsg{at: scene.Now().Add(7 * time.Second), rows: scene.Stream(40, 2), lost: 1, more: 2, left: []traffic.Tally{{N: 30, Last: &scene.Exchanges()[0]}}}).wantScreen("33 rows came too fast", "45 not listed")
}

func TestResize(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("k", "k")
	for _, s := range [][2]int{{140, 40}, {60, 15}, {59, 15}, {60, 14}, {1, 1}, {3, 2}, {110, 15}, {300, 100}, {80, 24}} {
		u.send(tea.WindowSizeMsg{Width: s[0], Height: s[1]}).wantSeq(5)
		u.screen()
	}
	if v := newUser(t, 0, 0).m.View(); v != "" {
		t.Errorf("a screen without a size: %q", v)
	}
}

// TestViewIsPure: drawing changes nothing and says the same twice.
func TestViewIsPure(t *testing.T) {
	u := newUser(t, 80, 24).running().keys("k")
	if a, b := u.m.View(), u.m.View(); a != b {
		t.Error("two views of one model differ")
	}
	u.keys("enter")
	if a, b := u.m.View(), u.m.View(); a != b {
		t.Error("two details of one model differ")
	}
}

func TestPlainHasNoColour(t *testing.T) {
	for color, want := range map[bool]bool{false: false, true: true} {
		u := newUser(t, 140, 40, func(o *Options) { o.Color = color }).running()
		if got := hasColour(u.m.View()); got != want {
			t.Errorf("Color %v: colour on the screen is %v", color, got)
		}
		if !strings.Contains(u.m.View(), "\x1b[1;7m") {
			t.Errorf("Color %v: the selected row is not in reverse", color)
		}
	}
}

// TestResizeStorm: a terminal that is dragged sends a hundred sizes; whatever is
// open, each of them is drawn, and the last one as if it had been the first.
func TestResizeStorm(t *testing.T) {
	for _, keys := range []string{"", "?", "S", "b", "g", "l", "1", "2", "4", "5", "/st:5", "q"} {
		u := newUser(t, 80, 24).running().keys(keys)
		want := u.screen()
		for i := range 300 {
			u.send(tea.WindowSizeMsg{Width: 1 + i*37%211, Height: 1 + i*53%89})
			u.screen()
		}
		u.send(tea.WindowSizeMsg{Width: 80, Height: 24})
		if got := u.screen(); got != want {
			t.Errorf("after %q and a storm:\n%s\nwant\n%s", keys, got, want)
		}
	}
}

// counted is a model that counts its drawings.
type counted struct {
	model
	views *atomic.Int64
}

func (c counted) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	next, do := c.model.Update(msg)
	return counted{next.(model), c.views}, do
}

func (c counted) View() string { c.views.Add(1); return c.model.View() }

// TestOneDrawingForABatch: a program draws once for each message, so that a feed
// that sends fifteen a second costs fifteen drawings.
func TestOneDrawingForABatch(t *testing.T) {
	var views atomic.Int64
	in, out := io.Pipe()
	defer in.Close()
	p := tea.NewProgram(counted{newModel(Options{Now: scene.Now}), &views}, tea.WithInput(in), tea.WithOutput(io.Discard), tea.WithFPS(defaultFPS), tea.WithoutSignalHandler())
	const batches = 50
	go func() {
		defer out.Close()
		p.Send(tea.WindowSizeMsg{Width: 80, Height: 24})
		p.Send(statusMsg{at: scene.Now(), status: scene.Status()})
		for i := range uint64(batches) {
			p.Send(batchMsg{at: scene.Now(), rows: scene.Stream(1+i*333, 333)})
		}
		p.Quit()
	}()
	end, err := p.Run()
	if err != nil {
		t.Fatal(err)
	}
	if n := end.(counted).list.next; n != batches*333 {
		t.Errorf("%d rows arrived", n)
	}
	if n := views.Load(); n < batches || n > batches+8 {
		t.Errorf("%d drawings for %d batches", n, batches)
	}
}

// TestRingHasConstantMemory: what a row holds beside itself goes with it.
func TestRingHasConstantMemory(t *testing.T) {
	m := newModel(Options{Now: scene.Now})
	fill := func(from uint64) uint64 {
		for i := range uint64(4) {
			rows := scene.Stream(from+i*ringSize, ringSize)
			for j := range rows {
				rows[j].ResBody = &traffic.Body{Bytes: make([]byte, 4096)}
				rows[j].Service = fmt.Sprintf("s%d", uint64(j)+i*ringSize+from) // a new one each time
			}
			m = m.batch(batchMsg{at: scene.Now(), rows: rows})
		}
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	first := fill(1)
	second := fill(1 + 4*ringSize)
	third := fill(1 + 8*ringSize)
	if grown := int64(third) - int64(second); grown > 2<<20 {
		t.Errorf("%d, %d, then %d bytes", first, second, third)
	}
	if third > 60<<20 {
		t.Errorf("%d bytes for %d rows", third, ringSize)
	}
	runtime.KeepAlive(m)
}
