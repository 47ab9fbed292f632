package metrics

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// meter knows the lanes and services that are named.
func meter(o Options, known ...string) *Meter {
	in := map[string]bool{}
	for _, k := range known {
		in[k] = true
	}
	o.KnownLane = func(l lane.Name) bool { return in[string(l)] }
	o.KnownService = func(s string) bool { return in[s] }
	return New(o)
}

func decision(service string, l lane.Name, metrics ...lane.Metric) *lane.Decision {
	return &lane.Decision{Service: service, Lane: l, Metrics: metrics}
}

func exchange(service string, l lane.Name, instance string, status int, took time.Duration) *traffic.Exchange {
	return &traffic.Exchange{Service: service, Lane: l, Instance: instance, Status: status, Took: took,
		Front: traffic.FrontGateway, Method: "GET", Kind: lane.KindLaneMatch}
}

// full is a meter in which every metric has a value.
func full() *Meter {
	m := meter(Options{Aliases: true, TraceMap: func() int { return 7 }, AccessLost: func() uint64 { return 3 },
		RulesRefused: func() uint64 { return 2 }, Relay: func() Relay {
			return Relay{Links: 4, Claims: 5, Streams: 6, Refused: 8, Limited: map[string]uint64{"streams": 9},
				Laptops: []RelayLaptop{{"alice", "desk-1", 10, 20}, {"other", "other", 1, 2}}}
		}, Whitelist: func() map[string]uint64 { return map[string]uint64{"late": 5, "denied": 1} }}, "orders", "gray")
	for i := range families {
		f := &families[i]
		m.Decided(decision("orders", "gray", lane.Metric{Name: f.name, Label: f.label, Value: "why"}))
	}
	e := exchange("orders", "gray", "o-1", 503, 3*time.Millisecond)
	e.Code = lane.CodeZoneCap
	m.Done(e)
	m.Done(exchange("orders", "", "o-2", 200, time.Second))
	return m
}

func scrape(t *testing.T, m *Meter, accept string) (body, contentType string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	b, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return string(b), w.Header().Get("Content-Type")
}

