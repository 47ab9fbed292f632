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
