package dev

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (r *Registry) healthService(w http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(req.URL.Path, "/v1/health/service/")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "Missing service name")
	}
	filter, err := newFilter(q.filter, []checkServiceNode{})
	if err != nil {
		return nil, err
	}

	// Consul's agent answers these two from a stream of the service's events:
	// unrelated removals do not move the index of a service that is not there.
	streaming := (q.cached || q.index > 0) && !q.params.Has("near")
	var nodes []checkServiceNode
	first := true
	index := r.read(req, &q, streaming, func(s *store) (uint64, bool) {
		nodes = s.withChecks(name)
		index := s.indexOf(name, true)
		if streaming && len(nodes) == 0 {
			event := s.eventIndex[lower(name)]
			if index = max(index, event); !first {
				index = event
			}
		}
		first = false
		return index, true
	})
	if streaming {
		// While nothing happened the view's index is the one it began with.
		index = max(index, min(q.index, r.indexOf(name)))
	}
	if q.cached {
		r.cacheHeaders(w, req)
	}
	meta{index: index, consistency: q.consistency, streaming: streaming}.write(w)

	nodes = slices.DeleteFunc(nodes, func(n checkServiceNode) bool {
		return !nodeMeta(&q, n.Node.Meta) || !hasTags(&q, n.Service.Tags)
	})
	if nodes, err = filtered(filter, nodes); err != nil {
		return nil, err
	}
	only, err := boolParam(&q, "passing")
	if err != nil {
		return nil, err
	}
	if only {
		nodes = onlyPassing(nodes)
	}
	for i := range nodes {
		nodes[i].Checks = rendered(nodes[i].Checks)
		nodes[i].Service = renderedService(nodes[i].Service)
	}
	return orEmpty(nodes), nil
}

func (r *Registry) indexOf(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store.indexOf(name, true)
}

// onlyPassing keeps Consul's order, which is not stable: what is dropped is
// replaced by the last.
func onlyPassing(nodes []checkServiceNode) []checkServiceNode {
	n := len(nodes)
	for i := 0; i < n; {
		if slices.ContainsFunc(nodes[i].Checks, func(c *healthCheck) bool { return c.Status != passing }) {
			n--
			nodes[i] = nodes[n]
			continue
		}
		i++
	}
	return nodes[:n]
}

func boolParam(q *queryOptions, name string) (bool, error) {
	if !q.params.Has(name) {
		return false, nil
	}
	v := q.params.Get(name)
	if v == "" {
		return true, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, failf(http.StatusBadRequest, "Invalid value for ?%s", name)
	}
	return b, nil
}

// rendered shows lists that are empty as such, not as null.
func rendered(checks []*healthCheck) []*healthCheck {
	out := make([]*healthCheck, len(checks))
	for i, c := range checks {
		shown := *c
		shown.ServiceTags = orEmpty(c.ServiceTags)
		out[i] = &shown
	}
	return out
}

func renderedService(s *nodeService) *nodeService {
	shown := *s
	shown.Tags = orEmpty(s.Tags)
	return &shown
}

func (r *Registry) healthNode(w http.ResponseWriter, req *http.Request) (any, error) {
	name := strings.TrimPrefix(req.URL.Path, "/v1/health/node/")
	return r.healthList(w, req, name, "Missing node name", func(c *healthCheck) bool {
		return strings.EqualFold(c.Node, name)
	})
}

func (r *Registry) healthChecks(w http.ResponseWriter, req *http.Request) (any, error) {
	name := strings.TrimPrefix(req.URL.Path, "/v1/health/checks/")
	return r.healthList(w, req, name, "Missing service name", func(c *healthCheck) bool {
		return strings.EqualFold(c.ServiceName, name)
	})
}

func (r *Registry) healthState(w http.ResponseWriter, req *http.Request) (any, error) {
	state := strings.TrimPrefix(req.URL.Path, "/v1/health/state/")
	return r.healthList(w, req, state, "Missing check state", func(c *healthCheck) bool {
		return state == "any" || c.Status == lower(state)
	})
}

func (r *Registry) healthList(w http.ResponseWriter, req *http.Request, what, missing string, keep func(*healthCheck) bool) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	if what == "" {
		return nil, failf(http.StatusBadRequest, "%s", missing)
	}
	filter, err := newFilter(q.filter, []*healthCheck{})
	if err != nil {
		return nil, err
	}
	var checks []*healthCheck
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		checks = sortedValues(s.checks, func(c *healthCheck) bool {
			n := s.nodes[lower(c.Node)]
			return keep(c) && nodeMeta(&q, n.Meta)
		}, byCheckID)
		return s.checksIndex, true
	})
	meta{index: index, consistency: q.consistency}.write(w)
	if checks, err = filtered(filter, checks); err != nil {
		return nil, err
	}
	return rendered(checks), nil
}

// cacheHeaders says what an agent's cache would: the first query of its kind
// misses, the next ones hit.
func (r *Registry) cacheHeaders(w http.ResponseWriter, req *http.Request) {
	params := req.URL.Query()
	params.Del("index")
	params.Del("wait")
	params.Del("passing") // applied to what the cache gives
	key := req.URL.Path + "?" + params.Encode()
	r.mu.Lock()
	_, hit := r.seen[key]
	if len(r.seen) >= maxSeen {
		clear(r.seen)
	}
	r.seen[key] = struct{}{}
	r.mu.Unlock()
	if !hit {
		w.Header().Set("X-Cache", "MISS")
		return
	}
	w.Header().Set("X-Cache", "HIT")
	w.Header().Set("Age", "0")
}

const maxSeen = 1024
