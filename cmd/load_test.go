//go:build unix

package cmd

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/traffic"
)

// Untagged requests never reach the laptop, and none of them fails: neither through
// a gateway nor from callers that take any instance that the registry names, the
// laptop's among them.
func TestUntaggedRequestsNeverReachALaptop(t *testing.T) {
	t.Parallel()
	f := newField(t)
	laptop := f.app("laptop")
	for _, id := range []string{"orders-1", "orders-2"} {
		f.instance("orders", id, f.app("baseline").addr, nil)
	}
	f.lane("dev-alice", "-s", "orders="+laptop.port(), "--register", "shared")
	rules := f.file("rules.yaml", "entry: orders\nrules:\n  - { id: alice, priority: 1, lane: dev-alice, match: { cookie: { name: user, exact: alice } } }\n")
	_, gate, _ := f.router("gateway", "--route", "orders", "--rules", rules)

	// What a load balancer that knows no lanes has: every healthy address.
	var found []struct {
		Service struct {
			ID, Address string
			Port        int
		}
	}
	if err := f.call("GET", "/v1/health/service/orders?passing", nil, &found); err != nil {
		t.Fatal(err)
	}
	var addrs []string
	guard := ""
	for _, s := range found {
		addr := net.JoinHostPort(s.Service.Address, fmt.Sprint(s.Service.Port))
		if addrs = append(addrs, addr); strings.HasPrefix(s.Service.ID, "lane:") {
			guard = addr
		}
	}
	if len(addrs) != 3 || guard == "" {
		t.Fatalf("the registry names %v, the laptop's %q", addrs, guard)
	}

	c := f.caller()
	const n = 1000
	atGuard := atomic.Int64{}
	f.each(n, 8, func(i int) error {
		to := gate
		if i%2 == 1 {
			to = addrs[i/2%len(addrs)]
		}
		if to == guard {
			atGuard.Add(1)
		}
		// Somebody else's cookie is no lane's.
		r, err := c.get(to, "Cookie", "user=bob")
		if err != nil {
			return err
		}
		return r.by("baseline")
	})
	if got := laptop.calls.Load(); got != 0 {
		t.Errorf("the laptop's application got %d of %d untagged requests", got, n)
	}
	if got := atGuard.Load(); got < 100 {
		t.Errorf("only %d requests came to the laptop at all", got)
	}

	// The twin: those of the lane get there, by both ways, and no others.
	const tagged = 200
	f.each(tagged, 8, func(i int) error {
		fields, to := []string{"Cookie", "user=alice"}, gate
		if i%2 == 1 {
			fields, to = []string{"x-lane-tag", "dev-alice"}, guard
		}
		r, err := c.get(to, fields...)
		if err != nil {
			return err
		}
		return r.by("laptop")
	})
	if got := laptop.calls.Load(); got != tagged {
		t.Errorf("the laptop's application got %d of %d requests of its lane", got, tagged)
	}
}

