package tui

import (
	"strings"
	"testing"

	"lane/tui/internal/scene"
)

// TestEmptyListFollows: where a filter leaves no row there is nowhere to go, and the
// list follows as before; the twin ends it.
func TestEmptyListFollows(t *testing.T) {
	for _, key := range []string{"up", "down", "k", "pgup", "<"} {
		u := newUser(t, 80, 24).running().keys("/svc:nobody", "enter", key, "esc").wantScreen("FOLLOW")
		u.rows(scene.Stream(8, 1)...).wantSeq(8)
	}
	newUser(t, 80, 24).running().keys("/svc:users", "enter", "up").wantScreen("not:FOLLOW")
}

// TestLongFilterLeavesItsCount: however long a filter is, how many it shows is read.
func TestLongFilterLeavesItsCount(t *testing.T) {
	for _, w := range []int{60, 80, 140} {
		u := newUser(t, w, 24).running().keys("/path:"+strings.Repeat("x", 150), "enter").wantScreen("0 of 7 shown", " /path:x", "FOLLOW")
		u.keys("space").wantScreen("0 of 7 shown", "PAUSED")
	}
	newUser(t, 80, 24).running().keys("/svc:users", "enter").wantScreen(" /svc:users   1 of 7 shown")
}
