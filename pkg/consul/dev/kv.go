package dev

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

func (r *Registry) kv(w http.ResponseWriter, req *http.Request) (any, error) {
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	key := strings.TrimPrefix(req.URL.Path, "/v1/kv/")
	switch req.Method {
	case http.MethodPut:
		return r.kvPut(w, req, &q, key)
	case http.MethodDelete:
		return r.kvDelete(w, &q, key)
	}
	if q.params.Has("keys") {
		return r.kvKeys(w, req, &q, key)
	}
	return r.kvGet(w, req, &q, key)
}

func (r *Registry) kvGet(w http.ResponseWriter, req *http.Request, q *queryOptions, key string) (any, error) {
	recurse := q.params.Has("recurse")
	if key == "" && !recurse {
		return nil, failf(http.StatusBadRequest, "Missing key name")
	}
	var entries []*dirEntry
	index := r.read(req, q, false, func(s *store) (uint64, bool) {
		if recurse {
			var index uint64
			entries, index = s.list(key)
			return index, true
		}
		if e := s.kv[key]; e != nil {
			entries = []*dirEntry{e}
			return e.ModifyIndex, true
		}
		entries = nil
		return s.kvIndex, false
	})
	meta{index: index}.write(w)
	if len(entries) == 0 {
		w.WriteHeader(http.StatusNotFound)
		return nil, nil
	}
	if q.params.Has("raw") && !recurse {
		// A value is somebody's text: a browser must not run it.
		h := w.Header()
		h.Set("Content-Length", strconv.Itoa(len(entries[0].Value)))
		h.Set("Content-Type", "text/plain")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox")
		_, _ = w.Write(entries[0].Value)
		return nil, nil
	}
	return entries, nil
}

func (r *Registry) kvKeys(w http.ResponseWriter, req *http.Request, q *queryOptions, prefix string) (any, error) {
	sep := q.params.Get("separator")
	if sep == "" {
		sep = q.params.Get("seperator") // an old spelling that clients still send
	}
	var entries []*dirEntry
	index := r.read(req, q, false, func(s *store) (uint64, bool) {
		var index uint64
		entries, index = s.list(prefix)
		return index, true
	})
	meta{index: index}.write(w)
	keys := []string{}
	for _, e := range entries {
		key := e.Key
		if sep != "" {
			if i := strings.Index(key[len(prefix):], sep); i >= 0 {
				key = key[:len(prefix)+i+len(sep)]
			}
		}
		if len(keys) == 0 || keys[len(keys)-1] != key {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 && prefix != "" {
		w.WriteHeader(http.StatusNotFound)
		return nil, nil
	}
	return keys, nil
}

func (r *Registry) kvPut(w http.ResponseWriter, req *http.Request, q *queryOptions, key string) (any, error) {
	if key == "" {
		return nil, failf(http.StatusBadRequest, "Missing key name")
	}
	if err := conflicting(q, "cas", "acquire", "release"); err != nil {
		return nil, err
	}
	e := dirEntry{Key: key}
	var at uint64
	var err error
	if q.params.Has("flags") {
		if e.Flags, err = strconv.ParseUint(q.params.Get("flags"), 10, 64); err != nil {
			return nil, err
		}
	}
	if q.params.Has("cas") {
		if at, err = strconv.ParseUint(q.params.Get("cas"), 10, 64); err != nil {
			return nil, err
		}
	}
	if req.ContentLength > maxKVValue {
		return nil, failf(http.StatusRequestEntityTooLarge,
			"Request body(%d bytes) too large, max size: %d bytes. See https://www.consul.io/docs/agent/config/config-files#kv_max_value_size.",
			req.ContentLength, maxKVValue)
	}
	if e.Value, err = io.ReadAll(http.MaxBytesReader(w, req.Body, maxKVValue)); err != nil {
		return nil, failf(http.StatusRequestEntityTooLarge, "Request body too large, max size: %d bytes.", maxKVValue)
	}

	ok := true
	err = r.write(func(s *store, idx uint64) error {
		switch {
		case q.params.Has("cas"):
			_, ok = s.cas(idx, at, e)
		case q.params.Has("acquire"):
			if s.lockDelay[key].After(r.now()) {
				ok = false
				return nil
			}
			e.Session = q.params.Get("acquire")
			_, ok, err = s.lock(idx, e)
		case q.params.Has("release"):
			e.Session = q.params.Get("release")
			_, ok, err = s.unlock(idx, e)
		default:
			s.put(idx, e)
		}
		if err != nil {
			return fmt.Errorf("raft apply failed: %w", err)
		}
		return nil
	})
	return ok, err
}

func (r *Registry) kvDelete(_ http.ResponseWriter, q *queryOptions, key string) (any, error) {
	if err := conflicting(q, "recurse", "cas"); err != nil {
		return nil, err
	}
	if key == "" && !q.params.Has("recurse") {
		return nil, failf(http.StatusBadRequest, "Missing key name")
	}
	var at uint64
	if q.params.Has("cas") {
		var err error
		if at, err = strconv.ParseUint(q.params.Get("cas"), 10, 64); err != nil {
			return nil, err
		}
	}
	ok := true
	err := r.write(func(s *store, idx uint64) error {
		switch {
		case q.params.Has("recurse"):
			s.deleteTree(idx, r.now(), key)
		case q.params.Has("cas"):
			ok = s.deleteCAS(idx, at, r.now(), key)
		default:
			s.deleteKey(idx, r.now(), key)
		}
		return nil
	})
	return ok, err
}

func conflicting(q *queryOptions, flags ...string) error {
	found := 0
	for _, flag := range flags {
		if q.params.Has(flag) {
			found++
		}
	}
	if found > 1 {
		return failf(http.StatusBadRequest, "Conflicting flags: %s", q.params.Encode())
	}
	return nil
}
