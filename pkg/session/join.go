package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
)

const (
	// lookAround is between two looks at what the others of the lane do.
	lookAround = 200 * time.Millisecond
	// activeEvery is at least between two writes of the last activity.
	activeEvery = 30 * time.Second
)

// join has the service stand beside the instance of whoever holds its claim,
// under the same name: callers look for the lane where the claim says.
func (s *session) join(v *service, holder lane.Claim) error {
	p, err := s.newPlace(v, modeOf(holder))
	if err != nil {
		return err
	}
	p.record = s.record(v, p)
	v.guard.Moved(p.reg.ID)
	v.mu.Lock()
	v.places, v.holder = []*place{p}, holder
	v.mu.Unlock()
	return s.tell()
}

// modeOf is the mode that a claim names.
func modeOf(c lane.Claim) string {
	if c.Registered != c.Service {
		return ModeIsolated
	}
	return ModeShared
}

// joined is whose claim the service has joined.
func (v *service) joined() (holder lane.Claim, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.holder, v.holder.Session != ""
}

func (v *service) joins(holder lane.Claim) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.holder = holder
}

// beside follows the holder of a claim that a service has joined: to another
// name, and into its place when it has gone; from then on it is a holder.
func (s *session) beside(life context.Context, parts *parts, v *service) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(s.o.tick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
			cat := s.watcher.Catalog()
			if cat.Trust.State != lane.Fresh || cat.ClaimsUnknown {
				continue // nothing is concluded from what may be old
			}
			now, held := standingClaim(cat, s.o.Lane, v.o.Name)
			var err error
			switch {
			case !held:
				if err = s.succeed(ctx, v); err == nil {
					return s.watchStrays(life, parts, v)(ctx)
				}
			case now.Install == s.o.Install:
				// A session of this machine has taken the claim, and stands in our place:
				// it registers under our ID.
				lost := &consul.ClaimLostError{Lane: s.o.Lane, Service: v.o.Name, By: now}
				v.setLost(lost.Error())
				return lost
			case modeOf(now) != v.place().mode:
				v.joins(now)
				err = s.move(ctx, life, parts, v, modeOf(now), func(*place) error { return nil }, func(*place) {})
			default:
				v.joins(now)
			}
			var first *consul.ClaimHeldError
			if err != nil && ctx.Err() == nil && !errors.As(err, &first) {
				s.o.Log.Warn("stand beside another instance", "service", v.o.Name, "error", err)
			}
		}
	}
}

// standingClaim is the claim of a lane on a service that somebody holds.
func standingClaim(cat *lane.Catalog, l lane.Name, service string) (lane.Claim, bool) {
	for _, c := range cat.Claims {
		if c.Lane == l && c.Service == service && c.Session != "" {
			return c, true
		}
	}
	return lane.Claim{}, false
}

// succeed takes the claim that its holder has given up.
func (s *session) succeed(ctx context.Context, v *service) error {
	p := v.place()
	p.record = s.record(v, p)
	if err := s.surely(ctx, func(ctx context.Context) error { return s.claims.session.Claim(ctx, p.record) }); err != nil {
		return err
	}
	v.joins(lane.Claim{})
	v.holds(p.record.Since, "")
	s.event("the claim on %s is ours: its holder has gone", v.o.Name)
	return s.tell()
}

// active writes when each service last served a request of its lane, for those
// who find it claimed. It is worth no retry.
func (s *session) active(ctx context.Context) error {
	tick := time.NewTicker(s.o.tick)
	defer tick.Stop()
	type mark struct {
		served uint64
		at     time.Time
	}
	last := make([]mark, len(s.services))
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for i, v := range s.services {
			n, now := v.guard.Served(), time.Now()
			if _, joined := v.joined(); joined || n == last[i].served || !last[i].at.IsZero() && now.Sub(last[i].at) < activeEvery {
				continue
			}
			last[i] = mark{n, now}
			if err := s.within(ctx, func(ctx context.Context) error {
				return s.claims.session.Active(ctx, s.o.Lane, v.o.Name, s.o.Now().Format(timeForm))
			}); err != nil {
				s.o.Log.Info("last activity", "service", v.o.Name, "error", err)
				var denied *consul.DeniedError
				if errors.As(err, &denied) && ctx.Err() == nil {
					v.warn(fmt.Sprintf("%s: who finds it claimed is not told when it was last called: %v", v.o.Name, err))
				}
			}
		}
	}
}

// company says who else serves a service in the lane. It begins with the
// service's name.
func company(c *lane.Catalog, l lane.Name, v *service) []string {
	svc := c.Service(v.o.Name)
	if svc == nil {
		return nil
	}
	own := map[string]bool{}
	for _, p := range v.all() {
		own[p.reg.ID] = true
	}
	var out []string
	for i := range svc.Instances {
		in := &svc.Instances[i]
		if in.Local && in.MetaLane == string(l) && !own[in.ID] {
			out = append(out, fmt.Sprintf("%s: %s serves it in this lane too, at %s: each gets a part of the calls", v.o.Name, orSomebody(in.Owner), in.Addr))
		}
	}
	return out
}

func orSomebody(owner string) string {
	if owner == "" {
		return "somebody"
	}
	return owner
}
