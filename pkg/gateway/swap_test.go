package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// swapped is a watch whose revision the test swaps.
type swapped struct {
	applied atomic.Pointer[consul.AppliedRules[*rules.Set]]
	settled chan struct{}
}

func (s *swapped) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (s *swapped) Settled() <-chan struct{}                  { return s.settled }
func (s *swapped) State() consul.RuleState                   { return consul.RuleState{} }
func (s *swapped) Applied() *consul.AppliedRules[*rules.Set] { return s.applied.Load() }

// Ten thousand swaps while requests run: each request is of one revision, which is
// the one that it names.
func TestNoRequestIsOfTwoRevisions(t *testing.T) {
	const swaps, revisions, least = 10_000, 50, 2_000
	var all [revisions]*consul.AppliedRules[*rules.Set]
	for i := range all {
		n := i + 1
		set, err := rules.Parse(fmt.Appendf(nil, "entry: shop\nrules:\n  - { id: r, priority: 1, lane: rev-%d, match: { path: { prefix: / } } }\n", n))
		if err != nil {
			t.Fatal(err)
		}
		all[i] = &consul.AppliedRules[*rules.Set]{Revision: consul.RuleRevision{Revision: n}, Rules: set.WithRevision(rules.Revision{Rev: strconv.Itoa(n)})}
	}
	w := &swapped{settled: make(chan struct{})}
	close(w.settled)
	w.applied.Store(all[0])
	gate := serveRules(t, &Rules{watch: w})

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var asked, swapped atomic.Int64
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(50 * time.Microsecond) // it is not to be all that the machine does
		defer tick.Stop()
		for n := 0; ctx.Err() == nil && (n < swaps || asked.Load() < least); n++ {
			w.applied.Store(all[n%revisions])
			swapped.Add(1)
			<-tick.C
		}
		cancel()
	})
	told := regexp.MustCompile(`; lane=rev-(\d+)(?:;.*)?; rev=(\d+)$`)
	tr := &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 4}
	defer tr.CloseIdleConnections()
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gate+"/", nil)
				if err != nil {
					t.Error(err)
					return
				}
				res, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				tag, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				rev, decision := res.Header.Get(lane.HeaderRuleRev), res.Header.Get(lane.HeaderDecision)
				m := told.FindStringSubmatch(decision)
				if err != nil || res.StatusCode != http.StatusOK || m == nil || m[1] != rev || m[2] != rev || string(tag) != "rev-"+rev {
					t.Errorf("%s, revision %q, %q, passed on %q, %v", res.Status, rev, decision, tag, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	running.Wait()
	if swapped.Load() < swaps || asked.Load() < least {
		t.Errorf("%d swaps, %d requests", swapped.Load(), asked.Load())
	}
	t.Logf("%d swaps, %d requests", swapped.Load(), asked.Load())
}

// serveRules runs a gateway before a shop that answers with the tag that it got.
func serveRules(t *testing.T, r *Rules) (addr string) {
	t.Helper()
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("x-lane-tag")) }))
	t.Cleanup(shop.Close)
	client, err := consul.Open(consul.Config{Address: consultest.Embedded(t), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	traces, err := tracemap.ParseSources(tracemap.Auto)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{Listener: ln, Watcher: consul.NewWatcher(client, consul.WatchOptions{}), Policy: lane.DefaultPolicy(),
			Routes: []proxy.Route{{Service: "shop", Upstreams: map[lane.Name]string{"": shop.Listener.Addr().String()}}},
			Traces: traces, Expose: proxy.ExposeAll, Rules: r, Color: r.Color, Log: traffic.NewLog(16), Ready: func() { close(ready) }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatal("the gateway is not ready")
	}
	return ln.Addr().String()
}
