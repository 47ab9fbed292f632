package proxy

import (
	"net/http"
	"sync"
	"testing"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// tally is a meter that keeps what it was told, as values.
type tally struct {
	mu      sync.Mutex
	decided []string // service/lane metric
	done    []traffic.Exchange
}

func (c *tally) Decided(d *lane.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range d.Metrics {
		c.decided = append(c.decided, d.Service+"/"+string(d.Lane)+" "+m.String())
	}
}

func (c *tally) Done(e *traffic.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, *e)
}

func (c *tally) Count(service string, l lane.Name, name, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decided = append(c.decided, service+"/"+string(l)+" "+name+" "+value)
}

func TestMeterHearsOfEveryRequestOnce(t *testing.T) {
	meter := &tally{}
	e := newEnv(t, func(c *Config) { c.Meter = meter })
	base, own := newBackend(t, "base", nil), newBackend(t, "own", nil)
	e.reg.set(service("stock", instance("s-base", base.addr(), "")),
		service("orders", instance("o-base", base.addr(), ""), instance("o-own", own.addr(), "dev-alice")),
		service("dead", instance("d-1", "127.0.0.1:1", ""), instance("d-2", "127.0.0.1:1", "")))
	for _, c := range []struct {
		url, decided string
		instance     string
		code         lane.Code
		status       int
	}{
		{"http://stock/", "stock/dev-alice lane_fallback_total{reason=lane_absent}", "s-base", "", 200},
		{"http://orders/", "orders/dev-alice lane_match_total", "o-own", "", 200},
		{"http://dead/", "dead/dev-alice lane_fallback_total{reason=lane_absent}", "", lane.CodeUpstreamConnect, 502}, // one decision, two tries
	} {
		meter.mu.Lock()
		meter.decided, meter.done = nil, nil
		meter.mu.Unlock()
		if got := e.get(c.url); got.status != c.status {
			t.Errorf("%s: %d", c.url, got.status)
		}
		eventually(t, "the exchange has ended", func() bool {
			meter.mu.Lock()
			defer meter.mu.Unlock()
			return len(meter.done) > 0
		})
		meter.mu.Lock()
		done, decided := meter.done, meter.decided
		meter.mu.Unlock()
		if len(done) != 1 {
			t.Fatalf("%s: told of %d exchanges", c.url, len(done))
		}
		if len(decided) != 1 || decided[0] != c.decided {
			t.Errorf("%s: decided %q", c.url, decided)
		}
		if x := done[0]; x.Code != c.code || x.Status != c.status || x.Took <= 0 || c.instance != "" && x.Instance != c.instance {
			t.Errorf("%s: %+v", c.url, x)
		}
	}
}

// What the log and the meter are told are the same requests, whoever asks at once.
func TestMeterAndLogAgree(t *testing.T) {
	meter := &tally{}
	e := newEnv(t, func(c *Config) { c.Meter = meter })
	base := newBackend(t, "base", nil)
	e.reg.set(service("stock", instance("s-base", base.addr(), "")))
	client := e.client()
	const workers, each = 8, 25
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				resp, err := client.Get("http://stock/")
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, "all have ended", func() bool {
		meter.mu.Lock()
		defer meter.mu.Unlock()
		return len(meter.done) == workers*each && e.log.Last() == workers*each
	})
	if got := e.tr.Counts().Total(traffic.CountRequests); got != workers*each || len(meter.decided) != workers*each {
		t.Errorf("%d counted, %d decided", got, len(meter.decided))
	}
	for _, x := range meter.done {
		if x.Status != http.StatusOK || x.Service != "stock" {
			t.Errorf("%+v", x)
		}
	}
}
