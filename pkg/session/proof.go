package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
)

const (
	// proofEvery is between two proofs that a caller could reach the local process.
	proofEvery = 3 * time.Second
	// proofFor is how long a proof counts. A status says that a service is up only
	// while it has one.
	proofFor = 10 * time.Second
)

// keepProving proves again and again that a caller's way leads to every local
// process: the registry shows the instance at the guard's address, the guard
// answers there, and the process's port accepts. The process itself is asked
// nothing.
func (s *session) keepProving(ctx context.Context) error {
	tick := time.NewTicker(proofEvery)
	defer tick.Stop()
	for {
		for _, v := range s.services {
			err := s.proof(ctx, v)
			if ctx.Err() != nil {
				return nil
			}
			if v.proven(err); err != nil {
				v.place().hold.Doubt()
			}
			s.doubtToken(v)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// doubtToken has the claims looked at when a beat was denied: a token that was
// revoked can do no more, and the sooner that is said, the better.
func (s *session) doubtToken(v *service) {
	var denied *consul.DeniedError
	if _, err := v.place().hold.State(); s.claims != nil && errors.As(err, &denied) {
		s.claims.session.Check()
	}
}

// firstProof waits a little for the session's own watch to show what the registry
// has shown already: a status that is printed now is to say so.
func (s *session) firstProof(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.o.step)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, v := range s.services {
		var proven time.Time
		for {
			err := s.proof(ctx, v)
			v.proven(err)
			if asForeign(err) != nil { // waiting does not help against that
				break
			}
			if err == nil {
				if proven.IsZero() {
					proven = time.Now()
				}
				if s.passes(v) || time.Since(proven) > s.o.pass {
					break
				}
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}
}

// passLimit is how long a start waits for its own instance to pass where this session
// looks: the first call would get an error that the next one does not.
const passLimit = 3 * time.Second

// passes reports whether callers of the lane would be served: the instance passes, or
// cannot while the local process is down.
func (s *session) passes(v *service) bool {
	if ok, _ := v.health(); !ok {
		return true
	}
	_, id, _, _ := v.place().where(v.at().String())
	svc := s.watcher.Catalog().Service(v.o.Name)
	return svc != nil && slices.ContainsFunc(svc.Instances, func(in lane.Instance) bool {
		return in.ID == id && in.Health != lane.Critical
	})
}

// proof walks a caller's way once.
func (s *session) proof(ctx context.Context, v *service) error {
	cat := s.watcher.Catalog()
	if cat.Trust.State != lane.Fresh {
		return fmt.Errorf("the registry is %s", stateWord(cat.Trust.State))
	}
	if s.link != nil {
		if err := s.link.up(); err != nil {
			return err
		}
	}
	at := v.at().String()
	_, id, _, addr := v.place().where(at)
	if err := shows(cat, v.o.Name, id, addr); err != nil {
		if e := s.foreign(ctx, v); e != nil {
			return e
		}
		return err
	}
	v.show()
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+v.secret, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	res, err := t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("the guard at %s does not answer: %w", at, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusNoContent && res.StatusCode != http.StatusServiceUnavailable {
		return fmt.Errorf("somebody else answers at %s: %s", at, res.Status)
	}
	return nil // that the port is closed is said by a state of its own
}

// shows says why callers would not find an instance, or nil.
func shows(cat *lane.Catalog, service, id, addr string) error {
	svc := cat.Service(service)
	if svc == nil || !svc.HasSnapshot {
		return fmt.Errorf("the registry has not told of %s", service)
	}
	for i := range svc.Instances {
		switch in := &svc.Instances[i]; {
		case in.ID != id:
		case in.Addr != addr:
			return fmt.Errorf("the registry shows it at %s, not at %s", in.Addr, addr)
		default:
			return nil
		}
	}
	return fmt.Errorf("the registry does not show %s", id)
}

// proven takes the outcome of a proof.
func (v *service) proven(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.foreign = asForeign(err)
	if v.unproven = ""; err != nil {
		v.unproven = err.Error()
		return
	}
	v.proved = time.Now()
}

// proofAge says whether the last proof still counts, and else why there is no
// newer one. The caller holds mu.
func (v *service) proofAge() (ok bool, why string) {
	if time.Since(v.proved) <= proofFor {
		return true, ""
	}
	if v.unproven == "" {
		return false, "no proof in the last 10 s that callers reach it"
	}
	return false, v.unproven
}
