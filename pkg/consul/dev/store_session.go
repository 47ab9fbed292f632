package dev

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

const maxLockDelay = time.Minute

func (s *store) createSession(idx uint64, sess session) error {
	if s.nodes[lower(sess.Node)] == nil {
		return errMissingNode
	}
	for _, id := range sess.checkIDs() {
		c := s.checks[checkKey{lower(sess.Node), lower(id)}]
		if c == nil {
			return say("Missing check '%s' registration", id)
		}
		if c.Status == critical {
			return say("Check '%s' is in %s state", id, c.Status)
		}
	}
	sess.CreateIndex, sess.ModifyIndex = idx, idx
	s.sessions[sess.ID] = &sess
	s.sessionsIndex = idx
	return nil
}

// deleteSession ends a session and gives its keys up as its behavior says; the
// keys cannot be locked again before its lock delay has passed.
func (s *store) deleteSession(idx uint64, now time.Time, id string) {
	sess := s.sessions[id]
	if sess == nil {
		return
	}
	delete(s.sessions, id)
	s.sessionsIndex = idx
	delay := min(sess.LockDelay, maxLockDelay)
	for key, e := range s.kv {
		if e.Session != id {
			continue
		}
		if sess.Behavior == behaviorDelete {
			s.deleteKey(idx, now, key)
		} else {
			free := *e
			free.Session = ""
			s.set(idx, free)
		}
		if delay > 0 {
			s.lockDelay[key] = now.Add(delay)
		}
	}
}

// checkFailed ends the sessions that hang on a check.
func (s *store) checkFailed(idx uint64, now time.Time, nodeName, checkID string) {
	for _, sess := range s.sessionList(nodeName) {
		if slices.ContainsFunc(sess.checkIDs(), func(id string) bool { return strings.EqualFold(id, checkID) }) {
			s.deleteSession(idx, now, sess.ID)
		}
	}
}

// sessionList is the sessions of a node, or all ("").
func (s *store) sessionList(nodeName string) []*session {
	return sortedValues(s.sessions, func(sess *session) bool {
		return nodeName == "" || strings.EqualFold(sess.Node, nodeName)
	}, func(a, b *session) int { return cmp.Compare(a.ID, b.ID) })
}
