package tui

import (
	"testing"

	"lane/pkg/control"
	"lane/tui/internal/scene"
)

// A lane that is killed says so where its owner looks, and not after that.
func TestTheHeaderOfAKilledLane(t *testing.T) {
	u := newUser(t, 80, 24)
	s := scene.Status()
	for _, by := range []string{control.KilledLane, control.KilledAll} {
		s.Killed = by
		u.send(statusMsg{at: scene.Now(), status: s}).wantScreen("KILLED", " ! killed: ", "unkill")
		s.Killed = ""
		u.send(statusMsg{at: scene.Now(), status: s}).wantScreen("not:KILLED", "not:unkill")
	}
}

// What a kill switch has decided is counted beside the fallbacks, where there is any.
func TestKilledRequestsAreCountedByThemselves(t *testing.T) {
	u := newUser(t, 100, 40)
	s := scene.Status()
	u.send(statusMsg{at: scene.Now(), status: s}).keys("b").wantScreen("since its start", "not:kill switch").keys("b").keys("s").wantScreen("not:kill switch").keys("s")
	s.Counts.Killed = 2
	u.send(statusMsg{at: scene.Now(), status: s}).keys("b").wantScreen("Under a kill switch: 2,").keys("b").keys("s").wantScreen("2 requests under a kill switch")
}
