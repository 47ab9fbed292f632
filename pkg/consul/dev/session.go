package dev

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	behaviorRelease = "release"
	behaviorDelete  = "delete"

	minSessionTTL    = 10 * time.Second
	maxSessionTTL    = 24 * time.Hour
	defaultLockDelay = 15 * time.Second
)

// sessionBody is a session as a client writes it: LockDelay is "15s", or a
// number, of which small ones mean seconds.
type sessionBody struct {
	Name          *string
	Node          *string
	LockDelay     any
	Behavior      *string
	TTL           *string
	NodeChecks    *[]string
	ServiceChecks []serviceCheck
	Checks        *[]string
}

func (r *Registry) sessionCreate(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	sess, err := r.newSession(req)
	if err != nil {
		return nil, err
	}
	switch sess.Behavior {
	case behaviorRelease, behaviorDelete:
	case "":
		sess.Behavior = behaviorRelease
	default:
		return nil, say("Invalid Behavior setting '%s'", sess.Behavior)
	}
	ttl, err := sessionTTL(sess)
	if err != nil {
		return nil, err
	}
	sess.ID = newUUID()
	err = r.write(func(s *store, idx uint64) error {
		if err := s.createSession(idx, *sess); err != nil {
			return fmt.Errorf("apply failed: %w", err)
		}
		r.armSession(sess.ID, ttl)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{"ID": sess.ID}, nil
}

func (r *Registry) newSession(req *http.Request) (*session, error) {
	sess := &session{
		Node:       r.opts.NodeName,
		NodeChecks: []string{serfCheckID},
		Checks:     []string{serfCheckID},
		LockDelay:  defaultLockDelay,
		Behavior:   behaviorRelease,
	}
	if req.ContentLength != 0 {
		var body sessionBody
		if err := json.NewDecoder(http.MaxBytesReader(nil, req.Body, maxBody)).Decode(&body); err != nil {
			return nil, failf(http.StatusBadRequest, "Request decode failed: %v", err)
		}
		assign(&sess.Name, body.Name)
		assign(&sess.Node, body.Node)
		assign(&sess.Behavior, body.Behavior)
		assign(&sess.TTL, body.TTL)
		assign(&sess.NodeChecks, body.NodeChecks)
		assign(&sess.Checks, body.Checks)
		sess.ServiceChecks = body.ServiceChecks
		if err := lockDelay(&sess.LockDelay, body.LockDelay); err != nil {
			return nil, failf(http.StatusBadRequest, "Request decode failed: %v", err)
		}
	}
	// Checks is the old name of NodeChecks; its default means "not given".
	switch {
	case len(sess.Checks) == 0:
		sess.NodeChecks = []string{}
	case len(sess.Checks) == 1 && sess.Checks[0] == serfCheckID:
		sess.Checks = nil
	case len(sess.NodeChecks) == 0:
		sess.Checks = nil
	}
	return sess, nil
}

func assign[T any](into *T, v *T) {
	if v != nil {
		*into = *v
	}
}

func lockDelay(into *time.Duration, v any) error {
	var d time.Duration
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		parsed, err := time.ParseDuration(v)
		if err != nil {
			return err
		}
		d = parsed
	case float64:
		d = time.Duration(v)
	}
	if d < 1000 {
		d *= time.Second
	}
	*into = d
	return nil
}

// sessionTTL is 0 for a session that never expires by itself.
func sessionTTL(sess *session) (time.Duration, error) {
	if sess.TTL == "" {
		return 0, nil
	}
	ttl, err := time.ParseDuration(sess.TTL)
	if err != nil {
		return 0, say("Session TTL '%s' invalid: %v", sess.TTL, err)
	}
	if ttl != 0 && (ttl < minSessionTTL || ttl > maxSessionTTL) {
		return 0, say("Invalid Session TTL '%d', must be between [%v=%v]", ttl, minSessionTTL, maxSessionTTL)
	}
	return ttl, nil
}

func (r *Registry) sessionDestroy(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	id := strings.TrimPrefix(req.URL.Path, "/v1/session/destroy/")
	if id == "" {
		return nil, failf(http.StatusBadRequest, "Missing session")
	}
	return true, r.write(func(s *store, idx uint64) error {
		s.deleteSession(idx, r.now(), id)
		return nil
	})
}

func (r *Registry) sessionRenew(_ http.ResponseWriter, req *http.Request) (any, error) {
	if _, err := r.query(req); err != nil {
		return nil, err
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	id := strings.TrimPrefix(req.URL.Path, "/v1/session/renew/")
	if id == "" {
		return nil, failf(http.StatusBadRequest, "Missing session")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sess := r.store.sessions[id]
	if sess == nil {
		return nil, failf(http.StatusNotFound, "Session id '%s' not found", id)
	}
	ttl, err := sessionTTL(sess)
	if err != nil {
		return nil, err
	}
	r.armSession(id, ttl)
	return []*session{sess}, nil
}

func (r *Registry) sessionInfo(w http.ResponseWriter, req *http.Request) (any, error) {
	id := strings.TrimPrefix(req.URL.Path, "/v1/session/info/")
	if id == "" {
		return nil, failf(http.StatusBadRequest, "Missing session")
	}
	return r.sessionRead(w, req, func(s *store) []*session {
		if sess := s.sessions[id]; sess != nil {
			return []*session{sess}
		}
		return nil
	}, false)
}

func (r *Registry) sessionNode(w http.ResponseWriter, req *http.Request) (any, error) {
	name := strings.TrimPrefix(req.URL.Path, "/v1/session/node/")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "Missing node name")
	}
	return r.sessionRead(w, req, func(s *store) []*session { return s.sessionList(name) }, true)
}

func (r *Registry) sessionAll(w http.ResponseWriter, req *http.Request) (any, error) {
	return r.sessionRead(w, req, func(s *store) []*session { return s.sessionList("") }, true)
}

func (r *Registry) sessionRead(w http.ResponseWriter, req *http.Request, find func(*store) []*session, always bool) (any, error) {
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	var list []*session
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		list = find(s)
		return s.sessionsIndex, always || len(list) > 0
	})
	meta{index: index}.write(w)
	return orEmpty(list), nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
