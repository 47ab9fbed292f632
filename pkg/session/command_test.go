//go:build unix

package session_test

import (
	"bytes"
	"errors"
	"testing"

	"lane/pkg/child"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

func TestACommandsEndIsTheSessions(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	var out bytes.Buffer
	o.Command, o.Out = []string{"/bin/sh", "-c", "echo $PROXY; exit 7"}, &out
	o.ChildEnv = func(st control.Status) []string { return []string{"PROXY=" + st.Proxy} }
	r := run(t, o)
	st := r.up()
	var exit *child.ExitError
	if err := r.wait(); !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("Run = %v, want exit code 7", err)
	}
	if out.String() != st.Proxy+"\n" {
		t.Errorf("printed %q, want the proxy %s", out.String(), st.Proxy)
	}
	w.empty()
}

func TestAStopEndsTheCommand(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Command = []string{"/bin/sleep", "1000"}
	o.ChildEnv = func(control.Status) []string { return nil }
	r := run(t, o)
	if st := r.up(); st.Child == "" {
		t.Error("the status shows no command")
	}
	if err := r.ctl().Stop(t.Context(), false); err != nil {
		t.Error(err)
	}
	if err := r.wait(); err != nil {
		t.Errorf("Run = %v", err)
	}
	w.empty()
}

func TestACommandThatCannotStartLeavesNothing(t *testing.T) {
	w := newWorld(t, consultest.Embedded(t))
	o := w.options("box")
	o.Command = []string{"/no/such/command"}
	o.ChildEnv = func(control.Status) []string { return nil }
	var start *child.StartError
	if err := run(t, o).wait(); !errors.As(err, &start) {
		t.Errorf("Run = %v", err)
	}
	w.empty()
}
