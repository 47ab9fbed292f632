package consul

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// Run renews the session and watches its claims until ctx ends or Destroy is
// called, and then returns nil. A session that the registry has ended (it
// restarted empty, or this machine slept) is opened again and its claims are
// taken again; where another holds one by then, Run returns a *ClaimLostError,
// as it does when one is taken over. It returns ErrSessionLost when no session
// can be opened.
func (s *Session) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lost := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.watch(ctx); err != nil {
			lost <- err
		}
	}()
	defer func() { <-done }()
	defer cancel()

	renew := time.NewTicker(max(s.o.TTL/10, time.Second))
	defer renew.Stop()
	var retry <-chan time.Time
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-lost:
			if errors.Is(err, errClosed) {
				return nil
			}
			return err
		case <-renew.C:
		case <-s.suspect:
		case <-retry:
		}
		retry = nil
		err := s.check(ctx)
		var lost *ClaimLostError
		var denied *DeniedError
		switch {
		case err == nil && away:
			away = false
			s.watching.again()
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errClosed):
			return nil
		case errors.As(err, &lost) && s.o.Lost != nil:
			s.forget(lost)
			// What it wrote is of no claim now; what the next holder wrote has his lock.
			key := activityKey(lost.Lane, lost.Service)
			s.c.removeActivity(ctx, key, key, s.ID())
			s.o.Lost(lost)
			s.Check() // the others have not been looked at
		case errors.As(err, &lost):
			return err
		case errors.As(err, &denied):
			return fmt.Errorf("%w: %w", ErrSessionLost, err)
		default: // the registry is away, and the session lives for its TTL
			away = true
			retry = time.After(time.Second)
		}
	}
}

// check renews the session, opens it again if it is no more, and verifies every
// claim against the registry itself.
func (s *Session) check(ctx context.Context) error {
	alive, err := s.renew(ctx, s.ID())
	if err != nil {
		return err
	}
	if s.isClosed() {
		return errClosed
	}
	if !alive {
		if err := s.reopen(ctx); err != nil {
			return err
		}
	}
	for _, cl := range s.claims() {
		if err := s.verify(ctx, cl); err != nil {
			return err
		}
	}
	return s.endFormer(ctx)
}

// endFormer ends the session's former selves. They should be gone; but a registry that
// has just restarted may not know for a moment what it has on disk.
func (s *Session) endFormer(ctx context.Context) error {
	s.mu.Lock()
	former := s.former
	s.mu.Unlock()
	if former == "" {
		return nil
	}
	if err := s.destroy(ctx, former); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.former == former {
		s.former = ""
	}
	return nil
}

// verify returns a *ClaimLostError when the claim is no longer ours. A claim of
// the session's former self is taken again.
func (s *Session) verify(ctx context.Context, cl lane.Claim) error {
	if cl.Session != s.ID() {
		err := s.Claim(ctx, cl)
		var held *ClaimHeldError
		if errors.As(err, &held) && held.Held.Session == cl.Session {
			// The registry denied our session, and has it after all: nobody else is there.
			err = s.TakeOver(ctx, held.Held, cl)
		}
		if errors.As(err, &held) {
			return &ClaimLostError{Lane: cl.Lane, Service: cl.Service, By: held.Held}
		}
		return err
	}
	held, found, err := s.c.held(ctx, cl.Lane, cl.Service)
	if err != nil || found && held.Session == cl.Session || !s.owns(cl) {
		return err
	}
	if !found { // a session that ends takes its keys along: then it is no loss yet
		if alive, err := s.renew(ctx, cl.Session); err != nil || !alive {
			return err
		}
	}
	return &ClaimLostError{Lane: cl.Lane, Service: cl.Service, By: held}
}

// reopen opens another session in place of the one that has ended.
func (s *Session) reopen(ctx context.Context) error {
	id, err := s.open(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.former, s.id = s.id, id
	}
	s.mu.Unlock()
	if closed {
		return errors.Join(errClosed, s.destroy(ctx, id))
	}
	if s.o.Reopened != nil {
		s.o.Reopened()
	}
	return nil
}

// forget drops a claim that has been lost.
func (s *Session) forget(lost *ClaimLostError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.own, claimKey(lost.Lane, lost.Service))
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Session) claims() []lane.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]lane.Claim, 0, len(s.own))
	for _, cl := range s.own {
		out = append(out, cl)
	}
	return out
}

func (s *Session) owns(cl lane.Claim) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, ok := s.own[claimKey(cl.Lane, cl.Service)]
	return ok && now == cl
}

// watch follows the prefix of the session's claims and raises suspect whenever
// one of them does not look like ours. An answer may be older than a claim just
// taken, so it is only a suspicion; check decides.
func (s *Session) watch(ctx context.Context) error {
	for {
		if s.isClosed() {
			return errClosed
		}
		prefix := s.prefix()
		if prefix == "" { // nothing claimed yet
			select {
			case <-ctx.Done():
				return nil
			case <-s.watching.kick:
			}
			continue
		}
		err := s.watchPrefix(ctx, prefix)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// watchPrefix returns nil when the session's prefix is another one, or ctx ends.
func (s *Session) watchPrefix(ctx context.Context, prefix string) error {
	var index, start uint64
	pace := newPace(time.Second, 30*time.Second)
	for s.prefix() == prefix && ctx.Err() == nil {
		if !pace.wait(ctx, s.watching.kick) {
			return nil
		}
		qctx, cancel, now := s.watching.begin(ctx)
		if now != start {
			start, index = now, 0
			pace.succeeded()
			if s.prefix() != prefix {
				cancel()
				return nil
			}
		}
		limit := callTimeout
		if index > 0 {
			limit = defaultWait + defaultWait/16 + 2*callTimeout
		}
		qctx, expire := context.WithTimeout(qctx, limit)
		pairs, meta, err := s.c.api.KV().List(prefix, following(qctx, index, defaultWait))
		expire()
		cancel()
		if s.watching.over(start) {
			continue
		}
		if err != nil {
			index = 0
			if !pace.failed(ctx, s.watching.kick) {
				return nil
			}
			continue
		}
		pace.succeeded()
		index = nextIndex(index, meta.LastIndex)
		if !s.looksOurs(pairs) {
			s.Check()
		}
	}
	return nil
}

func (s *Session) looksOurs(pairs api.KVPairs) bool {
	holder := make(map[string]string, len(pairs))
	for _, p := range pairs {
		holder[p.Key] = p.Session
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, cl := range s.own {
		if holder[key] != cl.Session {
			return false
		}
	}
	return true
}

// prefix is the narrowest prefix of all claims of the session, "" without one.
func (s *Session) prefix() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	prefix := ""
	for _, cl := range s.own {
		p := declaredPrefix + string(cl.Lane) + "/"
		if prefix != "" && p != prefix {
			return declaredPrefix
		}
		prefix = p
	}
	return strings.Clone(prefix)
}
