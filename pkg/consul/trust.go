package consul

import (
	"context"
	"time"

	"lane/pkg/lane"
)

// leaderAnswer is one ask for the registry's leader.
type leaderAnswer struct {
	leader string // empty: the agent answers and knows none
	err    error
}

type leaderState struct {
	outcome  bool // asked at least once
	answered bool // and answered at least once
	leader   string
	failed   int // asks in a row
	err      error
	fresh    time.Time // the last time that the catalog was fresh
	well     time.Time // the last time that it was, and nothing failed
}

// askLeader asks for the leader, at once and then with every tick. A watch that
// answers is no proof: one in flight goes on and returns old data when the
// leader is gone.
func (w *Watcher) askLeader(ctx context.Context, out chan<- leaderAnswer) {
	for failed := 0; ; {
		began := time.Now()
		leader, err := w.c.leader(ctx)
		select {
		case out <- leaderAnswer{leader: leader, err: err}:
		case <-ctx.Done():
			return
		}
		every := w.o.LeaderEvery
		if failed++; err == nil && leader != "" {
			failed = 0
		} else if failed >= 2 { // it is away: what waits for it is not to wait longer than it takes
			every = min(every, time.Second)
		}
		if !pause(ctx, max(0, every-time.Since(began)), nil) {
			return
		}
	}
}

// ask applies an answer. When the registry is back, or another one answers,
// every watch starts over, and what it said before counts as old until then.
func (l *loop) ask(a leaderAnswer) {
	s := &l.leader
	s.outcome = true
	if s.answered && (a.err != nil || a.leader == "") {
		l.unwell = l.w.o.Now()
	}
	if a.err != nil {
		s.failed++
		s.err = a.err
		return
	}
	failed, hung := s.failed > 0, isUnreachable(s.err)
	back := s.answered && a.leader != "" && (s.failed > 1 || s.leader != a.leader)
	s.answered, s.failed, s.leader, s.err = true, 0, a.leader, nil
	if a.leader == "" {
		s.err = &NoLeaderError{Address: l.w.c.Address()}
	}
	if back {
		l.startOver()
	} else if a.leader != "" && failed {
		for _, src := range l.all() {
			// No need to sit a pause out; and where one ask got no answer at
			// all, a watch in flight may hang on the same dead path.
			if src.err == nil && hung || src.err != nil && !isDenied(src.err) {
				src.again()
			}
		}
	}
}

// startOver makes every watch ask anew, and holds what it last said for old
// until it has.
func (l *loop) startOver() {
	for _, src := range l.all() {
		src.behind = src.answered
		src.due = src.again()
	}
}

// judge says how far the catalog can be trusted, and the failure to show.
func (l *loop) judge() (lane.Trust, error) {
	s := &l.leader
	now := l.w.o.Now()
	err := s.err
	trust := lane.Trust{State: lane.Fresh, Since: s.fresh}
	switch {
	case !s.answered || s.failed >= 2:
		trust.State = lane.Unreachable
	case s.leader == "":
		trust.State = lane.Stale
	}
	for _, src := range l.all() {
		if src.err != nil && (err == nil || isDenied(err) && !isDenied(src.err)) {
			err = src.err
		}
		if l.old(src, now) && trust.State == lane.Fresh {
			trust.State = lane.Stale
		}
	}
	if trust.State == lane.Fresh {
		s.fresh = now
		trust.Since = now
		if err == nil || isDenied(err) {
			s.well = now
		}
	}
	return trust, err
}

// shown is what is shown of a trust. A failure is shown at once: that it is put up
// with for a while, so that requests need not see each hiccup, is no reason to say
// that all is well.
func (s *leaderState) shown(trust lane.Trust, err error) lane.Trust {
	trust.Since = s.well
	if trust.State == lane.Fresh && err != nil && !isDenied(err) {
		trust.State = lane.Stale
		if isUnreachable(err) {
			trust.State = lane.Unreachable
		}
	}
	return trust
}

// tell logs the beginning and the end of an outage, a line each.
func (l *loop) tell(trust lane.Trust, err error) {
	s, log := &l.leader, l.w.o.Log
	switch {
	case trust.State == lane.Fresh:
		if !l.away.IsZero() {
			log.Warn("the registry answers again", "registry", l.w.c.Address(), "away since", l.away.Format(time.RFC3339))
		}
		l.away = time.Time{}
	case l.away.IsZero() && !s.well.IsZero() && err != nil && !isDenied(err):
		l.away = s.well
		log.Warn("the registry does not answer as it should: requests are routed by what was last known", "registry", l.w.c.Address(),
			"since", l.away.Format(time.RFC3339), "error", err)
	}
}

// old reports whether what a source last said may no longer be so. A denied one
// is not old: the service is marked as cut instead.
func (l *loop) old(src *source, now time.Time) bool {
	switch {
	case isDenied(src.err):
		return false
	case src.behind, src.answer.contact > staleContact:
		return true
	case src.err == nil:
		return false
	}
	return !src.answered || now.Sub(src.failing) >= l.w.o.Tolerate
}
