package metrics

import (
	"cmp"
	"slices"
	"time"
)

// StatsSchema names the JSON form of Stats.
const StatsSchema = "lane.stats/v1"

// Stats are the rates, errors and durations of the last seconds.
type Stats struct {
	Schema string `json:"schema"`
	Rows   []Row  `json:"rows"` // by service, lane and front
}

// Row is one service and lane, as one front saw it.
type Row struct {
	Service string `json:"service"` // empty: hosts that are no services
	Lane    string `json:"lane"`    // baseline for requests without one
	Front   string `json:"front"`
	Short   Window `json:"short"` // the last 10 s
	Long    Window `json:"long"`  // the last 60 s
}

// Window is what happened in a span of time that ends now.
type Window struct {
	Seconds   float64         `json:"seconds"` // how long it really was
	Requests  uint64          `json:"requests"`
	Errors    uint64          `json:"errors"` // of lane, of the transport, and 5xx of the application
	Fallbacks uint64          `json:"fallbacks"`
	Rate      float64         `json:"rate"` // requests a second
	P50       float64         `json:"p50_ms"`
	P95       float64         `json:"p95_ms"`
	P99       float64         `json:"p99_ms"`
	Took      []Bucket        `json:"took"` // not empty ones only, so that windows of several processes can be added up
	Instances []InstanceCount `json:"instances"`
}

// Bucket is durations that were not longer than a bound.
type Bucket struct {
	UpTo  float64 `json:"up_to_ms"` // 0: longer than every bound
	Count uint64  `json:"count"`
}

// InstanceCount is what one instance served in a window; an empty ID is requests
// that no instance got.
type InstanceCount struct {
	Instance string `json:"instance"`
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
}

// Stats are the figures of now. Without Run the windows begin with the Meter.
func (m *Meter) Stats() Stats {
	m.window.Lock()
	defer m.window.Unlock()
	now := m.o.Now()
	short, long := m.back(now, ShortWindow), m.back(now, LongWindow)
	out := Stats{Schema: StatsSchema, Rows: []Row{}}
	m.pairs.each(func(k key, p *pair) {
		for i := range p.flows {
			if f := p.flows[i].Load(); f != nil {
				out.Rows = append(out.Rows, Row{Service: k.service, Lane: laneLabel(k.lane), Front: fronts[i],
					Short: m.since(f, now, short), Long: m.since(f, now, long)})
			}
		}
	})
	slices.SortFunc(out.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Front, b.Front))
	})
	return out
}

func laneLabel(l string) string {
	if l == "" {
		return Baseline
	}
	return l
}

// back is the place of the newest sample that is at least d old, else of the
// oldest one, -1 if there is none.
func (m *Meter) back(now time.Time, d time.Duration) int {
	if m.ticks <= ringSize && now.Sub(m.began) <= d {
		return -1
	}
	oldest := max(0, m.ticks-ringSize)
	for i := m.ticks - 1; i >= oldest; i-- {
		if now.Sub(m.times[i%ringSize]) >= d {
			return i % ringSize
		}
	}
	if m.ticks < ringSize {
		return -1
	}
	return oldest % ringSize
}

// since is what a flow did since the sample at a place, -1 for its beginning.
func (m *Meter) since(f *flow, now time.Time, at int) Window {
	begin, old := m.began, &sample{}
	if at >= 0 {
		begin = m.times[at]
		if f.ring[at] != nil {
			old = f.ring[at]
		}
	}
	w := Window{Seconds: now.Sub(begin).Seconds(), Instances: []InstanceCount{}}
	f.instances.each(func(id string, in *instance) {
		t := in.tally()
		if at >= 0 {
			t.requests -= in.ring[at].requests
			t.failed -= in.ring[at].failed
		}
		if t.requests == 0 {
			return
		}
		w.Requests += t.requests
		w.Instances = append(w.Instances, InstanceCount{Instance: id, Requests: t.requests, Errors: t.failed})
	})
	slices.SortFunc(w.Instances, func(a, b InstanceCount) int { return cmp.Compare(a.Instance, b.Instance) })
	s := f.now()
	w.Errors, w.Fallbacks = s.failed-old.failed, s.fallbacks-old.fallbacks
	for i := range s.took {
		if n := s.took[i] - old.took[i]; n > 0 {
			b := Bucket{Count: uint64(n)}
			if i < nBounds {
				b.UpTo = float64(bounds[i]) / 1e6
			}
			w.Took = append(w.Took, b)
		}
	}
	w.settle()
	return w
}

// settle works out what follows from the counts.
func (w *Window) settle() {
	if w.Took == nil {
		w.Took = []Bucket{}
	}
	if w.Seconds > 0 {
		w.Rate = float64(w.Requests) / w.Seconds
	}
	w.P50, w.P95, w.P99 = Quantile(.50, w.Took), Quantile(.95, w.Took), Quantile(.99, w.Took)
}

// Add adds what another process saw in the same span of time.
func (w *Window) Add(o *Window) {
	w.Seconds = max(w.Seconds, o.Seconds)
	w.Requests += o.Requests
	w.Errors += o.Errors
	w.Fallbacks += o.Fallbacks
	rate := w.Rate + o.Rate // each over its own span
	took := slices.Clone(w.Took)
	for _, b := range o.Took {
		if i := slices.IndexFunc(took, func(c Bucket) bool { return c.UpTo == b.UpTo }); i >= 0 {
			took[i].Count += b.Count
		} else {
			took = append(took, b)
		}
	}
	slices.SortFunc(took, func(a, b Bucket) int {
		if a.UpTo == 0 || b.UpTo == 0 {
			return cmp.Compare(b.UpTo, a.UpTo) // the one without a bound is last
		}
		return cmp.Compare(a.UpTo, b.UpTo)
	})
	w.Took = took
	all := slices.Clone(w.Instances)
	for _, in := range o.Instances {
		if i := slices.IndexFunc(all, func(c InstanceCount) bool { return c.Instance == in.Instance }); i >= 0 {
			all[i].Requests += in.Requests
			all[i].Errors += in.Errors
		} else {
			all = append(all, in)
		}
	}
	slices.SortFunc(all, func(a, b InstanceCount) int { return cmp.Compare(a.Instance, b.Instance) })
	w.Instances = all
	w.settle()
	w.Rate = rate
}
