package session

import (
	"context"
	"errors"

	"lane/pkg/guardian"
)

// post starts the guardian, before there is anything to clean up. A session
// that puts nothing anywhere needs none.
func (s *session) post(ctx context.Context) (err error) {
	if s.o.Guardian == nil || len(s.services) == 0 && len(s.o.Command) == 0 {
		return nil
	}
	if err := s.at(ctx, "guardian"); err != nil {
		return err
	}
	s.guardian, err = s.o.Guardian()
	if err != nil {
		return err
	}
	return s.tell()
}

// tell tells the guardian what it would have to clean up from now on.
func (s *session) tell() error {
	if s.guardian == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.o.Registry
	w := guardian.Ward{Address: s.client.Address(), Datacenter: r.Datacenter, Namespace: r.Namespace, CAFile: r.CAFile, Token: r.Token, TokenFile: r.TokenFile}
	if s.claims != nil {
		w.Session = s.claims.session.ID()
	}
	for _, v := range s.services {
		for _, p := range v.all() {
			if p.record.ID != "" {
				w.Claims = append(w.Claims, p.record)
			}
		}
	}
	if s.child != nil {
		select {
		case <-s.child.Done(): // its number may be another's by now
		default:
			w.Group = s.child.PID()
		}
	}
	return s.guardian.Tell(w)
}

// dismiss ends the guardian. What this session could not remove, it goes on
// trying to: then it is left alone.
func (s *session) dismiss(err error) error {
	if s.guardian == nil {
		return nil
	}
	var left *LeftBehindError
	if errors.As(err, &left) {
		return errors.Join(s.tell(), s.guardian.Leave())
	}
	if err := s.guardian.Dismiss(); err != nil {
		// The guardian's own trouble is no trouble of the session's, which has
		// cleaned up.
		s.o.Log.Warn("guardian", "error", err)
	}
	return nil
}
