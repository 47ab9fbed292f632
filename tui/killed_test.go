package tui

import (
	"testing"

	"lane/pkg/control"
	"lane/pkg/lane"
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
	u.send(statusMsg{at: scene.Now(), status: s}).keys("b").wantScreen("since its start", "not:kill switch").keys("b").keys("S").wantScreen("not:kill switch").keys("S")
	s.Counts.Killed = 2
	u.send(statusMsg{at: scene.Now(), status: s}).keys("b").wantScreen("Under a kill switch: 2,").keys("b").keys("S").wantScreen("2 requests under a kill switch")
}

// They stand in a table of their own, and do not make fallbacks of none.
func TestKilledRequestsStandApart(t *testing.T) {
	killed := scene.Exchanges()[6]
	killed.Kind, killed.Reason = lane.KindKillSwitch, lane.ReasonKillSwitch
	newUser(t, 80, 24).status(killing).rows(killed).keys("b").wantScreen("No fallbacks:", "by a kill switch", "UNDER A KILL SWITCH", "  users ", "not:> users ", "lane unkill dev-alice")
	newUser(t, 80, 24).running().keys("b").wantScreen("> users ", "not:KILL SWITCH", "not:No fallbacks")
	newUser(t, 80, 24).status(unused).keys("b").wantScreen("No fallbacks:", "not:kill switch")
}
