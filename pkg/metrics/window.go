package metrics

import (
	"context"
	"time"

	"lane/pkg/lane"
)

const (
	sampleEvery = 2 * time.Second
	// ringSize samples reach back over the longest window.
	ringSize = int(LongWindow/sampleEvery) + 1
	// idleSamples is after how long without a request a series goes whose name
	// the registry no longer has: an hour, so that everybody has read it.
	idleSamples = int(time.Hour / sampleEvery)
)

// The windows of Stats.
const (
	ShortWindow = 10 * time.Second
	LongWindow  = 60 * time.Second
)

// ring is a flow's newest samples. A sample that is nil is from before the flow's
// first request. A flow at rest shares one sample, and costs no memory.
type ring [ringSize]*sample

// sample is a flow's totals at one time; durations wrap around, which their
// difference over a minute does not mind.
type sample struct {
	took              [nBuckets]uint32
	failed, fallbacks uint64
}

// tally is an instance's totals at one time.
type tally struct{ requests, failed uint64 }

// Run samples the counters until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	t := time.NewTicker(sampleEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.sample()
		}
	}
}

// sample notes the totals of now, and lets series go that nobody uses.
func (m *Meter) sample() {
	m.window.Lock()
	defer m.window.Unlock()
	at := m.ticks % ringSize
	m.times[at] = m.o.Now()
	before := (m.ticks + ringSize - 1) % ringSize
	m.ticks++
	m.pairs.each(func(_ key, p *pair) {
		p.idle++
		for i := range p.flows {
			f := p.flows[i].Load()
			if f == nil {
				continue
			}
			if f.sample(at, before) {
				p.idle = 0
			}
		}
	})
	m.forget()
}

// forget lets series go that nobody uses.
func (m *Meter) forget() {
	m.grow.Lock()
	defer m.grow.Unlock()
	m.pairs.each(func(_ key, p *pair) {
		for i := range p.flows {
			if f := p.flows[i].Load(); f != nil {
				n := f.instances.retire(func(_ string, in *instance) bool { return in.idle > idleSamples })
				m.instances.Add(-int64(n))
			}
		}
	})
	m.pairs.retire(func(k key, p *pair) bool { return p.idle > idleSamples && !m.known(k) })
}

// known says whether a pair's names are those of something that is there.
func (m *Meter) known(k key) bool {
	inLane := k.lane == "" || k.lane == Other || m.o.KnownLane(lane.Name(k.lane))
	return inLane && (k.service == "" || k.service == Other || m.o.KnownService(k.service))
}

// sample notes the totals of now, and reports whether something has changed.
func (f *flow) sample(at, before int) (changed bool) {
	f.instances.each(func(_ string, in *instance) {
		t := in.tally()
		in.idle++
		if t != in.ring[before] {
			in.idle, changed = 0, true
		}
		in.ring[at] = t
	})
	last, s := f.ring[before], f.now()
	if last != nil && *last == *s {
		f.ring[at] = last
		return changed
	}
	f.ring[at] = s
	return true
}

// now is a sample of now.
func (f *flow) now() *sample {
	s := &sample{failed: f.failed.Load(), fallbacks: f.fallbacks.Load()}
	for i := range s.took {
		s.took[i] = uint32(f.took.n[i].Load())
	}
	return s
}
