package session

import (
	"context"
	"errors"
	"time"

	"lane/pkg/guardian"
)

// Between two starts of a guardian, when each of them ends at once.
const (
	firstPause = time.Second
	lastPause  = time.Minute
)

// post starts the guardian, before there is anything to clean up, and another one
// whenever it ends. Every session has one: it has a control socket at least.
func (s *session) post(ctx, life context.Context, parts *parts) error {
	if s.o.Guardian == nil {
		return nil
	}
	if err := s.at(ctx, "guardian"); err != nil {
		return err
	}
	if err := s.guard(); err != nil {
		return err
	}
	s.endGuard = parts.until(life, s.keepGuard)
	return nil
}

// guard starts a guardian and tells it what there is.
func (s *session) guard() error {
	g, err := s.o.Guardian()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.guardian = g
	s.mu.Unlock()
	return s.tell()
}

// keepGuard starts another guardian when the one that there is has died: somebody
// has killed it, or the system wanted its memory. Without one, the session's own
// death would leave everything behind.
func (s *session) keepGuard(ctx context.Context) error {
	var how error
	for pause := time.Duration(0); ; pause = min(max(2*pause, firstPause), lastPause) {
		s.mu.Lock()
		g := s.guardian
		s.mu.Unlock()
		if g != nil {
			select {
			case <-g.Gone():
			case <-ctx.Done():
				return nil
			}
			s.mu.Lock()
			s.guardian = nil
			s.mu.Unlock()
			how = g.Bury()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
		if err := s.guard(); err != nil {
			s.o.Log.Warn("the guardian has died, and there is no other: if this process is killed, nothing cleans up after it", "how", how, "error", err)
		} else {
			s.o.Log.Warn("the guardian has died, and another one has taken its place", "how", how)
		}
	}
}

// tell tells the guardian what it would have to clean up from now on.
func (s *session) tell() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.guardian == nil {
		return nil
	}
	r := s.o.Registry
	w := guardian.Ward{Address: s.client.Address(), Datacenter: r.Datacenter, Namespace: r.Namespace, CAFile: r.CAFile, Token: r.Token, TokenFile: r.TokenFile}
	w.Socket, w.Log = s.socket, s.logPath
	w.Mark, w.SessionName, w.Astray = s.mark, s.sessionName, s.client.Astray()
	if s.claims != nil {
		w.Session = s.claims.session.ID()
	}
	if s.link != nil {
		w.Relay = s.link.ward()
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

// inform is tell where nobody waits for it.
func (s *session) inform() {
	if err := s.tell(); err != nil {
		s.o.Log.Warn("the guardian does not know of what has changed", "error", err)
	}
}

// dismiss ends the guardian. What this session could not remove, it goes on
// trying to, and it looks again for what was cut off on its way to the registry and
// may come after its removal: then it is left alone.
func (s *session) dismiss(err error) error {
	if s.endGuard != nil {
		s.endGuard()
	}
	if s.guardian == nil {
		return nil
	}
	var left *LeftBehindError
	astray := s.client.Astray()
	if astray {
		s.o.Log.Warn("something was cut off on its way to the registry: if it arrives in the next half minute, it is removed")
	}
	if errors.As(err, &left) || astray {
		return errors.Join(s.tell(), s.guardian.Leave())
	}
	if err := s.guardian.Dismiss(); err != nil {
		// The guardian's own trouble is no trouble of the session's, which has
		// cleaned up.
		s.o.Log.Warn("guardian", "error", err)
	}
	return nil
}
