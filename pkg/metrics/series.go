package metrics

import (
	"sync/atomic"

	"lane/pkg/traffic"
)

// Bounds of the memory. Beyond them everything counts as Other.
const (
	maxPairs     = 1000
	maxInstances = 8000 // of all flows together
	maxPerFlow   = 1000 // instances of one flow
	maxValues    = 2000 // of one label in one pair: rules are the most
)

// key is what series are found by; an empty lane is the baseline, an empty
// service a host outside.
type key struct{ service, lane string }

// pair is the counters of one service and lane.
type pair struct {
	counts [nFamilies]values
	flows  [nFronts]atomic.Pointer[flow]
	idle   int // samples without a change
}

// values are the counts of one family: without a label, or by its value.
type values struct {
	n  atomic.Uint64
	by table[string, atomic.Uint64]
}

// The fronts, each with counters of its own: a sidecar sees what its service is
// asked and what it asks, which must not be added up.
const (
	frontOther = iota
	frontForward
	frontGateway
	frontSidecar
	frontGuard
	nFronts
)

var fronts = [nFronts]string{frontOther: Other, frontForward: string(traffic.FrontForward), frontGateway: string(traffic.FrontGateway),
	frontSidecar: string(traffic.FrontSidecar), frontGuard: string(traffic.FrontGuard)}

func frontOf(f traffic.Front) int {
	switch f {
	case traffic.FrontForward:
		return frontForward
	case traffic.FrontGateway:
		return frontGateway
	case traffic.FrontSidecar:
		return frontSidecar
	case traffic.FrontGuard:
		return frontGuard
	}
	return frontOther
}

// flow is the requests of a pair that came in by one front.
type flow struct {
	took      histogram
	failed    atomic.Uint64
	fallbacks atomic.Uint64
	instances table[string, instance]
	ring      ring
}

// instance is the requests that one instance served; the empty ID is none.
type instance struct {
	codes  [nCodes]atomic.Uint64
	failed atomic.Uint64
	ring   [ringSize]tally
	idle   int // samples without a change
}

func (in *instance) tally() tally {
	var t tally
	for i := range in.codes {
		t.requests += in.codes[i].Load()
	}
	t.failed = in.failed.Load()
	return t
}
