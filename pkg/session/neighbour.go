package session

import (
	"context"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
)

// neighbours are the other running sessions of this machine. All of them register what
// they serve under the same ID: two that serve the same service of a lane write over
// each other, and no claim tells them apart where they stand beside somebody else's,
// or where a relay takes the newer one for the older one's return.
func (s *session) neighbours(ctx context.Context) ([]control.Found, *control.SilentError, error) {
	all, silent, err := control.Sessions(ctx, s.o.RuntimeDir)
	if err != nil {
		return nil, nil, err
	}
	var out []control.Found
	for _, f := range all {
		if f.Status.PID != pid() {
			out = append(out, f)
		}
	}
	return out, silent, nil
}

// twin is what stands in the way of a service: a neighbour that serves it in this lane,
// in this registry, under the ID that would be ours, and is not about to leave.
func (s *session) twin(near []control.Found, service string, counts func(*control.Status, *control.Service) bool) error {
	for i := range near {
		st := &near[i].Status
		if st.Lane != s.o.Lane || st.Registry.Address != s.client.Address() || st.State == control.SessionDraining {
			continue
		}
		for j := range st.Services {
			v := &st.Services[j]
			if v.Name == service && v.State != control.StateClaimLost && consul.OwnID(v.ID, s.o.Lane, service, s.o.Install) && counts(st, v) {
				return &BusyError{Lane: s.o.Lane, Service: service, PID: st.PID, Joined: joinedClaim(v)}
			}
		}
	}
	return nil
}

func joinedClaim(v *control.Service) bool {
	return v.Claim != nil && v.Claim.State == control.ClaimJoined
}

// besideTwin refuses to join where a session of this machine has joined already. It is
// asked for when this one is seen to have joined: of two that do it at once, each that
// looks last sees the other.
func (s *session) besideTwin(ctx context.Context, service string) error {
	near, silent, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	if err := s.twin(near, service, func(_ *control.Status, v *control.Service) bool { return v.Claim != nil }); err != nil {
		return err
	}
	if silent != nil {
		return silent // it may be the one
	}
	return nil
}

// relayedTwin refuses to claim by a relay what a session of this machine holds. The
// relay cannot: it takes the newer one for the return of one that has crashed.
func (s *session) relayedTwin(ctx context.Context) error {
	if s.link == nil || len(s.services) == 0 {
		return nil
	}
	near, silent, err := s.neighbours(ctx)
	if err != nil {
		return err
	}
	counts := func(st *control.Status, v *control.Service) bool {
		switch {
		case s.o.TakeOver: // who has only joined has no claim to lose, and would not hear of it
			return joinedClaim(v)
		case v.Claim == nil: // of two that start at once, the older one goes on
			return st.Started.Before(s.started) || st.Started.Equal(s.started) && st.PID < pid()
		}
		return true
	}
	for _, v := range s.services {
		if err := s.twin(near, v.o.Name, counts); err != nil {
			return err
		}
	}
	if silent == nil || s.o.TakeOver {
		return nil
	}
	var claims []lane.Claim
	err = s.within(ctx, func(ctx context.Context) (err error) {
		claims, err = s.client.Claims(ctx, s.o.Lane)
		return err
	})
	if err != nil {
		return err
	}
	for _, v := range s.services {
		for _, c := range claims {
			if c.Service == v.o.Name && c.Session != "" && c.Install == s.o.Install {
				return silent // it may be the holder
			}
		}
	}
	return nil
}