// parsed reads the text as Prometheus does.
func parsed(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	out, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// value is the value of the one series with all the labels, given in pairs.
func value(t *testing.T, all map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	var out float64
	for _, s := range all[name].GetMetric() {
		have := map[string]string{}
		for _, l := range s.GetLabel() {
			have[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i+1 < len(labels); i += 2 {
			fits = fits && have[labels[i]] == labels[i+1]
		}
		if fits {
			out += s.GetCounter().GetValue() + s.GetGauge().GetValue() + float64(s.GetHistogram().GetSampleCount())
		}
	}
	return out
}

func TestTextIsWhatPrometheusReads(t *testing.T) {
	text, kind := scrape(t, full(), "text/plain")
	if !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Error(kind)
	}
	all := parsed(t, text)
	for _, e := range Names() {
		f := all[e.Name]
		if f == nil {
			t.Errorf("%s is missing", e.Name)
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != e.Type || f.GetHelp() != e.Help {
			t.Errorf("%s: %s %q, want %s %q", e.Name, got, f.GetHelp(), e.Type, e.Help)
		}
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if len(labels) != len(e.Labels) {
				t.Errorf("%s has the labels %v, want %v", e.Name, labels, e.Labels)
			}
			for _, want := range e.Labels {
				if !strings.Contains(" "+strings.Join(labels, " ")+" ", " "+want+" ") {
					t.Errorf("%s has the labels %v, want %v", e.Name, labels, e.Labels)
				}
			}
		}
	}
	if len(all) != len(Names()) {
		t.Errorf("%d families, %d are described", len(all), len(Names()))
	}
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, MetricRequests, []string{"service", "orders", "lane", "gray", "instance", "o-1", "code", "503", "front", "gateway"}},
		{1, MetricRequests, []string{"lane", "baseline", "instance", "o-2", "code", "200"}},
		{2, MetricDuration, nil},
		{1, lane.MetricFallback, []string{"service", "orders", "lane", "gray", "reason", "why"}},
		{1, MetricAliasFallback, []string{"reason", "why"}},
		{1, MetricAliasTagMissing, []string{"reason", "why"}},
		// The exchange's own code, once; what the decision said of it is the same error.
		{1, lane.MetricRouteErrors, nil},
		{1, lane.MetricRouteErrors, []string{"code", "E_ZONE_CAP"}},
		{7, MetricTraceMapEntries, nil},
		{4, MetricRelayLinks, nil}, {5, MetricRelayClaims, nil}, {6, MetricRelayStreams, nil}, {8, MetricRelayRefused, nil},
		{9, MetricRelayLimited, []string{"limit", "streams"}},
		{10, MetricRelayBytes, []string{"user", "alice", "host", "desk-1", "direction", "in"}}, {22, MetricRelayBytes, []string{"direction", "out"}},
		{3, MetricAccessLogLost, nil},
		{2, MetricRulesRefused, nil},
		{5, MetricWhitelistFaults, []string{"kind", "late"}},
		{6, MetricWhitelistFaults, nil},
	} {
		if got := value(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

func TestLinterOfPrometheusHasNothingToSay(t *testing.T) {
	text, _ := scrape(t, full(), "text/plain")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	problems, err = promlint.New(strings.NewReader("# TYPE lane_bad counter\nlane_bad 1\n")).Lint()
	if err != nil || len(problems) == 0 {
		t.Errorf("the linter finds nothing in a counter without _total and help: %v", err)
	}
}

func TestOpenMetrics(t *testing.T) {
	text, kind := scrape(t, full(), "application/openmetrics-text;version=1.0.0")
	if !strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0") || !strings.HasSuffix(text, "# EOF\n") ||
		!strings.Contains(text, "# TYPE lane_requests counter\n") || !strings.Contains(text, "\nlane_requests_total{") {
		t.Errorf("%s\n%s", kind, text)
	}
}

// curl and a browser get text, and nothing that they cannot read.
func TestWhoeverAsksForNothingGetsText(t *testing.T) {
	for _, accept := range []string{"", "*/*", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"} {
		if text, kind := scrape(t, full(), accept); !strings.HasPrefix(kind, "text/plain; version=0.0.4") || !strings.HasPrefix(text, "# HELP ") {
			t.Errorf("%q: %s", accept, kind)
		}
	}
}

func TestNoAliasUnlessAsked(t *testing.T) {
	m := meter(Options{}, "orders", "gray")
	m.Decided(decision("orders", "gray", lane.Metric{Name: lane.MetricFallback, Label: "reason", Value: "lane_absent"}))
	text, _ := scrape(t, m, "text/plain")
	if strings.Contains(text, "gray_fallback_total") || strings.Contains(text, MetricTraceMapEntries) || strings.Contains(text, "lane_relay") || strings.Contains(text, MetricRulesRefused) ||
		!strings.Contains(text, `lane_fallback_total{lane="gray",reason="lane_absent",service="orders"} 1`) {
		t.Error(text)
	}
}

func TestLabelsFromTheWireAreEscaped(t *testing.T) {
	id := "a\"b\\c\nd"
	m := meter(Options{}, "orders")
	m.Done(exchange("orders", "", id, 200, time.Millisecond))
	text, _ := scrape(t, m, "text/plain")
	if got := value(t, parsed(t, text), MetricRequests, "instance", id); got != 1 {
		t.Error(text)
	}
}

func TestMadeUpNamesAreOther(t *testing.T) {
	m := meter(Options{}, "orders", "gray")
	const n = 10000
	for i := range n {
		l := lane.Name(fmt.Sprint("dev-", i))
		m.Decided(decision("orders", l, lane.Metric{Name: lane.MetricFallback, Label: "reason", Value: "lane_absent"}))
		m.Done(exchange("orders", l, "o-1", 200, time.Millisecond))
		m.Done(exchange(fmt.Sprint("svc-", i), "gray", "", 503, time.Millisecond))
	}
	m.Done(exchange("orders", "gray", "o-2", 200, time.Millisecond))
	text, _ := scrape(t, m, "text/plain")
	all := parsed(t, text)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{n, lane.MetricFallback, []string{"service", "orders", "lane", "other"}},
		{n, MetricRequests, []string{"service", "orders", "lane", "other", "instance", "o-1"}},
		{n, MetricRequests, []string{"service", "other", "lane", "gray"}},
		{1, MetricRequests, []string{"service", "orders", "lane", "gray", "instance", "o-2"}},
		{2*n + 1, MetricRequests, nil},
	} {
		if got := value(t, all, c.name, c.labels...); got != c.want {
			t.Errorf("%s%v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if got := len(all[MetricRequests].GetMetric()); got != 3 {
		t.Errorf("%d series", got)
	}
}

// Names that are known are bounded too: whoever may register may flood.
func TestKnownNamesAreBounded(t *testing.T) {
	m := New(Options{KnownLane: func(lane.Name) bool { return true }, KnownService: func(string) bool { return true }})
	const n = 3 * maxPerFlow
	for i := range n {
		m.Done(exchange("orders", "gray", fmt.Sprint("o-", i), 200, time.Millisecond))
		m.Count("orders", "gray", MetricColor, fmt.Sprint("rule-", i))
	}
	for i := range 3 * maxPairs {
		m.Done(exchange("orders", lane.Name(fmt.Sprint("dev-", i)), "o-1", 200, time.Millisecond))
	}
	text, _ := scrape(t, m, "text/plain")
	all := parsed(t, text)
	if got := value(t, all, MetricRequests); got != n+3*maxPairs {
		t.Errorf("%v requests", got)
	}
	if got := value(t, all, MetricColor); got != n {
		t.Errorf("%v colored", got)
	}
	if got := len(all[MetricRequests].GetMetric()); got > maxPerFlow+maxPairs+2 {
		t.Errorf("%d series of requests", got)
	}
	if got := len(all[MetricColor].GetMetric()); got != min(n, maxValues+1) {
		t.Errorf("%d series of rules", got)
	}
}

// Whoever reads or samples holds a lock of its own.
func TestNoRequestWaitsForAReader(t *testing.T) {
	m := New(Options{KnownLane: func(lane.Name) bool { return true }, KnownService: func(string) bool { return true }})
	m.window.Lock()
	defer m.window.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 10 {
			m.Done(exchange("orders", lane.Name(fmt.Sprint("dev-", i)), "o-1", 200, time.Millisecond))
			m.Count("orders", "gray", MetricColor, fmt.Sprint("rule-", i))
		}
		m.Families()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("requests wait")
	}
}

func TestCodesAreBounded(t *testing.T) {
	m := meter(Options{}, "orders")
	for status := range 1000 {
		m.Done(exchange("orders", "", "o-1", status, time.Millisecond))
	}
	text, _ := scrape(t, m, "text/plain")
	all := parsed(t, text)
	if got := len(all[MetricRequests].GetMetric()); got != nCodes {
		t.Errorf("%d series, want %d", got, nCodes)
	}
	for code, want := range map[string]float64{"200": 1, "404": 1, "2xx": 90, "5xx": 89, NoCode: 500} {
		if got := value(t, all, MetricRequests, "code", code); got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
}

// Every name that a decision can ask for has its place.
func TestEveryMetricOfADecisionIsKnown(t *testing.T) {
	for i := range families {
		if got := familyOf(families[i].name); got != i || families[i].help == "" {
			t.Errorf("%q is at %d, want %d", families[i].name, got, i)
		}
	}
	for _, name := range []string{lane.MetricMatch, lane.MetricFallback, lane.MetricTagMissing, lane.MetricTagConflict,
		lane.MetricTagRejected, lane.MetricKillSwitch, lane.MetricRouteErrors, lane.MetricHardConstraint, lane.MetricCrossZone,
		lane.MetricCrossZoneDenied, lane.MetricVersionFallback, lane.MetricRegistryStale, lane.MetricExternal} {
		if familyOf(name) < 0 {
			t.Errorf("%s is not known", name)
		}
	}
	m := meter(Options{}, "orders")
	m.Count("orders", "", "lane_no_such_total", "")
	m.Count("orders", "", MetricWhitelistErrors, "")
	if all := m.Families(); len(all) != 1 || all[0].GetName() != MetricWhitelistErrors {
		t.Errorf("%v", all)
	}
}

func TestNoCountIsLost(t *testing.T) {
	m := meter(Options{}, "orders", "stock", "gray", "blue")
	const workers, each = 8, 2000
	stop := make(chan struct{})
	var readers, wg sync.WaitGroup
	for _, read := range []func(){m.sample, func() { m.Families() }, func() { m.Stats() }} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					read()
				}
			}
		})
	}
	for w := range workers {
		wg.Go(func() {
			services, lanes := []string{"orders", "stock", "made-up"}, []lane.Name{"gray", "blue", "", "dev-x"}
			for i := range each {
				s, l := services[i%3], lanes[i%4]
				m.Decided(decision(s, l, lane.Metric{Name: lane.MetricFallback, Label: "reason", Value: fmt.Sprint("r", i%5)},
					lane.Metric{Name: lane.MetricMatch}))
				m.Done(exchange(s, l, fmt.Sprint("i-", w, "-", i%7), 200+i%3, time.Duration(i)*time.Microsecond))
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	text, _ := scrape(t, m, "text/plain")
	all := parsed(t, text)
	for _, name := range []string{MetricRequests, MetricDuration, lane.MetricFallback, lane.MetricMatch} {
		if got := value(t, all, name); got != workers*each {
			t.Errorf("%s = %v, want %d", name, got, workers*each)
		}
	}
}

func TestHistogramOfPrometheus(t *testing.T) {
	m := meter(Options{}, "orders")
	for _, d := range []time.Duration{-time.Second, time.Millisecond, time.Millisecond + 1, 250 * time.Millisecond, time.Hour} {
		m.Done(exchange("orders", "", "o-1", 200, d))
	}
	for _, no := range []*traffic.Exchange{
		{Service: "orders", Status: 101, Method: "GET", Took: time.Hour}, {Service: "orders", Status: 200, Method: "CONNECT", Took: time.Hour},
		{Service: "orders", Method: "GET", Took: time.Hour}, {Service: "orders", Status: 200, Method: "GET", Guard: traffic.GuardProbe},
	} {
		m.Done(no)
	}
	text, _ := scrape(t, m, "text/plain")
	h := parsed(t, text)[MetricDuration].GetMetric()
	if len(h) != 1 || h[0].GetHistogram().GetSampleCount() != 5 || h[0].GetHistogram().GetSampleSum() < 3600.25 {
		t.Fatal(text)
	}
	want := map[float64]uint64{.0005: 1, .001: 2, .0025: 3, .1: 3, .25: 4, 100: 4}
	for _, b := range h[0].GetHistogram().GetBucket() {
		if n, ok := want[b.GetUpperBound()]; ok && n != b.GetCumulativeCount() {
			t.Errorf("le=%v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), n)
		}
	}
	if n := strings.Count(text, MetricDuration+"_bucket"); n != len(shown)+1 { // and +Inf
		t.Errorf("%d buckets, want %d", n, len(shown)+1)
	}
}

func TestFamiliesAreTextInOneOrder(t *testing.T) {
	m := full()
	var one, two bytes.Buffer
	for _, b := range []*bytes.Buffer{&one, &two} {
		for _, f := range m.Families() {
			if _, err := expfmt.MetricFamilyToText(b, f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if one.String() != two.String() {
		t.Error("the order of the series changes from one reading to the next")
	}
}
