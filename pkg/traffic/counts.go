package traffic

import "sync"

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
	mu sync.Mutex
	n  map[series]uint64
}

// Add counts one. A label of "" is a count without a label.
func (c *Counts) Add(name, label, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[series]uint64{}
	}
	k := series{name, label, value}
	if _, ok := c.n[k]; !ok && len(c.n) >= maxSeries {
		k.value = OtherValue
		if label == "" {
			k.value = ""
		}
	}
	c.n[k]++
}

// Total is the sum of a name's counts over all values of its label.
func (c *Counts) Total(name string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum uint64
	for k, n := range c.n {
		if k.name == name {
			sum += n
		}
	}
	return sum
}

// By is a name's counts by the value of its label; never nil.
func (c *Counts) By(name string) map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]uint64{}
	for k, n := range c.n {
		if k.name == name {
			out[k.value] += n
		}
	}
	return out
}