// Fifty lanes of one service: whoever asks in a lane gets the answer of that lane's
// instance, over connections that all lanes share, from a gateway and behind a
// sidecar that knows a request's lane by its trace alone.
func TestFiftyLanesOfOneService(t *testing.T) {
	t.Parallel()
	f := newField(t)
	const lanes, sessions = 50, 3
	baseline := f.app("baseline")
	f.instance("stock", "stock-1", baseline.addr, nil)
	engine := f.engine()
	var rules strings.Builder
	rules.WriteString("entry: front\nrules:\n")
	for i := range lanes + 1 { // the last one has a rule, and no instance
		name := fmt.Sprintf("dev-%02d", i)
		fmt.Fprintf(&rules, "  - { id: r%[1]d, priority: %[1]d, lane: %[2]s, match: { cookie: { name: user, exact: %[2]s } } }\n", i+1, name)
		switch a := f.app(name); {
		case i < sessions:
			f.lane(name, "-s", "stock="+a.port(), "--register", "shared")
		case i < lanes:
			f.guarded(engine, lane.Name(name), "stock", a)
		}
	}

	// front passes on the trace and calls stock by its name.
	var calls atomic.Pointer[http.Transport]
	front := f.serve(func(w http.ResponseWriter, r *http.Request) {
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://stock/", nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		req.Header.Set("Traceparent", r.Header.Get("Traceparent"))
		res, err := calls.Load().RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = res.Body.Close() }()
		w.Header().Set("Inner", res.Header.Get("X-Lane-Decision"))
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body) // a broken answer is seen in what is missing
	})
	side, sideIn, _ := f.router("sidecar", "--service", "front", "--app", front, "--outbound", "127.0.0.1:0", "--stamped")
	tr := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: side.says(`^proxy at (?:http://)?(\S+)$`)}), MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	calls.Store(tr)
	f.instance("front", "front-1", sideIn, nil)

	doc := f.file("rules.yaml", rules.String())
	_, gate, _ := f.router("gateway", "--route", "front", "--route", "/stock=stock", "--rules", doc)
	_, direct, _ := f.router("gateway", "--route", "stock", "--rules", f.file("direct.yaml", strings.Replace(rules.String(), "front", "stock", 1)))

	c := f.caller()
	var atBaseline atomic.Int64
	ask := func(i int) error {
		who := i * 7 % (lanes + 2) // neighbours on a connection are of different lanes
		name := fmt.Sprintf("dev-%02d", who)
		fields, want := []string{"Cookie", "user=" + name}, name
		switch {
		case who == lanes: // it has no instance here
			want = "baseline"
		case who == lanes+1:
			fields, want = nil, "baseline"
		}
		if want == "baseline" {
			atBaseline.Add(1)
		}
		to := direct
		if i%2 == 1 {
			to = gate
		}
		r, err := c.get(to, fields...)
		if err != nil {
			return err
		}
		if err := r.by(want); err != nil {
			return err
		}
		decision := r.head.Get("X-Lane-Decision")
		if to == gate {
			decision = r.head.Get("Inner")
		}
		if who <= lanes && !strings.Contains(decision, "lane="+name+";") && !strings.HasSuffix(decision, "lane="+name) {
			return fmt.Errorf("another lane was decided for %s: %s", name, decision)
		}
		return nil
	}
	f.each(2600, 16, ask)
	if got := baseline.calls.Load(); got != atBaseline.Load() || got < 50 {
		t.Errorf("the baseline got %d requests, %d were its own", got, atBaseline.Load())
	}
}

// engine is what guards of this process send with.
func (f *field) engine() *proxy.Transport {
	f.t.Helper()
	watcher := consul.NewWatcher(f.client, consul.WatchOptions{})
	f.beside(watcher.Run)
	router, err := lane.NewRouter(lane.DefaultPolicy())
	if err != nil {
		f.t.Fatal(err)
	}
	tr, err := proxy.NewTransport(proxy.Config{Registry: watcher, Router: router, Log: traffic.NewLog(16)})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(tr.Close)
	return tr
}

// guarded registers an application as an instance of a lane, behind a guard of its
// own, as a session does.
func (f *field) guarded(engine *proxy.Transport, l lane.Name, service string, a *app) {
	f.t.Helper()
	ln, err := consultest.Listen()
	if err != nil {
		f.t.Fatal(err)
	}
	id := consul.InstanceID(l, service, "field")
	g, err := proxy.NewGuard(engine, proxy.GuardConfig{Lane: l, Service: service, InstanceID: id, Local: []string{a.addr}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.beside(func(ctx context.Context) error { return g.Serve(ctx, ln) })
	at := ln.Addr().(*net.TCPAddr)
	hold := f.client.NewHold(consul.Registration{ID: id, Name: service, Service: service, Lane: l, Address: "127.0.0.1", Port: at.Port, Owner: "alice"},
		consul.HoldOptions{App: true, AppNote: "it serves"})
	f.beside(hold.Keep)
	f.eventually("the registry shows "+id, func() bool {
		select {
		case <-hold.Shown():
			return true
		default:
			return false
		}
	})
}

// beside runs something until the test ends.
func (f *field) beside(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	})
}

// The revision of the rules as a response names it, and the lane that was decided.
var revisionLane = regexp.MustCompile(`; lane=rev-(\d+);.*; rev=(\d+)$`)

