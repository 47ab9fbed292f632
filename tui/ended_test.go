package tui

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// over are deeds of a session that has ended.
type over struct{ doer }

func (*over) Whole(context.Context, uint64) (traffic.Exchange, error) {
	return traffic.Exchange{}, errors.New("the session has ended")
}

// last is the last word of a session that has ended.
func last(text string) statusMsg {
	s := scene.Status()
	s.State, s.History = control.SessionEnded, []control.Event{{At: scene.Now(), Text: text}}
	return statusMsg{at: scene.Now(), status: s, err: io.EOF}
}

// TestHowItEndedIsSaidOnce in one sentence.
func TestHowItEndedIsSaidOnce(t *testing.T) {
	for text, want := range map[string]string{
		"ended: claim lost: orders":             "!! The session has ended: claim lost: orders",
		"ended by lane down":                    "!! The session has ended by lane down",
		"ended":                                 "!! The session has ended",
		"ended, and not all was removed: a key": "!! The session has ended, and not all was removed: a key",
		"gone":                                  "!! The session has ended: gone",
	} {
		u := newUser(t, 100, 30).running().send(last(text)).wantScreen("not:ended: ended")
		if found := strings.Split(u.screen(), "\n")[2]; strings.TrimSpace(found) != want {
			t.Errorf("%q, want %q", found, want)
		}
	}
}

// TestWhatAnEndedSessionLeaves: what is on the screen can be copied, nothing can be sent.
func TestWhatAnEndedSessionLeaves(t *testing.T) {
	d := &over{}
	u := newUser(t, 140, 30, func(o *Options) { o.Deeds, o.Attached = d, true }).running().wantScreen("r replay", "D diff")
	u.send(last("ended by lane down")).wantScreen("not:r replay", "not:D diff", "c curl")
	u.deeds("r").wantScreen("the session has ended: nobody could send it").deeds("c").wantScreen("copied as curl, secrets masked")
	if len(d.copied) != 1 || !strings.Contains(d.copied[0], "http://users/v1/users/7") {
		t.Errorf("copied %q", d.copied)
	}
	// A body that is not here cannot be copied; one that was read can.
	u.keys("<").deeds("c").wantScreen("not copied: the session has ended")
	whole := scene.Exchanges()[0]
	whole.ReqBody = &traffic.Body{Bytes: []byte("{}")}
	whole.ReqSize = 2
	u.keys("enter").send(wholeMsg{seq: whole.Seq, e: whole}).deeds("c").wantScreen("copied as curl")
	if len(d.copied) != 2 || !strings.Contains(d.copied[1], "{}") {
		t.Errorf("copied %q", d.copied)
	}
	// A session that only does not answer may come back.
	u = newUser(t, 140, 30, doing(&doer{})).running().send(statusMsg{at: scene.Now(), err: errors.New("refused")}).wantScreen("not:r replay")
	u.deeds("r").wantScreen("the session does not answer").send(statusMsg{at: scene.Now(), status: scene.Status()}).wantScreen("r replay")
}

// TestPartBesideTheList: tab goes through the parts where they are on the screen.
func TestPartBesideTheList(t *testing.T) {
	u := newUser(t, 140, 40).running().wantScreen("[1 Overview]", "tab part")
	u.keys("tab").wantScreen("[2 Req]").keys("shift+tab", "shift+tab").wantScreen("[5 Curl]", "FOLLOW")
	newUser(t, 80, 24).running().keys("tab").wantScreen("FOLLOW", "not:tab part", "not:[2")
}

// TestMarkOfAKilledCall: what a kill switch sent to the baseline is no fallback, and has
// no mark, wherever it stands.
func TestMarkOfAKilledCall(t *testing.T) {
	if routeMark(traffic.RouteKilled) != traffic.MarkNone || routeMark(traffic.RouteFallback) != traffic.MarkFallback {
		t.Error("another mark than in the list")
	}
}

// TestStepsAreNews: a step of a start is short, and is seen all the same.
func TestStepsAreNews(t *testing.T) {
	withFeed(t, func(src *fake, out *sent) {
		src.set(func(f *fake) { begun(&f.status) })
		time.Sleep(2 * time.Second)
		_, s0, _, _ := out.counts()
		time.Sleep(2 * time.Second)
		if _, s, _, _ := out.counts(); s-s0 < 9 || s-s0 > 11 {
			t.Errorf("%d looks in two seconds of a start", s-s0)
		}
		src.set(func(f *fake) { f.status = scene.Status() })
		time.Sleep(20 * time.Second)
		_, s0, _, _ = out.counts()
		time.Sleep(20 * time.Second)
		if _, s, _, _ := out.counts(); s != s0 {
			t.Errorf("%d looks after it", s-s0)
		}
	})
}
