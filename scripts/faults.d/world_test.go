//go:build unix

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"
)

// world is a shared environment with a gateway, and a developer's session:
//
//	requests --> gateway --------> orders, stock (baseline)
//	        \       \---> guard --> the developer's orders
//	         \------------^
//	gateway, session --> front --> agent --> servers
type world struct {
	t       *testing.T
	servers []*consultest.Agent
	agent   *consultest.Agent // the one behind front
	front   *front
	entry   *front // the gateway's way to its agent; may be the same
	token   string // of the tester
	more    map[string]string

	home, runtime string
	vars          map[string]string // of the session
	orders, stock *origin
	local         *origin
	gateway       *program
	gatewayAt     string
	session       *program
	status        control.Status // when it came up
	before        string         // what the registry held then
	tally         *tally

	policies, tokens map[string]string // of the access control: IDs by name
}

// shape says how many servers there are, whether the programs ask one of them or a
// client agent, whether the gateway asks a server instead, and whether access control
// is on.
type shape struct {
	servers int
	client  bool
	apart   bool
	token   string
	vars    map[string]string // of session and gateway, beside the usual ones
}

func newWorld(t *testing.T, s shape) *world {
	t.Helper()
	w := &world{t: t, token: s.token, tally: newTally(), policies: map[string]string{}, tokens: map[string]string{}}
	for i := range max(s.servers, 1) {
		w.servers = append(w.servers, consultest.NewAgent(t, consultest.Needed(t), consultest.AgentOptions{
			Name: fmt.Sprintf("server-%d", i+1), Servers: max(s.servers, 1), Join: w.servers, Token: s.token}))
	}
	w.agent = w.servers[0]
	for _, a := range w.servers {
		a.Await(t)
	}
	if s.client {
		w.agent = w.client("desk")
	}
	w.front = newFront(t, w.agent.Addr())
	w.entry = w.front
	if s.apart {
		w.entry = newFront(t, w.servers[0].Addr())
	}
	runtime, err := os.MkdirTemp("", "lane") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	w.runtime, w.home = runtime, t.TempDir()
	w.more = s.vars
	w.vars = w.desk("alice")
	w.orders, w.stock = newOrigin(t, "baseline", ""), newOrigin(t, "stock", "")
	w.local = newOrigin(t, "laptop", alice)
	w.baseline()
	return w
}

// share does n jobs, so many at a time; the first one that fails ends its worker.
func (w *world) share(n, workers int, job func(w *world, worker, n int)) {
	w.t.Helper()
	w.t.Run("workers", func(t *testing.T) {
		for i := range workers {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				own := *w
				own.t = t
				for k := i; k < n && !w.t.Failed(); k += workers {
					job(&own, i, k)
				}
			})
		}
	})
}

// client starts a client agent in front of the servers.
func (w *world) client(name string) *consultest.Agent {
	a := consultest.NewAgent(w.t, consultest.Needed(w.t), consultest.AgentOptions{Name: name, Join: w.servers, Token: w.token})
	a.Await(w.t)
	return a
}

// desk is the environment of a developer's programs, on a machine of his own.
func (w *world) desk(owner string) map[string]string {
	home := filepath.Join(w.home, owner)
	runtime := filepath.Join(w.runtime, owner)
	for _, dir := range []string{home, runtime} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	vars := map[string]string{"HOME": home, "CONSUL_HTTP_ADDR": w.front.addr, "LANE_RUNTIME_DIR": runtime,
		"LANE_STATE_DIR": filepath.Join(home, "state"), "XDG_CONFIG_HOME": filepath.Join(home, "config"),
		"LANE_OWNER": owner, "LANE_PROXY_LISTEN": "127.0.0.1:0"}
	maps.Copy(vars, w.more)
	return vars
}

