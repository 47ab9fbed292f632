package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lane/tui/internal/scene"
)

// seqs are the numbers of the rows as they are shown.
func (u *user) seqs() []uint64 {
	var out []uint64
	for i := range u.m.list.shown {
		out = append(out, u.m.list.at(i).Seq)
	}
	return out
}

func (u *user) wantOrder(want ...uint64) *user {
	u.t.Helper()
	got := u.seqs()
	if !slices.Equal(got, want) {
		u.t.Errorf("rows %v, want %v", got, want)
	}
	return u
}

func TestOrders(t *testing.T) {
	u := newUser(t, 80, 24).running().wantOrder(1, 2, 3, 4, 5, 6, 7)
	u.keys("s").wantOrder(4, 2, 5, 1, 7, 3, 6).wantSeq(4).wantScreen("order: slowest first")
	u.keys("j").wantSeq(2).wantScreen("slowest first, row 2, s sorts", "not:FOLLOW")

	// What comes finds its place, and the cursor stays on its row.
	slow := scene.Exchanges()[0]
	slow.Seq, slow.Took = 8, time.Second
	u.rows(slow).wantOrder(4, 8, 2, 5, 1, 7, 3, 6).wantSeq(2)
	// On the first row it stays there: the slowest is what is watched.
	slow.Seq, slow.Took = 9, time.Minute
	u.keys("<").rows(slow).wantSeq(9)

	// A filter keeps the order, and its end too.
	u.keys("/svc:orders", "enter").wantOrder(9, 8, 1, 3, 6).keys("esc").wantOrder(9, 4, 8, 2, 5, 1, 7, 3, 6)
	// The end of it is no following.
	u.keys("G").wantSeq(6)
	slow.Seq, slow.Took = 10, 1
	u.rows(slow).wantSeq(6)

	u.keys("s").wantScreen("worst status first").wantSeq(4)
	u.keys("s").wantScreen("order: service").keys("s").wantScreen("largest first").wantSeq(5)
	u.keys("s").wantScreen("order: time").wantOrder(1, 2, 3, 4, 5, 6, 7, 8, 9, 10).wantSeq(10).keys("k", "j").wantScreen("row 10 of 10")
	// f goes back to time and follows.
	u.keys("s", "f").wantScreen("FOLLOW").wantSeq(10)
}

// TestOrdersLetGo: rows that leave the ring leave every order.
func TestOrdersLetGo(t *testing.T) {
	u := newUser(t, 80, 24).status().rows(scene.Stream(1, 100)...).keys("s")
	for i := range uint64(6) {
		u.rows(scene.Stream(101+i*1000, 1000)...)
	}
	if n := len(u.m.list.shown); n != ringSize {
		t.Errorf("%d rows are shown", n)
	}
	for i := range u.m.list.shown {
		if e := u.m.list.at(i); e.Seq <= 1100 {
			t.Fatalf("row %d is still there", e.Seq)
		}
		if i > 0 && u.m.list.at(i-1).Took < u.m.list.at(i).Took {
			t.Fatalf("row %d is in front of a slower one", i-1)
		}
	}
	u.keys("x", "y").rows(scene.Stream(9000, 3)...)
	if len(u.m.list.shown) != 3 {
		t.Errorf("%d rows after clearing", len(u.m.list.shown))
	}
}

// An export goes by time, whatever the list does.
func TestExportGoesByTime(t *testing.T) {
	d := &doer{}
	newUser(t, 80, 24, doing(d)).running().deeds("s", "e")
	for _, har := range d.saved {
		first, last := strings.Index(har, "/api/orders\""), strings.Index(har, "/v1/users/7\"")
		if first < 0 || last < first {
			t.Errorf("the first exchange is at %d, the last at %d", first, last)
		}
	}
	if len(d.saved) != 1 {
		t.Errorf("%d files", len(d.saved))
	}
}
