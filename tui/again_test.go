package tui

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"lane/pkg/control"
	"lane/tui/internal/scene"
)

func TestReconnect(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	u.wantScreen("not:R retry").deeds("R").wantScreen("nothing is lost: there is nothing to try again")
	ending := func(s *control.Status) {
		s.State, s.Waiting = control.SessionDraining, "2 requests under way, 30 s at most"
		s.Services[0].State, s.Services[1].State = control.StateDraining, control.StateDraining
	}
	u.status(ending).wantScreen("DRAINING", "! draining: waits for 2 requests under way, 30 s at most").deeds("R").wantScreen("nothing is lost")
	u.status().wantScreen("not:draining: waits")
	if d.again != 0 {
		t.Errorf("the session was asked %d times though nothing is lost", d.again)
	}
	unconfirmed := func(s *control.Status) { s.Services[0].State = control.StateUnconfirmed }
	u.status(unconfirmed).deeds("R").wantScreen("the session tries again now")
	if d.again != 1 {
		t.Errorf("the session was asked %d times", d.again)
	}
	// While something is lost, the key is in the footer.
	u.status(func(s *control.Status) { s.Relay = &control.RelayStatus{State: control.RelayLost} }).wantScreen("R retry now", "Trying again now.")
	u.status(func(s *control.Status) { s.Registry.State = registryStale }).wantScreen("R retry now")
	// A session that does not answer is asked itself.
	asked := 0
	u.m.hurry = func() { asked++ }
	u.send(statusMsg{at: scene.Now(), err: errors.New("refused")}).wantScreen("R at once", "R retry now").deeds("R").wantScreen("asking the session again")
	if asked != 1 || d.again != 1 {
		t.Errorf("asked %d times itself, %d times by its socket", asked, d.again)
	}
	// One that has ended is not.
	u.send(statusMsg{at: scene.Now(), err: io.EOF}).wantScreen("not:R retry").deeds("R").wantScreen("the session has ended: lane up starts another one")
	if asked != 1 {
		t.Error("a session that has ended was asked")
	}
	d.fail = errors.New("broken")
	newUser(t, 80, 24, doing(d)).running(unconfirmed).deeds("R").wantScreen("not tried again: broken")
	newUser(t, 80, 24).running(unconfirmed).keys("R").wantScreen("the session tries by itself")
}

func TestRetryIsCountedDown(t *testing.T) {
	u := newUser(t, 80, 24)
	for _, c := range []struct {
		tries int
		in    time.Duration
		want  string
	}{{0, 1100 * time.Millisecond, "Trying again in 2s, R at once."}, {2, 4 * time.Second, "Try 3 in 4s, R at once."}, {2, -time.Second, "Try 3 is under way."}} {
		u.running(func(s *control.Status) {
			s.Relay = &control.RelayStatus{State: control.RelayReconnecting, Tries: c.tries, Next: scene.Now().Add(c.in)}
		}).wantScreen(c.want, "Outbound proxy  still working")
	}
	u.running(func(s *control.Status) {
		s.Relay = &control.RelayStatus{State: control.RelayReconnecting, Outgoing: true}
	}).wantScreen("Outbound proxy  calls that go through the relay fail too")
}

// TestHurryEndsTheWait: the feed asks at once when somebody is in a hurry, and waits as
// long as ever when nobody is.
func TestHurryEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		hurry := make(chan struct{}, 1)
		hurry <- struct{}{}
		if !sleep(t.Context(), time.Hour, hurry) || time.Since(began) != 0 {
			t.Errorf("waited %v", time.Since(began))
		}
		if !sleep(t.Context(), time.Hour, hurry) || time.Since(began) != time.Hour {
			t.Errorf("waited %v", time.Since(began))
		}
		f := feed{hurry: [2]chan struct{}{hurry, make(chan struct{}, 1)}}
		f.asks()
		f.asks() // never blocks
	})
}

func TestDoctor(t *testing.T) {
	d := &doer{}
	u := newUser(t, 80, 24, doing(d)).running()
	u.keys("d").wantScreen("Looking at all that lane depends on")
	found, err := d.Doctor(t.Context())
	u.send(diagnosisMsg{found, err}).wantScreen("1 thing wrong, 1 note, 1 ok", "wrong     proxy: HTTP_PROXY leads to lane itself", "-> unset it", "As of ", "R looks again")
	u.keys("R").wantScreen("Looking at all that lane depends on").send(diagnosisMsg{found, err}).wantScreen("R looks again")
	u.send(statusMsg{at: scene.Now(), status: scene.Status(), err: io.EOF}).wantScreen("the session has ended since", "not:R looks again")
	u.send(statusMsg{at: scene.Now(), status: scene.Status()}).wantScreen("R looks again", "not:has ended")
	u.keys("d").wantScreen("not:thing wrong", "FOLLOW")
	d.fail = errors.New("no registry")
	u.deeds("d").wantScreen("No diagnosis: no registry").keys("esc").wantScreen("FOLLOW")
	d.fail = io.EOF
	u.deeds("d").wantScreen("No diagnosis: the session has ended").keys("esc").wantScreen("FOLLOW")
	newUser(t, 80, 24).running().keys("d").wantScreen("not:Looking", "FOLLOW")
	newUser(t, 80, 24, demo, doing(d)).running().keys("d").wantScreen("not:Looking").keys("?").wantScreen("not:doctor")
}
