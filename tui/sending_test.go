package tui

import (
	"context"
	"errors"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// slowly presses a key and returns what brings the answers, when the test has it so.
func (u *user) slowly(key string) (comes func()) {
	u.t.Helper()
	u.m.work = func(f func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return f(u.t.Context()) }
	}
	u.keys(key)
	do := u.m.do
	if do == nil {
		u.t.Fatalf("%s sends nothing:\n%s", key, u.screen())
	}
	return func() { u.t.Helper(); u.send(do()) }
}

// TestLateAnswers: answers open by themselves if nobody has pressed a key since, and
// never under the next key of somebody who has gone on.
func TestLateAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		want []string // on the screen on which the answers come
	}{
		"no key":        {nil, []string{"LANE AGAINST BASELINE  GET"}},
		"another row":   {[]string{"<"}, []string{"two answers to GET users /v1/users/7: a shows", "not:AGAINST BASELINE  GET"}},
		"a filter":      {[]string{"/path:/r"}, []string{"/path:/r", "enter keep", "not:AGAINST BASELINE  GET", "not:two answers"}},
		"a question":    {[]string{"x"}, []string{"Clear the list?", "not:AGAINST BASELINE  GET"}},
		"q's question":  {[]string{"q"}, []string{"Stop exposing", "not:AGAINST BASELINE  GET"}},
		"the graph":     {[]string{"g"}, []string{"WHO CALLED WHOM", "not:AGAINST BASELINE  GET"}},
		"the fallbacks": {[]string{"b"}, []string{"SERVICE", "not:AGAINST BASELINE  GET"}},
		"the log":       {[]string{"l"}, []string{"(not your lane)", "not:AGAINST BASELINE  GET"}},
		"the services":  {[]string{"S"}, []string{"orders: up", "not:AGAINST BASELINE  GET"}},
		"the doctor":    {[]string{"d"}, []string{"Looking at all", "not:AGAINST BASELINE  GET"}},
		"one exchange":  {[]string{"enter"}, []string{"[1 overview]", "not:AGAINST BASELINE  GET"}},
		"the same row":  {[]string{"G"}, []string{"two answers", "not:AGAINST BASELINE  GET"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := &doer{}
			u := newUser(t, 100, 30, doing(d)).running()
			comes := u.slowly("D")
			u.wantScreen("sending it to lane and baseline, esc cancels ...").keys(c.keys...)
			comes()
			u.wantScreen(c.want...)
			if len(d.sent) != 2 {
				t.Fatalf("sent %q", d.sent)
			}
			if len(c.keys) > 0 {
				u.keys("n", "esc") // ends what is open
				u.keys("a").wantScreen("LANE AGAINST BASELINE  GET http://users/v1/users/7").keys("a").wantScreen("not:AGAINST BASELINE  GET")
			}
			if len(d.sent) != 2 {
				t.Errorf("sent again: %q", d.sent)
			}
		})
	}
}

// TestLateAnswersShowOnce: the key that has sent shows what it has brought; on another
// row, and once they were seen, it sends.
func TestLateAnswersShowOnce(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	u.keys("a").wantScreen("nothing was sent again yet")
	comes := u.slowly("D")
	u.keys("k")
	u.deeds("D").wantScreen("not sent: sending it to lane and baseline is still under way")
	comes()
	u.keys("G").deeds("D").wantScreen("AGAINST")
	if len(d.sent) != 2 {
		t.Fatalf("sent %q", d.sent)
	}
	u.keys("esc").deeds("D").wantScreen("AGAINST")
	if len(d.sent) != 4 {
		t.Errorf("sent %q", d.sent)
	}
	// r is another question than D, and another row another request.
	comes = u.keys("esc").slowly("r")
	u.keys("k", "j")
	comes()
	u.deeds("D").wantScreen("AGAINST")
	if len(d.sent) != 7 {
		t.Errorf("sent %q", d.sent)
	}
	// Keys that come in one message are as many keys.
	u.keys("esc")
	u.m.work = func(f func(context.Context) tea.Msg) tea.Cmd { return func() tea.Msg { return f(t.Context()) } }
	u.send(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("rg")})
	u.send(answersMsg{n: u.m.sending.n, answers: answers{}}).wantScreen("WHO CALLED WHOM")
}

// TestCancelSending: esc takes back what is said to be sent, and nothing else.
func TestCancelSending(t *testing.T) {
	d := &doer{answer: func(string) Answer { t.Error("it was sent"); return Answer{} }}
	for name, keys := range map[string][]string{"at once": {"esc"}, "in the list": {"k", "esc"}, "behind a screen": {"g", "esc", "esc"}, "behind a filter": {"/svc:users", "enter", "esc", "esc"}} {
		u := newUser(t, 80, 24, doing(&doer{fail: context.Canceled})).running()
		comes := u.slowly("r")
		if len(keys) > 1 {
			u.keys(keys[:len(keys)-1]...)
			if u.m.sending == nil {
				t.Errorf("%s: cancelled by %q", name, keys[:len(keys)-1])
			}
		}
		u.keys("esc").wantScreen("cancelled; the request may have arrived")
		comes()
		u.wantScreen("cancelled", "not:SENT AGAIN", "not:not sent")
	}
	// What has not begun is not sent any more.
	u := newUser(t, 80, 24, doing(d)).running()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u.m.work = func(f func(context.Context) tea.Msg) tea.Cmd { return func() tea.Msg { return f(ctx) } }
	u.keys("r", "esc")
	// Its twin: a failure that nobody has cancelled is said, on whatever screen.
	u = newUser(t, 80, 24, doing(&doer{fail: errors.New("refused")})).running()
	comes := u.slowly("r")
	u.keys("g")
	comes()
	u.wantScreen("not sent: refused", "WHO CALLED WHOM")
}

// TestNoticeWaits: a notice that comes while a filter is typed is read behind it.
func TestNoticeWaits(t *testing.T) {
	u := newUser(t, 80, 24, doing(&doer{})).running()
	later := u.timed()
	comes := u.slowly("r")
	u.keys("/svc:users")
	comes()
	n := len(*later)
	u.send((*later)[n-1])
	if len(*later) != n+1 {
		t.Fatalf("%d waits, want %d", len(*later), n+1)
	}
	u.keys("enter").wantScreen("two answers to GET users").send((*later)[len(*later)-1]).wantScreen("not:two answers", "1 of 7")
}

// TestAnotherSessionsRow: a session that has begun anew has other exchanges by the same
// numbers; the one that is open is neither shown with another's body nor sent.
func TestAnotherSessionsRow(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running().deeds("enter").send(restartMsg{})
	u.m.detail.of.Start = u.m.detail.of.Start.Add(-time.Hour)
	u.deeds("r").wantScreen("not sent: the session has begun anew")
	u.send(wholeMsg{seq: u.m.detail.of.Seq, e: traffic.Exchange{Seq: u.m.detail.of.Seq, Start: scene.Now(), Method: "PUT"}})
	if len(d.sent) != 0 || u.m.detail.whole != nil && u.m.detail.whole.Method == "PUT" || u.m.detail.failed == "" {
		t.Errorf("sent %q, failed %q", d.sent, u.m.detail.failed)
	}
}
