package metrics

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

var _ http.Handler = (*Meter)(nil)

// ServeHTTP writes all metrics in the format that the reader asks for: the text
// format of Prometheus, OpenMetrics, or protocol buffers.
func (m *Meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format := expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...)
	w.Header().Set("Content-Type", string(format))
	e := expfmt.NewEncoder(w, format)
	for _, f := range m.Families() {
		if err := e.Encode(f); err != nil {
			return // the reader has gone
		}
	}
	if c, ok := e.(expfmt.Closer); ok {
		_ = c.Close() // the last line; nobody is left to tell
	}
}

// Families are all metrics that have a value, by name.
func (m *Meter) Families() []*dto.MetricFamily {
	keys, pairs := m.sorted()
	out := []*dto.MetricFamily{requests(keys, pairs), durations(keys, pairs)}
	for i := range families {
		f := &families[i]
		c := counters(keys, pairs, i)
		out = append(out, c)
		if f.alias != "" && m.o.Aliases {
			out = append(out, &dto.MetricFamily{Name: &f.alias, Help: c.Help, Type: c.Type, Metric: c.Metric})
		}
	}
	if m.o.TraceMap != nil {
		out = append(out, single(MetricTraceMapEntries, helpTraceMap, dto.MetricType_GAUGE, float64(m.o.TraceMap())))
	}
	if m.o.AccessLost != nil {
		out = append(out, single(MetricAccessLogLost, helpAccessLost, dto.MetricType_COUNTER, float64(m.o.AccessLost())))
	}
	if m.o.RulesRefused != nil {
		out = append(out, single(MetricRulesRefused, helpRulesRefused, dto.MetricType_COUNTER, float64(m.o.RulesRefused())))
	}
	if m.o.Whitelist != nil {
		out = append(out, labelled(MetricWhitelistFaults, helpFaults, "kind", m.o.Whitelist()))
	}
	if m.o.Relay != nil {
		r := m.o.Relay()
		out = append(out, single(MetricRelayLinks, helpRelayLinks, dto.MetricType_GAUGE, float64(r.Links)),
			single(MetricRelayClaims, helpRelayClaims, dto.MetricType_GAUGE, float64(r.Claims)),
			single(MetricRelayStreams, helpRelayStreams, dto.MetricType_GAUGE, float64(r.Streams)),
			single(MetricRelayRefused, helpRelayRefused, dto.MetricType_COUNTER, float64(r.Refused)),
			labelled(MetricRelayLimited, helpRelayLimited, "limit", r.Limited), laptops(r.Laptops))
	}
	out = slices.DeleteFunc(out, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func (m *Meter) sorted() ([]key, map[key]*pair) {
	pairs := map[key]*pair{}
	m.pairs.each(func(k key, p *pair) { pairs[k] = p })
	keys := slices.SortedFunc(maps.Keys(pairs), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.service, b.service), cmp.Compare(a.lane, b.lane))
	})
	return keys, pairs
}

func (k key) labels(more ...string) []*dto.LabelPair {
	l := laneLabel(k.lane)
	out := []*dto.LabelPair{label("lane", l), label("service", k.service)}
	for i := 0; i+1 < len(more); i += 2 {
		out = append(out, label(more[i], more[i+1]))
	}
	slices.SortFunc(out, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

func head(name, help string, t dto.MetricType) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: &t}
}

func single(name, help string, t dto.MetricType, v float64) *dto.MetricFamily {
	f := head(name, help, t)
	f.Metric = []*dto.Metric{{Gauge: &dto.Gauge{Value: &v}}}
	if t == dto.MetricType_COUNTER {
		f.Metric = []*dto.Metric{{Counter: &dto.Counter{Value: &v}}}
	}
	return f
}

// labelled is a counter by one label.
func labelled(name, help, by string, counts map[string]uint64) *dto.MetricFamily {
	f := head(name, help, dto.MetricType_COUNTER)
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		f.Metric = append(f.Metric, counter(counts[value], []*dto.LabelPair{label(by, value)}))
	}
	return f
}

func laptops(all []RelayLaptop) *dto.MetricFamily {
	f := head(MetricRelayBytes, helpRelayBytes, dto.MetricType_COUNTER)
	all = slices.SortedFunc(slices.Values(all), func(a, b RelayLaptop) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Host, b.Host))
	})
	for _, l := range all {
		for i, n := range []uint64{l.In, l.Out} {
			f.Metric = append(f.Metric, counter(n, []*dto.LabelPair{label("direction", []string{"in", "out"}[i]), label("host", l.Host), label("user", l.User)}))
		}
	}
	return f
}

func counter(n uint64, labels []*dto.LabelPair) *dto.Metric {
	v := float64(n)
	return &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &v}}
}

// flowsOf visits the flows of all pairs.
func flowsOf(keys []key, pairs map[key]*pair, visit func(key, string, *flow)) {
	for _, k := range keys {
		p := pairs[k]
		for i := range p.flows {
			if f := p.flows[i].Load(); f != nil {
				visit(k, fronts[i], f)
			}
		}
	}
}

func requests(keys []key, pairs map[key]*pair) *dto.MetricFamily {
	out := head(MetricRequests, helpRequests, dto.MetricType_COUNTER)
	flowsOf(keys, pairs, func(k key, front string, f *flow) {
		f.instances.each(func(id string, in *instance) {
			for c := range in.codes {
				if n := in.codes[c].Load(); n > 0 {
					out.Metric = append(out.Metric, counter(n, k.labels("front", front, "instance", id, "code", codeText(c))))
				}
			}
		})
	})
	return out
}

func durations(keys []key, pairs map[key]*pair) *dto.MetricFamily {
	out := head(MetricDuration, helpDuration, dto.MetricType_HISTOGRAM)
	flowsOf(keys, pairs, func(k key, front string, f *flow) {
		if h := f.took.shown(); h.GetSampleCount() > 0 {
			out.Metric = append(out.Metric, &dto.Metric{Label: k.labels("front", front), Histogram: h})
		}
	})
	return out
}

// shown adds the buckets up to those that Prometheus is shown.
func (h *histogram) shown() *dto.Histogram {
	out := &dto.Histogram{Bucket: make([]*dto.Bucket, 0, len(shown))}
	sum := float64(h.sum.Load()) / 1e9
	var n uint64
	next := 0
	for i := range h.n {
		n += h.n[i].Load()
		if next < len(shown) && i < nBounds && bounds[i] == int64(math.Round(shown[next]*1e9)) {
			upTo, count := shown[next], n
			out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: &upTo, CumulativeCount: &count})
			next++
		}
	}
	out.SampleCount, out.SampleSum = &n, &sum
	return out
}

func counters(keys []key, pairs map[key]*pair, family int) *dto.MetricFamily {
	f := &families[family]
	out := head(f.name, f.help, dto.MetricType_COUNTER)
	for _, k := range keys {
		v := &pairs[k].counts[family]
		if n := v.n.Load(); n > 0 {
			out.Metric = append(out.Metric, counter(n, k.labels()))
		}
		by := v.by.load().live // which nobody leaves
		for _, value := range slices.Sorted(maps.Keys(by)) {
			out.Metric = append(out.Metric, counter(by[value].Load(), k.labels(f.label, value)))
		}
	}
	return out
}
