package tui

import (
	"testing"

	"lane/tui/internal/scene"
)

// TestFilterGivesThePlaceBack: the end of a filter goes back to the row at which it was
// set, unless the user has gone to another one meanwhile.
func TestFilterGivesThePlaceBack(t *testing.T) {
	at := func() *user {
		return newUser(t, 80, 24).status().rows(scene.Stream(1, 60)...).keys("G", "k", "k").wantSeq(58)
	}
	other := scene.Exchanges()[0] // of another service than the stream's
	other.Service, other.Seq = "rare", 61
	at().keys("/svc:zzz", "enter").wantSeq(0).wantScreen("Nothing of 60 exchanges").keys("esc").wantSeq(58)
	// One that shows others does not lose it, nor do keys that find nothing to go to.
	at().rows(other).keys("/svc:rare", "enter").wantSeq(61).keys("esc").wantSeq(58)
	at().keys("/svc:zzz", "enter", "j", "G", "n", "f", "f").keys("esc").wantSeq(60).wantScreen("FOLLOW")
	at().keys("/svc:zzz", "enter", "j", "k", "n").keys("esc").wantSeq(58)
	// What comes meanwhile is no move of the user's.
	at().keys("/svc:rare", "enter").rows(other).wantSeq(61).keys("esc").wantSeq(58)
	// A filter after a filter, and in another order.
	at().keys("/svc:zzz", "enter", "/", "ctrl+u", "svc:yyy", "enter", "esc").wantSeq(58)
	at().keys("s", "j", "j").keys("/svc:zzz", "enter", "esc").wantSeq(at().keys("s", "j", "j").seq())
	// Who has gone elsewhere stays there; who follows goes on to the newest.
	second := other
	second.Seq = 62
	at().rows(other, second).keys("/svc:rare", "enter").wantSeq(61).keys("j").wantSeq(62).keys("esc").wantSeq(62)
	at().rows(other).keys("G", "/svc:zzz", "enter").rows(second).keys("esc").wantSeq(62).wantScreen("FOLLOW")
}

// TestClearedIsNotEmpty: a list that was cleared is not one that never had a row.
func TestClearedIsNotEmpty(t *testing.T) {
	u := newUser(t, 80, 24, doing(&doer{})).running().keys("b").wantScreen("/route:fb").keys("esc")
	u.keys("space").rows(scene.Stream(8, 3)...).wantScreen("+3 new").keys("x", "y").wantScreen("not:+3 new").keys("space")
	u.wantScreen("No traffic in lane dev-alice since the list was cleared.", "not:yet", "not:after a minute")
	u.keys("b").wantScreen("none of them is in it any more", "not:/route:fb").keys("g").wantScreen("since the list was cleared", "not:last 5 minutes").keys("esc")
	u.rows(scene.Stream(11, 1)...).wantSeq(11).keys("b").wantScreen("/route:fb")
	newUser(t, 80, 24).status().wantScreen("No traffic yet").keys("g").wantScreen("last 5 minutes").keys("b").wantScreen("/route:fb", "not:cleared")
}
