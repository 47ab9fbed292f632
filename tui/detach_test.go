package tui

import (
	"context"
	"errors"
	"testing"

	"lane/pkg/control"
)

// leaving is a session that can leave its terminal, or says why it cannot.
func leaving(err error) func(*Options) {
	return func(o *Options) { o.Detach = func(context.Context) error { return err } }
}

func TestDetach(t *testing.T) {
	starting := func(s *control.Status) { s.State = control.SessionStarting }
	for _, c := range []struct {
		name string
		opts []func(*Options)
		keys []string
		want leave
		says string
	}{
		{"d after q", []func(*Options){leaving(nil)}, []string{"q", "d"}, leaveDetach, ""},
		{"D is another key", []func(*Options){leaving(nil)}, []string{"q", "D"}, leaveNot, "d detach"},
		{"a question before it", []func(*Options){leaving(nil)}, []string{"q", "n", "q", "d"}, leaveDetach, ""},
		{"n stays", []func(*Options){leaving(nil)}, []string{"q", "n"}, leaveNot, "not:Stop exposing"},
		{"y stops", []func(*Options){leaving(nil)}, []string{"q", "y"}, leaveStop, ""},
		{"what cannot leave stays", []func(*Options){leaving(errors.New("no space left on device"))}, []string{"q", "d"}, leaveNot,
			"not detached, all goes on here: no space left on device"},
		{"whoever is attached has nothing to detach", []func(*Options){leaving(nil), attached}, []string{"q"}, leaveQuit, ""},
		{"nor a demo", []func(*Options){leaving(nil), demo}, []string{"q"}, leaveQuit, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := newUser(t, 100, 24, c.opts...).running().deeds(c.keys...)
			if u.m.leaving != c.want {
				t.Errorf("leaves as %d, want %d", u.m.leaving, c.want)
			}
			if c.says != "" {
				u.wantScreen(c.says)
			}
		})
	}

	// What a key has decided before it is ready stays decided.
	u := newUser(t, 80, 24, leaving(nil)).running().keys("q", "d").wantScreen("detaching").keys("q", "y").send(detachMsg{})
	if u.m.leaving != leaveStop {
		t.Errorf("leaves as %d after y", u.m.leaving)
	}

	// One that starts may still fail, with nobody to see it.
	u = newUser(t, 100, 24, leaving(nil)).running(starting).keys("q").wantScreen("y stop / n stay", "not:detach")
	u.deeds("d").wantScreen("not detached: the session is not up yet")
	if u.m.leaving != leaveNot {
		t.Error("it has left while it started")
	}
	u.status().deeds("q", "d")
	if u.m.leaving != leaveDetach {
		t.Error("it cannot leave once it is up")
	}
}

// TestLeaveRunning: where a session belongs to its terminal, q's question says how one is
// left running, and d does not end it.
func TestLeaveRunning(t *testing.T) {
	u := newUser(t, 80, 24).running()
	u.keys("q").wantScreen("Stop exposing orders, payments?  y stop / n stay  (lane up -d stays running)")
	u.keys("d").wantFlat("still exposed.", "lane up -d; lane status shows it").keys("k").wantScreen("not:lane up -d")
	if u.m.leaving != leaveNot {
		t.Error("d leaves")
	}
	newUser(t, 60, 24).running().keys("q").wantScreen("y stop / n stay", "not:lane up -d")
	// And where it does not, all three keys are there, however little room there is.
	for _, w := range []int{140, 80, 60} {
		newUser(t, w, 24, leaving(nil)).running().keys("q").wantScreen("y stop / d detach / n stay", "not:lane up -d")
	}
	newUser(t, 30, 6, leaving(nil)).running().keys("q").wantFlat("y/d/n")
}
