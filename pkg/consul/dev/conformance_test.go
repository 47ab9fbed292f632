package dev_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/consul/consultest"
)

// The conformance table. A row is run against the embedded registry and, when
// LANE_TEST_CONSUL names one, against the real Consul, through the official
// client or as plain HTTP; both must give what the row says. So a difference
// fails whichever side it is on, and a row fails without the real one too.
type conformance struct {
	name string
	run  func(w *world)
}

// TestConformance runs beside the tests that have a Consul of their own, since
// most of its time is waiting; its rows share one and so take turns.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("registering", registering)
	t.Run("indexes", indexes)
	t.Run("sessions and locks", sessionsAndLocks)
	t.Run("client's view", clientView)
	t.Run("probes", probes)
	t.Run("big bodies", bigBodies)
	t.Run("blocking", blocking)
}

// world is one registry and names that are this row's own, since the real
// Consul is shared by all rows.
type world struct {
	t    *testing.T
	addr string
	*api.Client

	svc  string // a service name, an instance id prefix and a key prefix
	node string // the agent's node name
}

func runConformance(t *testing.T, rows []conformance) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			consultest.Each(t, func(t *testing.T, addr string) {
				row.run(newWorld(t, addr))
			})
		})
	}
}

func newWorld(t *testing.T, addr string) *world {
	t.Helper()
	transport := &http.Transport{Proxy: nil}
	t.Cleanup(transport.CloseIdleConnections)
	client, err := api.NewClient(&api.Config{Address: addr, Scheme: "http", HttpClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, addr: addr, Client: client, svc: consultest.Name(t, "svc"), node: "dev"}
}

// register registers an instance of the row's service and drops it at the end.
func (w *world) register(id string, edit ...func(*api.AgentServiceRegistration)) {
	w.t.Helper()
	reg := &api.AgentServiceRegistration{ID: id, Name: w.svc, Address: "10.0.0.1", Port: 8080}
	for _, e := range edit {
		e(reg)
	}
	must(w.t, w.Agent().ServiceRegisterOpts(reg, api.ServiceRegisterOpts{ReplaceExistingChecks: true}))
	w.t.Cleanup(func() { _ = w.Agent().ServiceDeregister(id) })
}

func ttl(status string) func(*api.AgentServiceRegistration) {
	return func(r *api.AgentServiceRegistration) {
		r.Check = &api.AgentServiceCheck{TTL: "15s", Status: status}
	}
}

func metadata(kv ...string) func(*api.AgentServiceRegistration) {
	return func(r *api.AgentServiceRegistration) {
		r.Meta = map[string]string{}
		for i := 0; i < len(kv); i += 2 {
			r.Meta[kv[i]] = kv[i+1]
		}
	}
}

// reply is a plain HTTP answer.
type reply struct {
	code   int
	header http.Header
	body   string
}

func (w *world) http(method, path, body string, headers ...string) reply {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.addr+path, strings.NewReader(body))
	must(w.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	if len(body) > 64<<10 {
		// A server that refuses a body by its length closes while we still write.
		req.Header.Set("Expect", "100-continue")
	}
	transport := &http.Transport{
		Proxy: nil, DisableKeepAlives: true, DisableCompression: true, ExpectContinueTimeout: 10 * time.Second,
	}
	resp, err := transport.RoundTrip(req)
	must(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	must(w.t, err)
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// wants checks a plain answer's code and exact text.
func (r reply) wants(t *testing.T, code int, text string) {
	t.Helper()
	if r.code != code || strings.TrimSpace(r.body) != text {
		t.Errorf("got %d %q, want %d %q", r.code, strings.TrimSpace(r.body), code, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// code is the HTTP status of an error of the client, 0 for none.
func code(err error) int {
	var se api.StatusError
	if errors.As(err, &se) {
		return se.Code
	}
	if err != nil {
		return -1
	}
	return 0
}

func (w *world) must(err error) {
	w.t.Helper()
	must(w.t, err)
}

// equal compares by what JSON shows, so that []any{...} can list expectations.
func (w *world) equal(what string, got, want any) {
	w.t.Helper()
	a, err := json.Marshal(got)
	w.must(err)
	b, err := json.Marshal(want)
	w.must(err)
	if string(a) != string(b) {
		w.t.Errorf("%s: got %s, want %s", what, a, b)
	}
}

func escape(s string) string { return url.QueryEscape(s) }
