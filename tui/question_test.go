package tui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"lane/tui/internal/scene"
)

// wantFlat is wantScreen for what may stand on two lines of a small screen.
func (u *user) wantFlat(parts ...string) *user {
	u.t.Helper()
	flat := strings.Join(strings.Fields(u.screen()), " ")
	for _, p := range parts {
		not, found := strings.CutPrefix(p, "not:")
		if strings.Contains(flat, not) == found {
			u.t.Errorf("%dx%d: want %q in\n%s", u.m.width, u.m.height, p, u.screen())
		}
	}
	return u
}

// TestNoBlindKeys: whatever a key asks or says stands on the screen, however small
// that is: as long as an answer is taken, the question and its keys can be read.
func TestNoBlindKeys(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {60, 15}, {59, 15}, {80, 14}, {40, 10}, {30, 6}, {24, 5}} {
		d := &doer{bodies: posted()}
		u := newUser(t, size[0], size[1], doing(d)).running(keeping).keys("<")
		u.wantFlat("not:y/n", "not:y send")
		for key, want := range map[string]string{"r": "again?", "D": "TWICE", "C": "with its secrets in clear?", "x": "Clear the list?", "q": "Stop exposing"} {
			u.deeds(key).wantFlat(want, "not:enlarge")
			flat := strings.Join(strings.Fields(u.screen()), " ")
			if !strings.Contains(flat, "y/n") && !strings.Contains(flat, " / n ") {
				t.Errorf("%v %s: no key answers it:\n%s", size, key, u.screen())
			}
			if (key == "r" || key == "D" || key == "C") && !strings.Contains(flat, "POST orders /api/or") {
				t.Errorf("%v %s: which row?\n%s", size, key, u.screen())
			}
			u.deeds("esc").wantFlat("not:"+want, "not:y/n")
		}
		if len(d.sent) != 0 || len(d.copied) != 0 {
			t.Fatalf("%v: sent %q, copied %q", size, d.sent, d.copied)
		}
		u.deeds("c")
		if want := "as curl, secrets masked"; size[0] >= 40 {
			u.wantFlat(want, "not:enlarge")
		}
		u.keys("/svc:ord").wantFlat("/svc:ord", "not:enlarge").keys(" st:6xx").wantFlat("is no").keys("esc")
		u.keys("/svc:orders", "enter").wantFlat("/svc:or", "shown").keys("esc").wantFlat("not:/svc:or")
		u.keys("space").wantFlat("PAUSED").keys("space").wantFlat("not:PAUSED")
	}
}

// TestQuestionGivesWay: what it is about is cut, its keys are not.
func TestQuestionGivesWay(t *testing.T) {
	q := question{"Send ", "POST orders " + strings.Repeat("/x", 200), " again?", "y send / n do not"}
	for w := 40; w < 500; w++ {
		s := q.within(w)
		if ansi.StringWidth(s) > w || !strings.Contains(s, "again?") || !strings.HasSuffix(s, "y/n") && !strings.HasSuffix(s, q.keys) {
			t.Fatalf("%d: %q", w, s)
		}
	}
	if got := (question{before: "End?", keys: "y / n"}).within(80); got != "End?  y / n" {
		t.Errorf("%q", got)
	}
}

// TestQuestionHoldsItsRow: rows that come while a question stands do not move the
// selection from the row that it names; afterwards the list follows again.
func TestQuestionHoldsItsRow(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	row := u.m.list.selected().Seq
	for _, answer := range []string{"n", "y"} {
		u.deeds("C").wantScreen("Copy GET users /v1/users/7 with its secrets")
		u.rows(scene.Stream(8, 40)...)
		if got := u.m.list.selected().Seq; got != row {
			t.Errorf("row %d is selected, the question was about %d", got, row)
		}
		u.wantScreen("Copy GET users /v1/users/7 with its secrets")
		u.deeds(answer)
		if !u.m.list.follow {
			t.Error("it does not follow any more")
		}
		row = u.m.list.selected().Seq
		if answer == "n" {
			u.keys("N", "N", "G") // and back to a row that can be told
			u.m.list = u.m.list.forget()
			u.rows(scene.Exchanges()...)
			row = u.m.list.selected().Seq
		}
	}
	if len(d.copied) != 1 || !strings.Contains(d.copied[0], "users/7") {
		t.Errorf("copied %q", d.copied)
	}
	// One that does not follow does not begin to.
	u = newUser(t, 80, 24, doing(d)).running().keys("k").deeds("C", "n")
	if u.m.list.follow {
		t.Error("it follows")
	}
	// Another session has other rows by the same numbers: nothing is done.
	u.deeds("C").send(restartMsg{}).wantScreen("not done", "not:in clear?")
	if fmt.Sprint(u.deeds("y").m.confirm) != "<nil>" || len(d.copied) != 1 {
		t.Errorf("copied %q", d.copied)
	}
}
