package printer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/iostreams"
	"lane/pkg/metrics"
	"lane/pkg/traffic"
)

// TopSchema names the JSON form of Top.
const TopSchema = "lane.top/v1"

// Top is lanes beside the baseline, service by service.
type Top struct {
	Schema   string    `json:"schema"`
	Seconds  float64   `json:"seconds"` // the span of time, the longest of all ports
	Ports    []TopPort `json:"ports"`
	Services []TopRow  `json:"services"` // by service and lane
}

// TopPort is an admin port that was asked.
type TopPort struct {
	Addr    string `json:"addr"`
	Service string `json:"service"` // as registered; empty: named by the user
	ID      string `json:"id"`
	Error   string `json:"error"` // empty: it answered
}

// TopRow is one lane of a service, and the service's baseline.
type TopRow struct {
	Service  string    `json:"service"`
	Lane     string    `json:"lane"` // empty: the service has requests without a lane only
	In       TopFlow   `json:"in"`   // the requests of the lane, whoever served them
	Baseline TopFlow   `json:"baseline"`
	Served   []TopPart `json:"served"` // the lane's requests by instance
}

// TopFlow is the figures of requests.
type TopFlow struct {
	Requests  uint64  `json:"requests"`
	Errors    uint64  `json:"errors"`
	Fallbacks uint64  `json:"fallbacks"`
	Rate      float64 `json:"rate"`
	P50       float64 `json:"p50_ms"`
	P95       float64 `json:"p95_ms"`
	P99       float64 `json:"p99_ms"`
}

// TopPart is what one instance served.
type TopPart struct {
	Instance string `json:"instance"`
	Requests uint64 `json:"requests"`
	Errors   uint64 `json:"errors"`
}

// NewTop adds up what ports answered. long takes the window of 60 s, not that of
// 10 s. A request is counted by its caller's side, a gateway or the proxy of a
// sidecar, and again by the sidecar that it comes to: see topFlows.of.
func NewTop(ports []TopPort, stats []metrics.Stats, long bool) Top {
	out := Top{Schema: TopSchema, Ports: ports, Services: []TopRow{}}
	all := topFlows{}
	for _, s := range stats {
		for _, r := range s.Rows {
			if r.Service == "" {
				continue
			}
			w := &r.Short
			if long {
				w = &r.Long
			}
			out.Seconds = max(out.Seconds, w.Seconds)
			all.add(topKey{r.Service, r.Lane}, r.Front == string(traffic.FrontSidecar), w)
		}
	}
	flows := map[topKey]*metrics.Window{}
	for k := range all {
		flows[k] = all.of(k)
	}
	lanes := map[string]bool{}
	for k := range flows {
		lanes[k.service] = lanes[k.service] || k.lane != metrics.Baseline
	}
	for k, w := range flows {
		row := TopRow{Service: k.service, Served: []TopPart{}}
		if base := flows[topKey{k.service, metrics.Baseline}]; base != nil {
			row.Baseline = topFlow(base)
		}
		switch {
		case k.lane != metrics.Baseline:
			row.Lane, row.In = k.lane, topFlow(w)
			for _, in := range w.Instances {
				row.Served = append(row.Served, TopPart(in))
			}
		case lanes[k.service]:
			continue // it stands beside its lanes
		}
		out.Services = append(out.Services, row)
	}
	slices.SortFunc(out.Services, func(a, b TopRow) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Lane, b.Lane))
	})
	return out
}

type topKey struct{ service, lane string }

// topFlows are the same requests as both sides have counted them.
type topFlows map[topKey]*sides

type sides struct{ callers, sidecars *metrics.Window } // nil: none

func (t topFlows) add(k topKey, sidecar bool, w *metrics.Window) {
	if t[k] == nil {
		t[k] = &sides{}
	}
	side := &t[k].callers
	if sidecar {
		side = &t[k].sidecars
	}
	if *side == nil {
		*side = &metrics.Window{}
	}
	(*side).Add(w)
}

// of is the side that knows more. Sidecars see all requests that the baseline
// serves, whoever sends them; of a lane's requests those alone that fell back: what
// the lane's own instances serve, and what lane answers itself, only callers see.
func (t topFlows) of(k topKey) *metrics.Window {
	s := t[k]
	more := k.lane != metrics.Baseline && s.callers != nil && s.callers.Requests > s.callers.Fallbacks
	if s.sidecars == nil || more {
		return s.callers
	}
	return s.sidecars
}

func topFlow(w *metrics.Window) TopFlow {
	return TopFlow{Requests: w.Requests, Errors: w.Errors, Fallbacks: w.Fallbacks, Rate: w.Rate, P50: w.P50, P95: w.P95, P99: w.P99}
}

// PrintTop writes the lanes as a table: a service, its lane and the lane's rate,
// errors, fallbacks, p95 and p99, and then the same of the baseline.
func PrintTop(s *iostreams.IOStreams, top *Top) error {
	t := NewTable(s, "SERVICE", "LANE", "RATE", "ERRORS", "FALLBACK", "P95", "P99", "BASELINE", "ERRORS", "P95", "P99")
	for i := range top.Services {
		r := &top.Services[i]
		in := []Cell{As(Dim, "-"), As(Dim, "-"), As(Dim, "-"), As(Dim, "-"), As(Dim, "-")}
		name := As(Dim, "-")
		if r.Lane != "" {
			name = As(Lane, r.Lane)
			in = []Cell{rate(&r.In), errorShare(&r.In), share(Warn, r.In.Fallbacks, r.In.Requests), took(&r.In, r.In.P95), took(&r.In, r.In.P99)}
		}
		cells := append([]Cell{Text(r.Service), name}, in...)
		t.Row(append(cells, rate(&r.Baseline), errorShare(&r.Baseline), took(&r.Baseline, r.Baseline.P95), took(&r.Baseline, r.Baseline.P99))...)
	}
	return t.Flush()
}

func rate(f *TopFlow) Cell { return Text(strconv.FormatFloat(f.Rate, 'f', 1, 64) + "/s") }

func errorShare(f *TopFlow) Cell { return share(Bad, f.Errors, f.Requests) }

// share is a part in percent; no requests are no share, and not a good one.
func share(r Role, part, of uint64) Cell {
	if of == 0 {
		return As(Dim, "-")
	}
	c := Text(strconv.FormatFloat(100*float64(part)/float64(of), 'f', 1, 64) + "%")
	if part > 0 {
		c.Role = r
	}
	return c
}

func took(f *TopFlow, ms float64) Cell {
	if f.Requests == 0 || ms == 0 {
		return As(Dim, "-")
	}
	return Text(Took(millis(ms)))
}

// TopNotes says to Err what the table cannot: which ports did not answer, and that
// there is nothing.
func TopNotes(s *iostreams.IOStreams, top *Top) error {
	for _, p := range top.Ports {
		if p.Error == "" {
			continue
		}
		name := p.Addr
		if p.ID != "" {
			name += " (" + p.ID + ")"
		}
		if _, err := fmt.Fprintln(s.Err, paint(s.ErrColor, Warn, Line(name+" does not answer: "+p.Error))); err != nil {
			return err
		}
	}
	if len(top.Services) == 0 {
		_, err := fmt.Fprintln(s.Err, "no requests yet")
		return err
	}
	return nil
}

// Line is a text as one printable line.
func Line(text string) string { return traffic.Printable(strings.ReplaceAll(text, "\n", " ")) }

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
