package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
)

func pid() int { return os.Getpid() }

// claims is the registry session behind the claims of this session.
type claims struct {
	session *consul.Session
	stop    func() // ends the renewing and waits for it
}

// claim takes every service of the session in the lane.
func (s *session) claim(ctx, life context.Context, parts *parts) error {
	if len(s.services) == 0 || s.link != nil { // the relay claims
		return nil
	}
	if err := s.at(ctx, "session"); err != nil {
		return err
	}
	// The guardian is told first: killed with the answer under way, nobody would know
	// the ID of what the registry has opened.
	name := fmt.Sprintf("lane %s %s %s", s.o.Lane, s.o.Owner, rand.Text()[:8])
	s.mu.Lock()
	s.sessionName = name
	s.mu.Unlock()
	if err := s.tell(); err != nil {
		return err
	}
	var held *consul.Session
	err := s.surely(ctx, func(ctx context.Context) (err error) {
		held, err = s.client.OpenSession(ctx, consul.SessionOptions{TTL: s.o.ClaimTTL, Name: name, Late: s.o.hold.Late,
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
	s.mu.Lock()
	for _, v := range s.services {
		p := v.place()
		p.record = s.record(v, p)
	}
	s.mu.Unlock()
	if err := s.tell(); err != nil {
		return err
	}
	for _, v := range s.services {
		if err := s.at(ctx, "claim"); err != nil {
			return err
		}
		if err := s.surely(ctx, func(ctx context.Context) error { return s.take(ctx, v) }); err != nil {
			return err
		}
	}
	s.claims.stop = parts.until(life, func(ctx context.Context) error {
		err := held.Run(ctx)
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
func (s *session) record(v *service, p *place) lane.Claim {
	return lane.Claim{Lane: s.o.Lane, Service: v.o.Name, Owner: s.o.Owner, Host: s.o.Host, Install: s.o.Install,
		Session: s.claims.session.ID(), Mode: p.mode, Registered: p.reg.Name, ID: p.reg.ID,
		Since: s.o.Now().Format(timeForm)}
}

// take claims one service: at once when nobody holds it, or when this owner's
// own session on this machine has crashed; by force when the user said so.
func (s *session) take(ctx context.Context, v *service) error {
	p := v.place()
	err := s.claims.session.Claim(ctx, p.record)
	var held *consul.ClaimHeldError
	if err == nil {
		v.holds(p.record.Since, "")
	}
	if !errors.As(err, &held) {
		return err
	}
	mine := held.Held.Install == s.o.Install && held.Held.Owner == s.o.Owner
	if mine && !s.o.TakeOver {
		near, silent, err := s.neighbours(ctx)
		if err != nil {
			return err
		}
		if f, ok := control.Holding(near, s.o.Lane, v.o.Name); ok {
			return &BusyError{Lane: s.o.Lane, Service: v.o.Name, PID: f.Status.PID}
		}
		if silent != nil {
			return silent // it may be the holder
		}
	}
	if s.o.Join && !s.o.TakeOver && held.Held.Install != s.o.Install {
		if err := s.join(v, held.Held); err != nil {
			return err
		}
		return s.besideTwin(ctx, v.o.Name)
	}
	if !mine && !s.o.TakeOver {
		return held
	}
	// Its instance, if it bears our ID, is ours to remove from here on: the
	// former holder, or its guardian, leaves it alone.
	p.inherits = held.Held.ID == p.reg.ID
	if err := s.claims.session.TakeOver(ctx, held.Held, p.record); err != nil {
		return err
	}
	from := ""
	if !mine || s.o.TakeOver {
		from = lane.Holder(orSomebody(held.Held.Owner), held.Held.Host)
	}
	v.holds(p.record.Since, from)
	if from != "" {
		s.event("%s is taken over from %s", v.o.Name, from)
	}
	if mine && !s.o.TakeOver {
		if err := s.client.EndIfEmpty(ctx, held.Held.Session); err != nil {
			s.o.Log.Warn("the session of before, which has died, stays until its time is over", "error", err)
		}
	}
	if !p.inherits && consul.OwnID(held.Held.ID, s.o.Lane, v.o.Name, s.o.Install) {
		// Ours of before, under the other of its names: nobody else removes it.
		return s.client.Deregister(ctx, held.Held.ID)
	}
	return nil
}

// lookForHeirs marks the services that another session of this machine has
// taken over. It registers under the same ID: what stands under it in the
// registry is no longer ours to write or to remove.
func (s *session) lookForHeirs(ctx context.Context) error {
	if s.claims == nil {
		return nil
	}
	var all []lane.Claim
	err := s.within(ctx, func(ctx context.Context) (err error) {
		all, err = s.client.Claims(ctx, s.o.Lane)
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range s.services {
		for _, p := range v.all() {
			p.heir = slices.ContainsFunc(all, func(c lane.Claim) bool {
				return c.Service == v.o.Name && c.ID == p.reg.ID && c.Session != "" && c.Session != s.claims.session.ID()
			})
		}
	}
	return nil
}

// releaseClaims gives the claims up by destroying the session behind them: the
// registry deletes those that it still holds in the same moment.
func (s *session) releaseClaims(ctx context.Context) error {
	if s.claims == nil {
		return nil
	}
	if s.claims.stop != nil {
		s.claims.stop()
	}
	if err := s.within(ctx, s.claims.session.Destroy); err != nil {
		return &ClaimsLeftError{Lane: s.o.Lane, Within: 2 * s.o.ClaimTTL, Err: err}
	}
	return nil
}