// oneRevision is an error if an answer is of two revisions: revision N gives lane
// rev-N, and nothing else does.
func oneRevision(r *reply) (rev string, err error) {
	rev = r.head.Get("X-Lane-Rule-Rev")
	m := revisionLane.FindStringSubmatch(r.head.Get("X-Lane-Decision"))
	if len(r.head.Values("X-Lane-Rule-Rev")) != 1 || m == nil || m[1] != rev || m[2] != rev {
		return rev, fmt.Errorf("of two revisions: X-Lane-Rule-Rev %q, %v", r.head.Values("X-Lane-Rule-Rev"), r)
	}
	_, tag, _ := strings.Cut(r.body, " ")
	if tag != "rev-"+rev {
		return rev, fmt.Errorf("revision %s passed on the tag %q: %v", rev, tag, r)
	}
	return rev, nil
}

// What checks the story of pushes can fail.
func TestOneRevisionIsToldFromTwo(t *testing.T) {
	for name, c := range map[string]struct {
		rev, decision, tag string
		ok                 bool
	}{
		"one":             {"7", "FALLBACK_BASELINE; lane=rev-7; reason=lane_absent; instance=a; rev=7", "rev-7", true},
		"another lane":    {"7", "FALLBACK_BASELINE; lane=rev-6; reason=lane_absent; instance=a; rev=7", "rev-7", false},
		"another rev":     {"7", "FALLBACK_BASELINE; lane=rev-7; reason=lane_absent; instance=a; rev=6", "rev-7", false},
		"another header":  {"6", "FALLBACK_BASELINE; lane=rev-7; reason=lane_absent; instance=a; rev=7", "rev-7", false},
		"another tag":     {"7", "FALLBACK_BASELINE; lane=rev-7; reason=lane_absent; instance=a; rev=7", "rev-6", false},
		"no tag":          {"7", "FALLBACK_BASELINE; lane=rev-7; reason=lane_absent; instance=a; rev=7", "", false},
		"no lane":         {"7", "BASELINE; instance=a; rev=7", "rev-7", false},
		"nothing is said": {"", "", "rev-7", false},
	} {
		h := http.Header{"X-Lane-Rule-Rev": {c.rev}, "X-Lane-Decision": {c.decision}}
		if _, err := oneRevision(&reply{200, h, "baseline " + c.tag}); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Rules are pushed sixty times while a gateway is asked: no request fails, and none
// is of two revisions.
func TestRulesPushedUnderLoad(t *testing.T) {
	t.Parallel()
	f := newField(t)
	f.instance("shop", "shop-1", f.app("baseline").addr, nil)
	document := func(rev int) string {
		return fmt.Sprintf("entry: shop\nrules:\n  - { id: r%[1]d, priority: 10, lane: rev-%[1]d, match: { cookie: { name: user, exact: dev } } }\n", rev)
	}
	f.run("lane", "rules", "push", f.file("first.yaml", document(1)))
	_, gate, admin := f.router("gateway", "--route", "shop", "--expose", "all")

	c := f.caller()
	var seen [100]atomic.Int64
	l := f.load(6, func(int) error {
		r, err := c.get(gate, "Cookie", "user=dev")
		if err != nil {
			return err
		}
		if err := r.by("baseline"); err != nil {
			return err
		}
		rev, err := oneRevision(r)
		var n int
		if _, scan := fmt.Sscan(rev, &n); scan == nil && n < len(seen) {
			seen[n].Add(1)
		}
		return err
	})
	const pushes = 60
	for rev := 2; rev < pushes; rev++ {
		l.more(40)
		_, _, err := f.client.PushRules(t.Context(), consul.RuleDraft{Document: []byte(document(rev)), Author: "alice", Base: rev - 1})
		if err != nil {
			t.Fatal(err)
		}
	}
	// A document that is broken does not come in between, nor hold.
	if _, _, err := f.client.PushRules(t.Context(), consul.RuleDraft{Document: []byte("rules: 5\n"), Author: "mallory", Base: pushes - 1}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the gateway refuses it", func() bool { return f.metric(admin, "lane_rules_refused_total") > 0 })
	l.more(100)
	f.file("last.yaml", document(pushes+1))
	f.run("lane", "rules", "push", "last.yaml", "--wait", "60s")
	f.eventually("the last revision is seen", func() bool { return seen[pushes+1].Load() >= 50 })
	n := l.end()
	held := 0
	for i := range seen {
		if seen[i].Load() > 0 {
			held++
		}
	}
	if held < 5 || seen[pushes].Load() > 0 {
		t.Errorf("%d revisions were seen, the broken one %d times", held, seen[pushes].Load())
	}
	t.Logf("%d requests, %d revisions seen", n, held)
}
