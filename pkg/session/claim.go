package session

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"

	"golang.org/x/sync/errgroup"
)

func pid() int { return os.Getpid() }

// claims is the registry session behind the claims of this session.
type claims struct {
	session *consul.Session
	stop    func() // ends the renewing and waits for it
}

// claim takes every service of the session in the lane.
func (s *session) claim(ctx, life context.Context, parts *errgroup.Group) error {
	if len(s.services) == 0 {
		return nil
	}
	if err := s.at(ctx, "session"); err != nil {
		return err
	}
	var held *consul.Session
	err := surely(ctx, func(ctx context.Context) (err error) {
		held, err = s.client.OpenSession(ctx, consul.SessionOptions{TTL: s.o.ClaimTTL, Name: "lane " + string(s.o.Lane) + " " + s.o.Owner,
			Reopened: func() {
				if err := s.tell(); err != nil {
					s.o.Log.Warn("the guardian does not know the new session", "error", err)
				}
			}})
		return err
	})
	if held != nil {
		s.mu.Lock()
		s.claims = &claims{session: held}
		s.mu.Unlock()
	}
	if err != nil {
		return err
	}
	for _, v := range s.services {
		v.record = s.record(v)
	}
	if err := s.tell(); err != nil {
		return err
	}
	for _, v := range s.services {
		if err := s.at(ctx, "claim"); err != nil {
			return err
		}
		if err := surely(ctx, func(ctx context.Context) error { return s.take(ctx, v) }); err != nil {
			return err
		}
	}
	renewing, stop := context.WithCancel(life)
	var work sync.WaitGroup
	s.claims.stop = func() { stop(); work.Wait() }
	work.Add(1)
	parts.Go(func() error {
		defer work.Done()
		err := endOf(renewing, held.Run(renewing))
		var lost *consul.ClaimLostError
		if errors.As(err, &lost) {
			for _, v := range s.services {
				if v.o.Name == lost.Service {
					v.setLost(err.Error())
				}
			}
		}
		return err
	})
	return nil
}

// record is what a claim says of its holder.
func (s *session) record(v *service) lane.Claim {
	return lane.Claim{Lane: s.o.Lane, Service: v.o.Name, Owner: s.o.Owner, Host: s.o.Host, Install: s.o.Install,
		Session: s.claims.session.ID(), Mode: s.o.Mode, Registered: v.reg.Name, ID: v.reg.ID,
		Since: s.o.Now().Format(time.RFC3339)}
}

// take claims one service: at once when nobody holds it, or when this owner's
// own session on this machine has crashed; by force when the user said so.
func (s *session) take(ctx context.Context, v *service) error {
	err := s.claims.session.Claim(ctx, v.record)
	var held *consul.ClaimHeldError
	if !errors.As(err, &held) {
		return err
	}
	mine := held.Held.Install == s.o.Install && held.Held.Owner == s.o.Owner
	if mine && !s.o.TakeOver {
		running, err := control.Sessions(ctx, s.o.RuntimeDir)
		if err != nil {
			return err
		}
		for _, f := range running {
			if f.Status.PID != pid() && holds(f, s.o.Lane, v.o.Name) {
				return &BusyError{Lane: s.o.Lane, Service: v.o.Name, PID: f.Status.PID}
			}
		}
	}
	if !mine && !s.o.TakeOver {
		return held
	}
	return s.claims.session.TakeOver(ctx, held.Held, v.record)
}

func holds(f control.Found, l lane.Name, service string) bool {
	_, ok := control.Holding([]control.Found{f}, l, service)
	return ok
}

// releaseClaims gives the claims up and destroys the session behind them.
func (s *session) releaseClaims(ctx context.Context) error {
	if s.claims == nil {
		return nil
	}
	if s.claims.stop != nil {
		s.claims.stop()
	}
	// Destroying the session deletes its keys; releasing them first spares the
	// watchers the moment in between.
	return within(ctx, s.claims.session.Destroy)
}
