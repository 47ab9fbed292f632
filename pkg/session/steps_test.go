package session_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// A session that starts says which step it is at and how long each took; one that runs
// does not.
func TestAStartShowsItsSteps(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		o := w.options("box")
		ctl := control.Dial(o.RuntimeDir, os.Getpid())
		var starting control.Status
		o.At = func(step string) {
			if step != "register" {
				return
			}
			var err error
			if starting, err = ctl.Status(t.Context()); err != nil {
				t.Error(err)
			}
		}
		r := run(t, o)
		st := r.up()
		var names []string
		for i, s := range starting.Steps {
			names = append(names, s.Name)
			if last := i == len(starting.Steps)-1; s.Began.IsZero() || s.Took > 0 == last {
				t.Errorf("step %+v", s)
			}
		}
		if got := strings.Join(names, " "); got != "registry listen prove session claim" {
			t.Errorf("steps %q", got)
		}
		if len(st.Steps) != 0 || len(r.status().Steps) != 0 {
			t.Errorf("a session that runs has the steps %v", st.Steps)
		}
		// What has nothing to reconnect goes on.
		if err := ctl.Reconnect(t.Context()); err != nil {
			t.Error(err)
		}
		if code, _, err := w.ask(st, "/"); code != 200 || err != nil {
			t.Errorf("after a reconnect: %d %v", code, err)
		}
		if err := r.stop(); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		w.empty()
	})
}
