package traffic

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// Names of the counts that the engine adds to those that decisions ask for.
const (
	CountRequests = "lane_requests_total"     // every exchange
	CountErrors   = "lane_route_errors_total" // by code
	CountGuard    = "lane_guard_total"        // by outcome: passed, bounced, rejected, probe
	CountMatched  = "lane_match_total"
	CountFallback = "lane_fallback_total" // by reason
	CountExternal = "lane_external_total"
)

// maxSeries bounds the memory of Counts: label values come from decisions,
// which are words of ours, but a bound that nobody can argue away is better.
const maxSeries = 512

// OtherValue stands for label values beyond the bound.
const OtherValue = "other"

type series struct{ name, label, value string }

// Counts are totals by name and at most one label. They are safe for
// concurrent use, and the zero value is ready. Their memory is bounded.
type Counts struct {
	// n is copied for a new series, which is rare, and read without a lock for
	// each request.
	n  atomic.Pointer[map[series]*atomic.Uint64]
	mu sync.Mutex // for whoever adds a series
}

// Add counts one. A label of "" is a count without a label.
func (c *Counts) Add(name, label, value string) {
	k := series{name, label, value}
	if m := c.n.Load(); m != nil {
		if n := (*m)[k]; n != nil {
			n.Add(1)
			return
		}
	}
	c.fresh(k).Add(1)
}

// fresh makes a series, or finds the one that stands for what is too much.
func (c *Counts) fresh(k series) *atomic.Uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all()
	if all[k] == nil && len(all) >= maxSeries {
		k.value = OtherValue
		if k.label == "" {
			k.value = ""
		}
	}
	if n := all[k]; n != nil {
		return n
	}
	next := make(map[series]*atomic.Uint64, len(all)+1)
	maps.Copy(next, all)
	// The value outlives the request, and may be a part of its head.
	k.value = strings.Clone(k.value)
	next[k] = new(atomic.Uint64)
	c.n.Store(&next)
	return next[k]
}

func (c *Counts) all() map[series]*atomic.Uint64 {
	if m := c.n.Load(); m != nil {
		return *m
	}
	return nil
}

// Total is the sum of a name's counts over all values of its label.
func (c *Counts) Total(name string) uint64 {
	var sum uint64
	for k, n := range c.all() {
		if k.name == name {
			sum += n.Load()
		}
	}
	return sum
}

// By is a name's counts by the value of its label; never nil.
func (c *Counts) By(name string) map[string]uint64 {
	out := map[string]uint64{}
	for k, n := range c.all() {
		if k.name == name {
			out[k.value] += n.Load()
		}
	}
	return out
}
