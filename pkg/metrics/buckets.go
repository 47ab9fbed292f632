package metrics

import (
	"math"
	"sync/atomic"
	"time"
)

// The buckets of durations: twenty to a power of ten, from 10 µs to 100 s, at the
// preferred numbers of ISO 3, so that a percentile is off by 14 % at worst. They
// contain the bounds that Prometheus is shown, and one addition serves both. A
// sketch (HDR, DD) would be finer and would need a lock for each request.
const (
	perDecade = 20
	decades   = 7
	nBounds   = perDecade*decades + 1
	nBuckets  = nBounds + 1 // the last one has no bound
)

var bounds = makeBounds() // nanoseconds

func makeBounds() (out [nBounds]int64) {
	steps := [perDecade]int64{100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900}
	unit := int64(100)
	for i := range out {
		out[i] = steps[i%perDecade] * unit
		if i%perDecade == perDecade-1 {
			unit *= 10
		}
	}
	return out
}

// shown are the bounds that Prometheus is shown, in seconds.
var shown = [...]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 100}

// bucketOf is the first bucket whose bound is not less than d.
func bucketOf(d time.Duration) int {
	lo, hi := 0, nBounds
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if bounds[mid] < int64(d) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// histogram counts durations.
type histogram struct {
	n   [nBuckets]atomic.Uint64
	sum atomic.Uint64 // nanoseconds
}

func (h *histogram) observe(d time.Duration) {
	d = max(d, 0)
	h.n[bucketOf(d)].Add(1)
	h.sum.Add(uint64(d))
}

// Quantile is the duration in milliseconds that a share q of the counted ones
// does not pass, estimated inside its bucket; 0 if nothing was counted. Buckets
// are in order, the one without a bound last.
func Quantile(q float64, buckets []Bucket) float64 {
	var total uint64
	for _, b := range buckets {
		total += b.Count
	}
	if total == 0 {
		return 0
	}
	rank := q * float64(total)
	var below float64
	for _, b := range buckets {
		if b.Count == 0 || below+float64(b.Count) < rank {
			below += float64(b.Count)
			continue
		}
		if b.UpTo == 0 {
			break
		}
		from := lower(b.UpTo)
		return from + (rank-below)/float64(b.Count)*(b.UpTo-from)
	}
	return float64(bounds[nBounds-1]) / 1e6 // longer than that is not told apart
}

// lower is the bound before a bound, in milliseconds.
func lower(upTo float64) float64 {
	if i := bucketOf(time.Duration(math.Round(upTo * 1e6))); i > 0 {
		return float64(bounds[i-1]) / 1e6
	}
	return 0
}