// baseline registers what others run, with the first server.
func (w *world) baseline() {
	w.t.Helper()
	for service, o := range map[string]*origin{"orders": w.orders, "stock": w.stock} {
		port, err := strconv.Atoi(o.port())
		if err != nil {
			w.t.Fatal(err)
		}
		w.must(w.call(w.servers[0], http.MethodPut, "/v1/agent/service/register", map[string]any{
			"ID": service + "-1", "Name": service, "Address": "127.0.0.1", "Port": port}, nil))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// errNone says that the registry has no such thing.
var errNone = errors.New("not found")

// call asks an agent's API, not through the front.
func (w *world) call(a *consultest.Agent, method, path string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.Addr()+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("X-Consul-Token", w.token)
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if b, err = io.ReadAll(res.Body); err != nil {
		return err
	}
	switch {
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w: %s", method, path, errNone, b)
	case res.StatusCode != http.StatusOK:
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, b)
	case out == nil:
		return nil
	}
	return json.Unmarshal(b, out)
}

// picture is everything that the catalog, the KV store and the sessions hold, but
// for clocks and indexes, and for the servers themselves.
func (w *world) picture(a *consultest.Agent) (string, error) {
	var names map[string][]string
	if err := w.call(a, http.MethodGet, "/v1/catalog/services", nil, &names); err != nil {
		return "", err
	}
	var lines []string
	for name := range names {
		if name == "consul" { // its own servers come and go in some faults
			continue
		}
		var all []struct {
			ServiceID, ServiceAddress string
			ServicePort               int
			ServiceMeta               map[string]string
		}
		if err := w.call(a, http.MethodGet, "/v1/catalog/service/"+name, nil, &all); err != nil {
			return "", err
		}
		for _, s := range all {
			lines = append(lines, fmt.Sprintf("service %s %s:%d %v", s.ServiceID, s.ServiceAddress, s.ServicePort, s.ServiceMeta))
		}
	}
	var kv []struct{ Key, Session string }
	var sessions []struct{ ID, Name string }
	if err := w.call(a, http.MethodGet, "/v1/kv/?recurse", nil, &kv); err != nil && !errors.Is(err, errNone) {
		return "", err
	}
	if err := w.call(a, http.MethodGet, "/v1/session/list", nil, &sessions); err != nil {
		return "", err
	}
	for _, k := range kv {
		lines = append(lines, fmt.Sprintf("key %s %s", k.Key, k.Session))
	}
	for _, s := range sessions {
		lines = append(lines, fmt.Sprintf("session %s %s", s.ID, s.Name))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// remember keeps what the registry holds now.
func (w *world) remember() {
	w.t.Helper()
	var err error
	w.before, err = w.picture(w.agent)
	w.must(err)
}

// asBefore waits until the registry holds what it held then.
func (w *world) asBefore(within time.Duration, what string) {
	w.t.Helper()
	var seen string
	end := time.Now().Add(within)
	for {
		var err error
		if seen, err = w.picture(w.agent); err == nil && seen == w.before {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s: the registry held\n%s\nand holds now (%v)\n%s", what, w.before, err, seen)
		}
		pause(w.t, 50*time.Millisecond)
	}
}

// openGateway starts the environment's gateway.
func (w *world) openGateway() { w.openGatewayAt("") }

// openGatewayAt is openGateway with an admin port, by which it is announced.
func (w *world) openGatewayAt(admin string) {
	w.t.Helper()
	vars := w.desk("gateway")
	vars["CONSUL_HTTP_ADDR"] = w.entry.addr
	if w.token != "" {
		vars["CONSUL_HTTP_TOKEN"] = w.tokenOf("gateway", w.leastPolicy("gateway"))
	}
	rules := filepath.Join(vars["HOME"], "rules.yaml")
	w.must(os.WriteFile(rules, []byte("trustHeader: [127.0.0.0/8]\nrules: []\n"), 0o600))
	w.gateway = start(w.t, vars, "gateway", "--listen", "127.0.0.1:0", "--route", "/stock=stock", "--route", "orders", "--rules", rules, "--admin", admin)
	await(w.t, "the gateway is up", func() bool {
		for line := range strings.Lines(w.gateway.out.String()) {
			if at, ok := strings.CutPrefix(strings.TrimSpace(line), "gateway at "); ok && strings.HasSuffix(line, "\n") {
				w.gatewayAt = strings.TrimPrefix(at, "http://")
			}
		}
		if w.gateway.ended() {
			w.t.Fatal("the gateway has ended")
		}
		return w.gatewayAt != ""
	})
}

// up starts the developer's session, and waits until it is.
func (w *world) up(args ...string) {
	w.t.Helper()
	if w.token != "" && w.vars["CONSUL_HTTP_TOKEN"] == "" {
		w.vars["CONSUL_HTTP_TOKEN"] = w.tokenOf(alice, w.leastPolicy("direct", "--lane", alice, "-s", "orders"))
	}
	w.session = start(w.t, w.vars, append([]string{"up", alice, "-s", "orders=" + w.local.port(), "--plain"}, args...)...)
	await(w.t, "the session is up", func() bool {
		if w.session.ended() {
			w.t.Fatal("the session has ended")
		}
		st, err := w.ask()
		w.status = st
		return err == nil && st.State == control.SessionUp
	})
}

// ask asks the session for its status.
func (w *world) ask() (control.Status, error) {
	return askOf(w.vars, w.session.pid())
}

// streams are all kinds of requests that there are in the world.
func (w *world) streams() []stream {
	guard := "http://" + w.status.Services[0].Guard
	gateway := "http://" + w.gatewayAt
	return []stream{
		{name: "tagged, by the gateway", url: gateway + "/a", tag: alice, want: "laptop"},
		{name: "untagged, by the gateway", url: gateway + "/a", want: "baseline"},
		{name: "tagged, a service that the lane lacks", url: gateway + "/stock/1", tag: alice, want: "stock"},
		{name: "untagged, at the guard", url: guard + "/a", want: "baseline"},
		{name: "of another lane, at the guard", url: guard + "/a", tag: bob, want: "baseline"},
		{name: "by the developer's proxy", url: "http://orders/a", via: w.status.Proxy, want: "laptop"},
		{name: "by the developer's proxy, a service that the lane lacks", url: "http://stock/a", via: w.status.Proxy, want: "stock"},
	}
}

// right says what is not as it should be in the registry, in the session's status,
// and on the way of a tagged request; nil if all is.
func (w *world) right() error {
	v := w.status.Services[0]
	var entries []struct {
		Service struct {
			ID, Address string
			Port        int
		}
		Checks []struct{ CheckID, Status string }
	}
	if err := w.call(w.agent, http.MethodGet, "/v1/health/service/"+v.Registered, nil, &entries); err != nil {
		return err
	}
	found := 0
	for _, e := range entries {
		if e.Service.ID != v.ID {
			continue
		}
		if found++; fmt.Sprintf("%s:%d", e.Service.Address, e.Service.Port) != v.Guard {
			return fmt.Errorf("registered at %s:%d", e.Service.Address, e.Service.Port)
		}
		for _, c := range e.Checks {
			if c.Status != "passing" {
				return fmt.Errorf("%s is %s", c.CheckID, c.Status)
			}
		}
	}
	if found != 1 {
		return fmt.Errorf("registered %d times", found)
	}
	var claims []struct{ Session string }
	if err := w.call(w.agent, http.MethodGet, "/v1/kv/lane/declared/"+alice+"/orders", nil, &claims); err != nil {
		return fmt.Errorf("claimed: %w", err)
	}
	if claims[0].Session == "" {
		return errors.New("the claim has no session")
	}
	st, err := w.ask()
	if err != nil {
		return err
	}
	if st.State != control.SessionUp || st.Services[0].State != control.StateUp || st.Registry.State != "fresh" {
		return fmt.Errorf("the status says %s, %s (%s), registry %s", st.State, st.Services[0].State, st.Services[0].Note, st.Registry.State)
	}
	all := w.streams()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range all[:2] {
		if o := all[i].send(ctx, &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}); o != (outcome{}) {
			return fmt.Errorf("%s: %+v", all[i].name, o)
		}
	}
	return nil
}

// wholeAgain waits until all is right, and returns how long that took.
func (w *world) wholeAgain() time.Duration {
	w.t.Helper()
	began := time.Now()
	var err error
	for time.Since(began) < 3*limit {
		if err = w.right(); err == nil {
			return time.Since(began)
		}
		pause(w.t, 50*time.Millisecond)
	}
	w.t.Fatalf("not right again: %v", err)
	return 0
}

// end ends the session as Ctrl-C does, and the gateway, and returns the session's
// exit code.
func (w *world) end() int {
	w.t.Helper()
	w.session.signal(syscall.SIGINT)
	code := w.session.wait()
	w.gateway.signal(syscall.SIGTERM)
	w.gateway.wait()
	return code
}
