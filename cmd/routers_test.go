package cmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/iostreams"
)

// environment is a registry with routers whose admin listeners the test speaks for.
type environment struct {
	addr   string
	client *consul.Client
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	addr := consultest.Embedded(t)
	client, err := consul.Open(consul.Config{Address: addr, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &environment{addr, client}
}

// router registers a router; its admin listener is h, none for nil.
func (e *environment) router(t *testing.T, service, id, status string, h http.HandlerFunc) {
	t.Helper()
	port := "1"
	if h != nil {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		port = srv.URL[strings.LastIndex(srv.URL, ":")+1:]
	}
	e.put(t, "/v1/agent/service/register", map[string]any{"ID": id, "Name": service, "Address": "127.0.0.1", "Port": 80,
		"Meta": map[string]string{"lane-admin-port": port}, "Check": map[string]any{"TTL": "5m", "Status": status}})
}

func (e *environment) put(t *testing.T, path string, body any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+e.addr+path, strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, res.Status)
	}
}

// applies answers /rev with one revision after another, and then with the last.
func applies(revs ...string) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/rev" {
			http.NotFound(w, r)
			return
		}
		i := min(int(n.Add(1)), len(revs)) - 1
		fmt.Fprintf(w, `{"schema":"lane.rev/v1",%s}`, revs[i])
	}
}

func TestRulesThatEveryRouterApplies(t *testing.T) {
	e := newEnvironment(t)
	e.router(t, "lane-gateway", "gw-1", "passing", applies(`"revision":6`, `"revision":6`, `"revision":7`))
	e.router(t, "lane-sidecar", "sc-1", "passing", applies(`"revision":8`))            // a newer one came in between
	e.router(t, "lane-gateway", "gw-2", "critical", nil)                               // dead, so it routes nothing
	e.router(t, "lane-sidecar", "sc-2", "critical", applies(`"revision":7`))           // sick, and it answers
	e.router(t, "lane-sidecar", "sc-3", "passing", applies(`"revision":0`))            // it has no rules
	e.router(t, "lane-gateway", "gw-3", "passing", applies(`"revision":0,"own":true`)) // it follows its file
	states, err := waitForRules(t.Context(), e.client, 7, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range states {
		got[s.ID] = fmt.Sprintf("%s %d", s.State, s.Revision)
	}
	for id, want := range map[string]string{"gw-1": "applied 7", "sc-1": "applied 8", "gw-2": "dead 0", "sc-2": "applied 7", "sc-3": "none 0", "gw-3": "own 0"} {
		if got[id] != want {
			t.Errorf("%s: %s, want %s", id, got[id], want)
		}
	}
}

func TestRulesThatOneRouterDoesNotApply(t *testing.T) {
	t.Parallel()
	const enough = 5 * time.Second // for the other one to be asked, on a busy machine
	for name, c := range map[string]struct {
		h     http.HandlerFunc
		state string
		limit time.Duration
	}{
		"old":     {applies(`"revision":6`), routerWaiting, enough},
		"refused": {applies(`"revision":6,"refused":7,"why":"line 3"`), routerRefused, time.Minute}, // known at once
		"broken":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, routerSilent, enough},
		"none":    {applies(`"revision":0`), routerWaiting, enough}, // a gateway without rules is to have some
		"absent":  {nil, routerSilent, enough},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // what is waited for in vain passes together
			e := newEnvironment(t)
			e.router(t, "lane-gateway", "gw-1", "passing", applies(`"revision":7`))
			e.router(t, "lane-gateway", "gw-2", "passing", c.h)
			states, err := waitForRules(t.Context(), e.client, 7, c.limit)
			if err == nil || len(states) != 2 || states[0].State != routerApplied || states[1].State != c.state {
				t.Errorf("%+v %v", states, err)
			}
		})
	}
}

// counts answers /metrics with one figure after another for an instance.
func counts(instance string, figures ...int) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		i := min(int(n.Add(1)), len(figures)) - 1
		fmt.Fprintf(w, "# TYPE lane_requests_total counter\n"+
			"lane_requests_total{service=\"orders\",instance=\"green-1\",code=\"200\"} %d\n"+
			"lane_requests_total{service=\"other\",instance=%q,code=\"200\"} %d\n"+
			"lane_requests_total{code=\"200\",service=\"orders\",instance=%q} %d\n", n.Load(), instance, n.Load(), instance, figures[i])
	}
}

func TestWaitForASwitch(t *testing.T) {
	groups := []*group{{Group: "blue", ids: []string{"blue-1"}}, {Group: "green", ids: []string{"green-1"}}}
	for name, c := range map[string]struct {
		gateway, sidecar http.HandlerFunc
		want             switchWaited
		ok               bool
	}{
		"quiet":        {counts("blue-1", 7), counts("blue-1", 0), switchWaited{Routers: 2, Quiet: true}, true},
		"one uses it":  {counts("blue-1", 7), counts("blue-1", 3, 5), switchWaited{Routers: 2, Requests: 2}, false},
		"restarted":    {counts("blue-1", 7, 1), counts("blue-1", 0), switchWaited{Routers: 2, Requests: 1}, false},
		"one is quiet": {counts("blue-1", 7), nil, switchWaited{Routers: 1, Silent: []string{"sc-1"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvironment(t)
			e.router(t, "lane-gateway", "gw-1", "passing", c.gateway)
			e.router(t, "lane-sidecar", "sc-1", "passing", c.sidecar)
			f := &factory{io: &iostreams.IOStreams{Out: io.Discard, Err: io.Discard}}
			o := &switchOptions{service: "orders", group: "green", watch: time.Millisecond}
			got, err := f.waitForSwitch(t.Context(), e.client, o, groups)
			if (err == nil) != c.ok || got == nil {
				t.Fatalf("%+v, %v", got, err)
			}
			if got.Routers != c.want.Routers || got.Requests != c.want.Requests || got.Quiet != c.want.Quiet || len(got.Silent) != len(c.want.Silent) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestAWaitThatIsInterrupted(t *testing.T) {
	e := newEnvironment(t)
	e.router(t, "lane-gateway", "gw-1", "passing", applies(`"revision":6`))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errInterrupted)
	if _, err := waitForRules(ctx, e.client, 7, time.Minute); err == nil {
		t.Error("it did not end")
	}
}

func TestCounterLines(t *testing.T) {
	for line, want := range map[string]float64{
		`lane_requests_total{service="orders",instance="a"} 5`:               5,
		`lane_requests_total{service="orders",instance="a"} 5e3 17000000000`: 5000,
		`lane_requests_total{instance="a",service="orders",} 1`:              1,
		`lane_requests_total{service="orders",x="a\"},{\\",instance="a"} 2`:  2,
		`lane_requests_total_more{service="orders",instance="a"} 5`:          -1,
		`lane_requests_total{service="orders",instance="a"`:                  -1,
		`lane_requests_total{service=orders} 5`:                              -1,
		`lane_requests_total{service="orders"} x`:                            -1,
		`# HELP lane_requests_total`:                                         -1,
	} {
		labels, got, ok := counter(line, "lane_requests_total")
		if !ok {
			got = -1
		}
		if got != want || ok && labels["service"] != "orders" {
			t.Errorf("%s: %v %v, want %v", line, got, labels, want)
		}
	}
}
