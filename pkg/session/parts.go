package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"lane/pkg/control"

	"golang.org/x/sync/errgroup"
)

// parts are the goroutines of a session. One that fails ends the session, but
// not the others: they serve until what is under way has been waited for.
type parts struct {
	group errgroup.Group
	fail  func()
}

// run runs f as a part; whatever it says of its context's end is no failure.
func (p *parts) run(ctx context.Context, f func(context.Context) error) {
	p.group.Go(func() error {
		err := f(ctx)
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			p.fail()
		}
		return err
	})
}

// until runs every f as a part until life ends or stop is called, which waits for
// them.
func (p *parts) until(life context.Context, all ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(life)
	var running sync.WaitGroup
	for _, f := range all {
		running.Add(1)
		p.run(ctx, func(ctx context.Context) error {
			defer running.Done()
			return f(ctx)
		})
	}
	return func() { cancel(); running.Wait() }
}

// wait waits for all parts and returns the first failure.
func (p *parts) wait() error { return p.group.Wait() }

// show runs the viewer until ctx ends; when it leaves by itself, the session
// ends, unless it has been detached. The function that it returns waits for it and returns its failure. A
// viewer hangs when nobody reads what it prints: it is not waited for forever.
func (s *session) show(ctx context.Context) (wait func() error) {
	if s.o.View == nil {
		return func() error { return nil }
	}
	viewed := make(chan error, 1)
	go func() {
		err := s.o.View(ctx, view{s})
		if ctx.Err() != nil {
			err = nil // the session has ended its viewer: that says nothing new
		}
		if err != nil || !s.alone() {
			s.cancel(errLeft)
		}
		viewed <- err
	}()
	return func() error {
		limit := time.NewTimer(s.o.step)
		defer limit.Stop()
		select {
		case err := <-viewed:
			return err
		case <-limit.C:
			return errors.New("nobody reads what the session shows: it ends without showing the rest")
		}
	}
}

// detach has the session go on without its viewer, if it is up.
func (s *session) detach(log string) bool {
	s.mu.Lock()
	up := s.state == control.SessionUp
	if up {
		s.parted, s.logPath = true, log
	}
	s.mu.Unlock()
	if up {
		s.event("detached: it goes on without its terminal")
		s.inform() // of its log
	}
	return up
}

// alone says that the session goes on without a viewer.
func (s *session) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parted
}
