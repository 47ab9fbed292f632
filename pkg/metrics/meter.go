package metrics

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Options are what a Meter needs to know of others.
type Options struct {
	// KnownLane and KnownService say which names may stand in a label; nil: none.
	// They are called for requests whose series is not there yet: see Known.
	KnownLane    func(lane.Name) bool
	KnownService func(string) bool
	// Killed says whether a lane is switched off, so that its requests in the
	// baseline are no fallbacks; nil: none is.
	Killed func(lane.Name) bool
	// TraceMap is how many traces are remembered; nil: there is no such map.
	TraceMap func() int
	// AccessLost is how many rows an access log has lost; nil: there is none.
	AccessLost func() uint64
	// RulesRefused is how many revisions of the rules were not loaded; nil: nobody
	// watches them.
	RulesRefused func() uint64
	// Whitelist is how many look-ups have failed, by kind; nil: there is none.
	Whitelist func() map[string]uint64
	// Relay is what a relay holds; nil: it is none.
	Relay func() Relay
	// Aliases also shows gray_fallback_total and gray_tag_missing_total.
	Aliases bool
	Now     func() time.Time // nil: time.Now
}

// Relay is what a relay holds, and whom it has turned away.
type Relay struct {
	Links, Claims, Streams int
	Refused                uint64
	Limited                map[string]uint64 // by the limit
	Laptops                []RelayLaptop     // of bounded number
}

// RelayLaptop is what one laptop has moved, in bytes from it and to it.
type RelayLaptop struct {
	User, Host string
	In, Out    uint64
}

// Meter counts. It is safe for concurrent use; Decided, Done and Count never
// wait for whoever reads or samples, and for each other only to make a series.
type Meter struct {
	o     Options
	pairs table[key, pair]

	grow      sync.Mutex // for whoever makes or forgets a series: held for a moment
	instances atomic.Int64

	window sync.Mutex // for samples and who reads them, never for a request
	times  [ringSize]time.Time
	ticks  int // samples so far
	began  time.Time
}

// New makes a Meter. Run it, for Stats to know more than the totals.
func New(o Options) *Meter {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.KnownLane == nil {
		o.KnownLane = func(lane.Name) bool { return false }
	}
	if o.KnownService == nil {
		o.KnownService = func(string) bool { return false }
	}
	if o.Killed == nil {
		o.Killed = func(lane.Name) bool { return false }
	}
	return &Meter{o: o, began: o.Now()}
}

// Decided counts what a decision asks for, except its error: that is the
// exchange's, which has also those that no decision made.
func (m *Meter) Decided(d *lane.Decision) {
	if len(d.Metrics) == 0 {
		return
	}
	p := m.pair(d.Service, d.Named())
	for i := range d.Metrics {
		c := &d.Metrics[i]
		if f := familyOf(c.Name); f >= 0 && f != famRouteErrors {
			m.add(&p.counts[f], f, c.Value)
		}
	}
}

// Done counts an exchange that has ended.
func (m *Meter) Done(e *traffic.Exchange) {
	p := m.pair(e.Service, e.Lane)
	f := m.flow(p, frontOf(e.Front))
	in := m.instance(f, e.Instance)
	in.codes[codeOf(e.Status)].Add(1)
	if e.Failed() {
		in.failed.Add(1)
		f.failed.Add(1)
	}
	if e.Code == "" && m.fellBack(e) {
		f.fallbacks.Add(1)
	}
	if e.Code != "" {
		m.add(&p.counts[famRouteErrors], famRouteErrors, string(e.Code))
	}
	if timed(e) {
		f.took.observe(e.Took)
	}
}

// fellBack says whether the baseline served a request that has a lane. A sidecar
// stands before an instance of the baseline and decides nothing: what comes to it
// with a lane was sent there by its caller, whose decision it does not see.
func (m *Meter) fellBack(e *traffic.Exchange) bool {
	if e.Front != traffic.FrontSidecar {
		return e.Fallback()
	}
	return e.Lane != "" && !m.o.Killed(e.Lane)
}

// Count counts what happens outside of decisions: the coloring rule of a request,
// a tag that was not trusted, a whitelist that failed. A name that is not known
// counts nothing.
func (m *Meter) Count(service string, l lane.Name, name, value string) {
	if f := familyOf(name); f >= 0 {
		m.add(&m.pair(service, l).counts[f], f, value)
	}
}

// timed says whether an exchange's duration is that of an answer: a connection's
// life is not.
func timed(e *traffic.Exchange) bool {
	return e.Status != 0 && e.Status != 101 && e.Method != "CONNECT" && e.Guard != traffic.GuardProbe
}

func (m *Meter) add(v *values, family int, value string) {
	if families[family].label == "" {
		v.n.Add(1)
		return
	}
	if c := v.by.get(value); c != nil {
		c.Add(1)
		return
	}
	if v.by.size() >= maxValues {
		value = Other
		if c := v.by.get(Other); c != nil {
			c.Add(1)
			return
		}
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	v.by.put(strings.Clone(value), func() *atomic.Uint64 { return new(atomic.Uint64) }).Add(1)
}

func (m *Meter) pair(service string, l lane.Name) *pair {
	k := key{service, string(l)}
	if p := m.pairs.get(k); p != nil {
		return p
	}
	if service != "" && !m.o.KnownService(service) {
		k.service = Other
	}
	if l != "" && !m.o.KnownLane(l) {
		k.lane = Other
	}
	if m.pairs.size() >= maxPairs && m.pairs.get(k) == nil {
		k = key{Other, Other}
	}
	if p := m.pairs.get(k); p != nil {
		return p
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	// The key outlives the request, and may be a part of its head.
	k = key{strings.Clone(k.service), strings.Clone(k.lane)}
	return m.pairs.put(k, func() *pair { return new(pair) })
}

func (m *Meter) flow(p *pair, front int) *flow {
	if f := p.flows[front].Load(); f != nil {
		return f
	}
	f := new(flow)
	if p.flows[front].CompareAndSwap(nil, f) {
		return f
	}
	return p.flows[front].Load()
}

func (m *Meter) instance(f *flow, id string) *instance {
	if in := f.instances.get(id); in != nil {
		return in
	}
	if m.instances.Load() >= maxInstances || f.instances.size() >= maxPerFlow {
		id = Other
		if in := f.instances.get(Other); in != nil {
			return in
		}
	}
	m.grow.Lock()
	defer m.grow.Unlock()
	return f.instances.put(strings.Clone(id), func() *instance { m.instances.Add(1); return new(instance) })
}
