package dev

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

var errMissingSession = errors.New("missing session")

// set writes an entry as it is; equal to what is there, it changes nothing.
func (s *store) set(idx uint64, e dirEntry) *dirEntry {
	old := s.kv[e.Key]
	e.CreateIndex = idx
	if len(e.Value) == 0 {
		e.Value = nil // rendered as null
	}
	if old != nil {
		e.CreateIndex = old.CreateIndex
		if e.LockIndex == old.LockIndex && e.Flags == old.Flags && e.Session == old.Session && bytes.Equal(e.Value, old.Value) {
			return old
		}
	}
	e.ModifyIndex = idx
	s.kv[e.Key] = &e
	s.kvIndex = idx
	return &e
}

// put keeps the lock that is on the key: locks are advisory.
func (s *store) put(idx uint64, e dirEntry) *dirEntry {
	e.Session, e.LockIndex = "", 0
	if old := s.kv[e.Key]; old != nil {
		// LockIndex is not carried over by a plain write: Consul does not either.
		e.Session = old.Session
	}
	return s.set(idx, e)
}

// cas writes if the key is still at index at; 0 means that it must not exist.
func (s *store) cas(idx, at uint64, e dirEntry) (*dirEntry, bool) {
	old := s.kv[e.Key]
	if (at == 0) != (old == nil) || (old != nil && old.ModifyIndex != at) {
		return nil, false
	}
	return s.put(idx, e), true
}

func (s *store) lock(idx uint64, e dirEntry) (*dirEntry, bool, error) {
	if e.Session == "" {
		return nil, false, errMissingSession
	}
	if s.sessions[e.Session] == nil {
		return nil, false, fmt.Errorf("invalid session %#v", e.Session)
	}
	old := s.kv[e.Key]
	switch {
	case old == nil:
		e.LockIndex = 1
	case old.Session == e.Session:
		e.LockIndex = old.LockIndex
	case old.Session != "":
		return nil, false, nil
	default:
		e.LockIndex = old.LockIndex + 1
	}
	return s.set(idx, e), true, nil
}

func (s *store) unlock(idx uint64, e dirEntry) (*dirEntry, bool, error) {
	if e.Session == "" {
		return nil, false, errMissingSession
	}
	old := s.kv[e.Key]
	if old == nil || old.Session != e.Session {
		return nil, false, nil
	}
	e.Session, e.LockIndex = "", old.LockIndex
	return s.set(idx, e), true, nil
}

func (s *store) deleteKey(idx uint64, now time.Time, key string) {
	if s.kv[key] == nil {
		return
	}
	delete(s.kv, key)
	s.tombstones[key] = tombstone{idx, now}
	s.kvIndex = idx
}

// deleteCAS succeeds on a key that is gone.
func (s *store) deleteCAS(idx, at uint64, now time.Time, key string) bool {
	old := s.kv[key]
	if old == nil {
		return true
	}
	if old.ModifyIndex != at {
		return false
	}
	s.deleteKey(idx, now, key)
	return true
}

func (s *store) deleteTree(idx uint64, now time.Time, prefix string) {
	deleted := false
	for key := range s.kv {
		if strings.HasPrefix(key, prefix) {
			delete(s.kv, key)
			deleted = true
		}
	}
	if !deleted {
		return
	}
	if prefix != "" {
		s.tombstones[prefix] = tombstone{idx, now}
	}
	s.kvIndex = idx
}

// list is the entries under a prefix, and the index of the last change under it.
func (s *store) list(prefix string) ([]*dirEntry, uint64) {
	entries := sortedValues(s.kv, func(e *dirEntry) bool { return strings.HasPrefix(e.Key, prefix) },
		func(a, b *dirEntry) int { return cmp.Compare(a.Key, b.Key) })
	if prefix == "" {
		return entries, s.kvIndex
	}
	var idx uint64
	for _, e := range entries {
		idx = max(idx, e.ModifyIndex)
	}
	for key, t := range s.tombstones {
		if strings.HasPrefix(key, prefix) {
			idx = max(idx, t.index)
		}
	}
	if idx == 0 {
		idx = s.kvIndex
	}
	return entries, idx
}
