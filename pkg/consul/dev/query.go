package dev

import (
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultWait = 5 * time.Minute
	maxWait     = 10 * time.Minute
)

// queryOptions are the parameters that every read has.
type queryOptions struct {
	params      url.Values
	index       uint64
	wait        time.Duration
	consistency string // leader, stale, consistent
	cached      bool
	filter      string
}

func (r *Registry) query(req *http.Request) (queryOptions, error) {
	q := queryOptions{params: req.URL.Query(), consistency: "leader"}
	q.filter = q.params.Get("filter")
	stale, consistent := q.params.Has("stale"), q.params.Has("consistent")
	q.cached = q.params.Has("cached")
	switch {
	case stale && consistent:
		return q, failf(http.StatusBadRequest, "Cannot specify ?stale with ?consistent, conflicting semantics.")
	case q.cached && consistent:
		return q, failf(http.StatusBadRequest, "Cannot specify ?cached with ?consistent, conflicting semantics.")
	case stale:
		q.consistency = "stale"
	case consistent:
		q.consistency = "consistent"
	}
	if v := q.params.Get("max_stale"); v != "" {
		if _, err := time.ParseDuration(v); err != nil {
			return q, failf(http.StatusBadRequest, "Invalid max_stale value %q", v)
		}
	}
	if v := q.params.Get("wait"); v != "" {
		wait, err := time.ParseDuration(v)
		if err != nil {
			return q, failf(http.StatusBadRequest, "Invalid wait time")
		}
		q.wait = wait
	}
	if v := q.params.Get("index"); v != "" {
		index, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return q, failf(http.StatusBadRequest, "Invalid index")
		}
		q.index = index
	}
	if dc := q.params.Get("dc"); dc != "" && dc != r.opts.Datacenter {
		return q, serverError{say("No path to datacenter")}
	}
	return q, nil
}

// deadline is when a blocking query gives up waiting, with Consul's jitter.
func (q *queryOptions) timeout(jitter bool) time.Duration {
	wait := q.wait
	switch {
	case wait > maxWait:
		wait = maxWait
	case wait <= 0:
		wait = defaultWait
	}
	if spread := wait / 16; jitter && spread > 0 {
		wait += rand.N(spread)
	}
	return wait
}

// view reads the store: the index of what it read, and whether there was
// anything. It runs with the lock held and keeps only immutable values.
type view func(*store) (index uint64, found bool)

// read runs look once; and, if the client named an index, again after every
// change until the index is greater, the wait is over, the client is gone or
// Run has ended. A thing that is not there is not news while it stays so.
func (r *Registry) read(req *http.Request, q *queryOptions, streaming bool, look view) uint64 {
	index, found, news := r.look(look)
	if q.index == 0 || index > q.index {
		return index
	}

	timer := time.NewTimer(q.timeout(!streaming))
	defer timer.Stop()
	least, missing := q.index, !found
	for {
		select {
		case <-news:
		case <-timer.C:
			return index
		case <-req.Context().Done():
			return index
		case <-r.done:
			return index
		}
		index, found, news = r.look(look)
		if !found && missing {
			least = index
		}
		missing = !found
		if index > least {
			return index
		}
	}
}

// look is a view of now, and what closes when there may be another.
func (r *Registry) look(v view) (index uint64, found bool, news <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	index, found = v(r.store)
	return index, found, r.news
}

// enterprise refuses what the community server refuses.
func enterprise(req *http.Request) error {
	for _, p := range []struct{ header, param, what string }{
		{"X-Consul-Namespace", "ns", "Namespaces"},
		{"X-Consul-Partition", "partition", "Partitions"},
	} {
		if req.Header.Get(p.header) != "" {
			return failf(http.StatusBadRequest, "Invalid header: %q - %s are a Consul Enterprise feature", p.header, p.what)
		}
		if req.URL.Query().Get(p.param) != "" {
			return failf(http.StatusBadRequest, "Invalid query parameter: %q - %s are a Consul Enterprise feature", p.param, p.what)
		}
	}
	return nil
}

// nodeMeta is ?node-meta=key:value, repeated.
func nodeMeta(q *queryOptions, meta map[string]string) bool {
	for _, pair := range q.params["node-meta"] {
		key, value, _ := strings.Cut(pair, ":")
		if meta[key] != value {
			return false
		}
	}
	return true
}

// hasTags: every tag that is asked for, in any letter case.
func hasTags(q *queryOptions, tags []string) bool {
	for _, want := range q.params["tag"] {
		found := false
		for _, tag := range tags {
			found = found || strings.EqualFold(tag, want)
		}
		if !found {
			return false
		}
	}
	return true
}
