package session

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"lane/pkg/child"
	"lane/pkg/control"
)

// tearDown removes everything that the session put anywhere. In this order a
// caller sees lane_drained, then lane_absent, and never an unhealthy lane; a
// crash in between leaves an instance that expires by itself.
func (s *session) tearDown(ctx context.Context) error {
	defer s.forceOn(ctx)()
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	if s.forward != nil {
		s.forward.Mark()
	}
	s.setState(control.SessionDraining)
	var left []error
	note := func(err error) {
		if err != nil {
			left = append(left, err)
		}
	}
	// Whatever writes to the registry by itself ends before what it wrote is removed.
	if s.endWrites != nil {
		s.endWrites()
	}
	for _, v := range s.services {
		v.end()
	}
	s.markDraining(ctx)
	s.drain(ctx)
	s.each(func(_ *service, p *place) { p.endBeat() })
	released := s.releaseClaims(ctx)
	note(released)
	if released == nil {
		// A session that starts just now may hold them already. Who cannot know
		// removes: what is missing, its holder registers again.
		if err := s.lookForHeirs(ctx); err != nil {
			s.o.Log.Warn("look for other holders", "error", err)
		}
	}
	var mu sync.Mutex
	asking, stopAsking := s.askRelay(ctx)
	defer stopAsking()
	s.each(func(_ *service, p *place) {
		err := s.deregister(asking, p)
		mu.Lock()
		defer mu.Unlock()
		note(err)
	})
	if s.child != nil {
		c, cancel := context.WithCancel(ctx)
		defer cancel()
		s.waits("its command to end")
		defer s.waits("")
		stop := s.onForce(cancel)
		// How the command ends now is no news: it was told to.
		var exit *child.ExitError
		if err := s.child.Stop(c); err != nil && !errors.As(err, &exit) {
			note(err)
		}
		stop()
	}
	s.closeFronts(began)
	if len(left) > 0 {
		return &LeftBehindError{What: left}
	}
	return nil
}

// markDraining tells callers that nothing new is to come. It is a courtesy:
// what matters is the deregistration.
func (s *session) markDraining(ctx context.Context) {
	if err := s.lookForHeirs(ctx); err != nil {
		s.o.Log.Warn("mark as draining", "error", err)
		return // it would only wait for the same registry
	}
	s.each(func(v *service, p *place) {
		switch {
		case p.heir:
			p.endBeat() // it would speak for the other's process
		case p.touched.Load() && p.confirmed():
			if err := s.within(ctx, p.hold.Drain); err != nil {
				s.o.Log.Warn("mark as draining", "service", v.o.Name, "error", err)
			}
		}
	})
}

// impatience is what ends the waiting of an end under way, as a user does it.
func (s *session) impatience() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logPath != "" {
		return "lane down --force"
	}
	return "Ctrl-C"
}

// forcedAnswer is how long a forced end waits for the answer of a relay that is there.
const forcedAnswer = 2 * time.Second

// askRelay is ctx, which a forced end ends too where a relay is asked to remove what it
// has registered. One that is away is waited for, and that is said.
func (s *session) askRelay(ctx context.Context) (context.Context, func()) {
	if s.link == nil || len(s.services) == 0 || !s.link.met() {
		return ctx, func() {}
	}
	if err := s.link.up(); err != nil {
		s.o.Log.Warn("waiting for the relay, which is to remove what it has registered; "+s.impatience()+" ends the wait", "error", err, "at most", s.o.step)
	}
	ctx, cancel := context.WithCancel(ctx)
	quit := make(chan struct{})
	stop := s.onForce(func() {
		if s.link.up() == nil { // it answers at once: who does not wait for requests is still told what is true
			select {
			case <-time.After(forcedAnswer):
			case <-quit:
			}
		}
		cancel()
	})
	return ctx, func() { close(quit); stop(); cancel() }
}

// deregister removes what may stand in the registry in a place.
func (s *session) deregister(ctx context.Context, p *place) error {
	switch {
	case p.heir:
		return nil
	case p.touched.Load():
		return s.within(ctx, p.hold.Deregister)
	case p.inherits:
		return s.within(ctx, func(ctx context.Context) error { return s.client.Deregister(ctx, p.reg.ID) })
	}
	return nil
}

// forceOn makes the next interruption end the waiting, if it was not one that
// began the end; the function that it returns ends that.
func (s *session) forceOn(ctx context.Context) func() bool {
	if ctx.Err() != nil {
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, s.endWaiting)
}

func (s *session) endWaiting() { s.force.Do(func() { close(s.forced) }) }

// each runs f for every place of every service at once and waits.
func (s *session) each(f func(*service, *place)) {
	var all sync.WaitGroup
	for _, v := range s.services {
		for _, p := range v.all() {
			all.Go(func() { f(v, p) })
		}
	}
	all.Wait()
}

// lastCalls is how long the fronts wait at the very end when the drain time is over, or
// nobody has the patience for it: for requests that came in between.
const lastCalls = 500 * time.Millisecond

// longestDrain bounds a front's own wait, which over ends.
func (s *session) longestDrain() time.Duration { return max(s.o.Drain, lastCalls) }

// closeFronts ends the guards and the coloring proxy: nothing new is let in, and what is
// under way by now has what is left of the drain time. All that a call needs, the watch
// and the tunnel, is there until then.
func (s *session) closeFronts(began time.Time) {
	var once sync.Once
	t := time.AfterFunc(max(s.o.Drain-time.Since(began), lastCalls), func() { once.Do(func() { close(s.over) }) })
	defer t.Stop()
	defer s.onForce(func() { t.Reset(lastCalls) })()
	var all sync.WaitGroup
	for _, end := range s.endFronts {
		all.Go(end)
	}
	all.Wait()
}

// drain waits for the requests under way, the drain time at most: those of others that
// came to a guard, and the session's own calls. The latter may go on, an application's
// that polls for one: only those that were under way when the end began are waited for
// here.
func (s *session) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Drain)
	defer cancel()
	defer s.onForce(cancel)()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	defer s.waits("")
	for said := false; ; {
		busy, calls := 0, 0
		for _, v := range s.services {
			busy += v.guard.InFlight()
		}
		if s.forward != nil {
			calls = s.forward.Marked()
		}
		if busy == 0 && calls == 0 {
			return
		}
		s.waits(underWay(busy, calls) + ", " + spell(s.o.Drain) + " at most")
		if !said {
			said = true
			s.o.Log.Warn("waiting for requests under way; "+s.impatience()+" ends the wait", "requests", busy, "own calls", calls, "at most", s.o.Drain)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.o.Log.Warn("requests were still under way", "requests", busy, "own calls", calls)
			return
		}
	}
}

// underWay is what a drain waits for, in words.
func underWay(requests, calls int) string {
	var of []string
	for _, n := range []struct {
		of        int
		one, many string
	}{{requests, "request", "requests"}, {calls, "own call", "own calls"}} {
		switch n.of {
		case 0:
		case 1:
			of = append(of, "1 "+n.one)
		default:
			of = append(of, strconv.Itoa(n.of)+" "+n.many)
		}
	}
	return strings.Join(of, " and ") + " under way"
}

// onForce calls f when somebody wants no more waiting; the function that it
// returns ends that and waits for it.
func (s *session) onForce(f func()) func() {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.o.Force:
			f()
		case <-s.forced:
			f()
		case <-quit:
		}
	}()
	return func() { close(quit); <-done }
}
