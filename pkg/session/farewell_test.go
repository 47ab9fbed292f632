package session

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Who looks on reads who has ended the session, and how.
func TestHowASessionEndedIsTold(t *testing.T) {
	ctrlC := &InterruptedError{How: "by its owner with Ctrl-C"}
	for _, c := range []struct {
		cause, err error
		want       string
		warns      bool
	}{
		{errLeft, nil, "ended by its owner at its own terminal", false},
		{errLeft, ctrlC, "ended by its owner with Ctrl-C", false}, // as the screen's own key
		{ctrlC, ctrlC, "ended by its owner with Ctrl-C", false},   // as a signal
		{ctrlC, errors.Join(ctrlC, &LeftBehindError{}), "ended by its owner with Ctrl-C, and not all was removed: " + (&LeftBehindError{}).Error(), true},
		{ErrStopped, nil, "ended by lane down", false},
		{&InterruptedError{}, &InterruptedError{}, "ended", false},
		{context.Canceled, nil, "ended", false},
		{nil, errors.New("the proxy: broken"), "ended: the proxy: broken", true},
	} {
		s := &session{o: Options{Now: time.Now}}
		s.farewell(c.cause, c.err)
		h := s.history
		if len(h) != 1 || h[0].Text != c.want || (h[0].Level == "warn") != c.warns {
			t.Errorf("%v, %v: %+v, want %q", c.cause, c.err, h, c.want)
		}
	}
}

// One way to interrupt is each of them to those who ask whether it was one, and only those are.
func TestInterruptionsAreOne(t *testing.T) {
	if !errors.Is(&InterruptedError{How: "a"}, &InterruptedError{How: "b"}) || errors.Is(&InterruptedError{}, context.Canceled) {
		t.Error("they are told apart")
	}
}
