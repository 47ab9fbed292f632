package tui

import (
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/tui/internal/scene"
)

// timed notes what is to come after which time.
func (u *user) timed() *[]tea.Msg {
	var later []tea.Msg
	u.m.wait = func(d time.Duration, msg tea.Msg) tea.Cmd {
		if _, ok := msg.(noticeOverMsg); !ok { // the clock's
			return nil
		}
		if d < 4*time.Second || d > deedLimit {
			u.t.Errorf("after %v", d)
		}
		later = append(later, msg)
		return func() tea.Msg { return msg }
	}
	return &later
}

// TestNoticeGoes: what a key did covers the status line for a while, not until the next
// key.
func TestNoticeGoes(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	later := u.timed()
	u.keys("s").wantScreen("order: slowest first").send((*later)[0]).wantScreen("not:order: slowest first", "slowest first, row 1")
	// That of an earlier notice takes no later one away, though it says the same.
	u.keys("ssss", "n", "n").wantScreen("no later error")
	for _, msg := range (*later)[:len(*later)-1] {
		u.send(msg).wantScreen("no later error")
	}
	u.send((*later)[len(*later)-1]).wantScreen("not:no later error", "FOLLOW")
	// What still goes on is no news: its end is.
	n := len(*later)
	u.keys("c").wantScreen("copying ...")
	if len(*later) != n {
		t.Error("it goes before it is done")
	}
	u.send(doneMsg{"done"}).wantScreen("done")
	if len(*later) != n+1 {
		t.Errorf("%d times, want %d", len(*later), n+1)
	}
	// A row is no notice.
	u.rows(scene.Stream(8, 3)...)
	if len(*later) != n+1 {
		t.Error("a row has a notice go later")
	}
	u.send((*later)[n]).wantScreen("not:done", "FOLLOW")
}

// TestNoticeIsRead: one that is too long for its line has the one below it too.
func TestNoticeIsRead(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	u.deeds("p").wantScreen("copied the proxy's variables: in the clipboard; export", "http_proxy=http://127.0.0.1:7474", "not:enter detail")
	u.keys("k").wantScreen("enter detail", "not:export")
	long := "not written: " + strings.Repeat("/a/long/path", 8) + ": no space left on device"
	u.send(doneMsg{long}).wantFlat("no space left on device")
	// Keys that wait for an answer stay.
	u.keys("x").send(doneMsg{long}).wantScreen("not written", "y clear / n do not")
	u.keys("n", "/").send(doneMsg{long}).wantScreen("enter keep")
}
