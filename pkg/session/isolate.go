package session

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"lane/pkg/consul"
)

const (
	// overlap is how long an instance stands under both of its names: callers that
	// look at lanes have to be told of the second one, ask for it and get it, before
	// the first one goes.
	overlap = 400 * time.Millisecond
	// policyLook is between two looks at the policy of an isolated service.
	policyLook = 3 * time.Second
	// again is the pause before a step that failed is tried again.
	again = time.Second
)

// timeForm is how this session writes its own clock for others to read.
const timeForm = time.RFC3339

// firstMode is how a service is registered at the start: as the settings say,
// and with ModeAuto as the registry has learned.
func (s *session) firstMode(ctx context.Context, v *service) string {
	switch {
	case s.o.Mode != ModeAuto:
		return s.o.Mode
	case s.link != nil:
		return ModeShared // the relay asks, and tells
	}
	var policy consul.ServicePolicy
	var found bool
	err := s.within(ctx, func(ctx context.Context) (err error) {
		policy, found, err = s.client.ServicePolicy(ctx, v.o.Name)
		return err
	})
	switch {
	case err != nil:
		v.warn(fmt.Sprintf("%s: it begins under its own name, because its policy cannot be read: %v", v.o.Name, err))
	case found && policy.Mode == ModeShared:
		v.pinned = true
	case found && s.isolable(v) == nil:
		v.isolatedBy(isolatedBecause(policy))
		return ModeIsolated
	case found:
		v.warn(fmt.Sprintf("%s; it stays under its own name all the same: %v", isolatedBecause(policy), s.isolable(v)))
	}
	return ModeShared
}

// isolatedBecause says in one line what a policy holds and how to end it.
func isolatedBecause(p consul.ServicePolicy) string {
	text := p.Service + ": isolated"
	switch {
	case p.Caller != "":
		text += fmt.Sprintf(", because %s called a lane's instance without its tag", p.Caller)
	case p.Note != "":
		text += " (" + p.Note + ")"
	default:
		text += " by its policy"
	}
	if p.By != "" || p.Since != "" {
		text += fmt.Sprintf(" [%s %s]", p.By, p.Since)
	}
	return text + "; take that back with: lane policy clear " + p.Service
}

// watchPolicy keeps what is said of the policy that has isolated a service: it may be
// cleared, or another one, while the session stays where it is.
func (s *session) watchPolicy(v *service) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(policyLook)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			if !v.policed() {
				continue
			}
			var policy consul.ServicePolicy
			var found bool
			err := s.within(ctx, func(ctx context.Context) (err error) {
				policy, found, err = s.client.ServicePolicy(ctx, v.o.Name)
				return err
			})
			if err == nil {
				v.isolatedBy(policyNow(v.o.Name, policy, found))
			}
		}
	}
}

// policyNow is what to say of the policy of a service that is isolated.
func policyNow(service string, p consul.ServicePolicy, found bool) string {
	switch {
	case !found:
		return service + ": isolated, and the policy for that is cleared; lane down and lane up registers it shared"
	case p.Mode == ModeShared:
		return service + ": isolated, and its policy says shared by now; lane down and lane up registers it so"
	}
	return isolatedBecause(p)
}

// isolable says why a service cannot have its isolated name, or nil.
func (s *session) isolable(v *service) error {
	_, err := s.newPlace(v, ModeIsolated)
	return err
}

// strayed hears of a caller that does not look at lanes. It never blocks.
func (v *service) strayed(caller netip.Addr) {
	select {
	case v.stray <- caller:
	default: // one is enough
	}
}

// watchStrays moves a service to its isolated name when somebody who does not
// look at lanes has found it under its own.
func (s *session) watchStrays(life context.Context, parts *parts, v *service) func(context.Context) error {
	return func(ctx context.Context) error {
		if s.o.Mode != ModeAuto || v.place().mode != ModeShared {
			return nil
		}
		var caller netip.Addr
		select {
		case caller = <-v.stray:
		case <-ctx.Done():
			return nil
		}
		if why := s.isolable(v); v.pinned || why != nil {
			if v.pinned {
				why = errors.New("its policy says shared")
			}
			v.warn(fmt.Sprintf("%s: %s called it without its lane's tag and was sent to the baseline; it stays under its own name: %v", v.o.Name, caller, why))
			return nil
		}
		for {
			err := s.isolate(ctx, life, parts, v, caller)
			if err == nil || ctx.Err() != nil {
				return nil
			}
			s.o.Log.Warn("move to the isolated name", "service", v.o.Name, "error", err)
			var held *consul.ClaimHeldError
			if errors.As(err, &held) {
				return nil // the session ends by that
			}
			select {
			case <-time.After(again):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// isolate moves a service to its isolated name. It may be called again after an
// error.
func (s *session) isolate(ctx, life context.Context, parts *parts, v *service, caller netip.Addr) error {
	return s.move(ctx, life, parts, v, ModeIsolated, func(next *place) error {
		next.record = s.record(v, next)
		return s.surely(ctx, func(ctx context.Context) error { return s.claims.session.Claim(ctx, next.record) })
	}, func(next *place) {
		s.learn(ctx, v, consul.ServicePolicy{Service: v.o.Name, Mode: ModeIsolated, Caller: caller.String(),
			By: s.o.Owner + " on " + s.o.Host, Since: s.o.Now().Format(timeForm)})
		s.o.Log.Warn("isolated", "service", v.o.Name, "name", next.reg.Name, "caller", caller.String())
		s.warn("%s is isolated: %s called it without its lane's tag", v.o.Name, caller)
	})
}

// move brings a service to its other place. In this order no request of the lane
// fails: the claim names the new place, so that routers ask for it; the instance
// stands in both; it leaves the old one. there is called when it stands in both.
// It may be called again after an error.
func (s *session) move(ctx, life context.Context, parts *parts, v *service, mode string, name func(next *place) error, there func(next *place)) error {
	v.turn.Lock()
	defer v.turn.Unlock()
	old, next := v.first(), v.place()
	if next == old {
		var err error
		if next, err = s.newPlace(v, mode); err != nil {
			return err
		}
		next.hold.SetApp(v.health())
		next.record = s.record(v, next)
		v.add(next)
		if err := s.tell(); err != nil {
			return err
		}
	}
	if err := name(next); err != nil {
		return err
	}
	next.touched.Store(true)
	if err := s.enroll(ctx, next); err != nil {
		return err
	}
	if next.stopBeat == nil {
		next.stopBeat = parts.until(life, next.hold.Run)
		v.guard.Moved(next.reg.ID)
		there(next)
	}
	select {
	case <-time.After(overlap):
	case <-ctx.Done(): // the end removes both
		return nil
	}
	old.endBeat()
	if err := s.surely(ctx, old.hold.Deregister); err != nil {
		return err
	}
	v.drop(old)
	return s.tell()
}

// learn remembers for everybody that a service has callers that do not look at
// lanes, unless an operator has said otherwise.
func (s *session) learn(ctx context.Context, v *service, p consul.ServicePolicy) {
	err := s.surely(ctx, func(ctx context.Context) error {
		_, err := s.client.LearnPolicy(ctx, p)
		return err
	})
	if err == nil {
		v.isolatedBy(isolatedBecause(p))
	} else {
		v.warn(isolatedBecause(p))
		v.warn(fmt.Sprintf("%s: that it has to be isolated is not remembered for the next session: %v", v.o.Name, err))
	}
}
