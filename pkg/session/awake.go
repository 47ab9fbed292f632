package session

import (
	"context"
	"fmt"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
)

const (
	sleepTick = time.Second
	// sleptFor is by how much the wall clock must have gone on further than the
	// monotonic one, which stands still while the machine sleeps.
	sleptFor = 10 * time.Second
	// awakeWithin is how long a session may take to be back before that is said to
	// be wrong. Nothing is torn down then either: a network may take longer.
	awakeWithin = time.Minute
	maxHistory  = 100
)

// event notes something that happened to the session, for its status.
func (s *session) event(format string, a ...any) {
	s.remember(told{text: fmt.Sprintf(format, a...)})
}

// warn is event for what somebody should know of.
func (s *session) warn(format string, a ...any) {
	s.remember(told{fmt.Sprintf(format, a...), true})
}

// told is what is to be remembered of something that happened: nothing, if it is empty.
type told struct {
	text string
	warn bool
}

func (s *session) remember(what told) {
	if what.text == "" {
		return
	}
	e := control.Event{At: s.o.Now(), Text: what.text}
	if what.warn {
		e.Level = control.LevelWarn
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.history) >= maxHistory {
		s.history = append(s.history[:0:0], s.history[1:]...)
	}
	s.history = append(s.history, e)
}

// slept is for how long the machine slept, 0 for a time in which it did not, by
// how far each clock went. A wall clock that somebody sets looks the same, and
// costs no more than a look at everything.
func slept(wall, monotonic time.Duration) time.Duration {
	if d := wall - monotonic; d >= sleptFor {
		return d
	}
	return 0
}

// watchSleep notices that the machine slept, and looks after everything then:
// what the registry holds may be gone, and its connections dead. At each look it notes
// what else has changed.
func (s *session) watchSleep(ctx context.Context) error {
	tick := time.NewTicker(sleepTick)
	defer tick.Stop()
	wall, monotonic := s.o.Now().Round(0), time.Now()
	var seen news
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		w, m := s.o.Now().Round(0), time.Now()
		if d := slept(w.Sub(wall), m.Sub(monotonic)); d > 0 {
			s.wake(ctx, d)
			w, m = s.o.Now().Round(0), time.Now()
		}
		wall, monotonic = w, m
		s.note(&seen)
	}
}

// wake brings a session back after its machine slept, and returns when it is
// back or ctx ends.
func (s *session) wake(ctx context.Context, slept time.Duration) {
	began := time.Now()
	s.o.Log.Warn("this machine slept", "for", spell(slept))
	s.setWaking(true)
	defer s.setWaking(false)
	if s.claims != nil {
		s.claims.session.Check()
	}
	for _, v := range s.services {
		for _, p := range v.all() {
			p.hold.Beat()
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := false
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.back() {
			s.event("slept %s, back in %s", spell(slept), spell(time.Since(began)))
			return
		}
		if !late && time.Since(began) > awakeWithin {
			late = true
			s.warn("slept %s, and not back after %s", spell(slept), spell(awakeWithin))
		}
	}
}

// back says whether everything is as before: the registry's answers are fresh,
// and every registration is shown and beaten.
func (s *session) back() bool {
	if s.watcher.Catalog().Trust.State != lane.Fresh {
		return false
	}
	for _, v := range s.services {
		if !v.place().confirmed() {
			return false
		}
	}
	return true
}

func (s *session) setWaking(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case on && s.state == control.SessionUp:
		s.state = control.SessionWaking
	case !on && s.state == control.SessionWaking:
		s.state = control.SessionUp
	}
}

// spell is a duration as one says it.
func spell(d time.Duration) string {
	d = d.Round(time.Second)
	switch h, m, sec := int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60; {
	case h > 0:
		return fmt.Sprintf("%d h %02d m", h, m)
	case m > 0:
		return fmt.Sprintf("%d m %02d s", m, sec)
	default:
		return fmt.Sprintf("%d s", sec)
	}
}
