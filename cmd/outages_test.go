//go:build unix

package cmd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// redis is a real Redis of the story's own, which keeps nothing on disk.
type redis struct {
	f    *field
	port string
	p    *process
}

func (f *field) redis() *redis {
	f.t.Helper()
	ln, err := consultest.Listen()
	if err != nil {
		f.t.Fatal(err)
	}
	r := &redis{f: f, port: strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)}
	if err := ln.Close(); err != nil {
		f.t.Fatal(err)
	}
	r.start()
	return r
}

func (r *redis) start() {
	r.f.t.Helper()
	r.p = r.f.start("redis-server", "--port", r.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	r.p.says(`Ready to accept connections`)
}

// cli runs redis-cli, as an operator does.
func (r *redis) cli(args ...string) string {
	r.f.t.Helper()
	return strings.TrimSpace(r.f.run(append([]string{"redis-cli", "-p", r.port}, args...)...))
}

// lookups is how often it was asked for a member.
func (r *redis) lookups() int {
	r.f.t.Helper()
	for line := range strings.Lines(r.cli("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_sismember:calls="); ok {
			n, err := strconv.Atoi(rest[:strings.IndexByte(rest, ',')])
			if err != nil {
				r.f.t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

// list puts users u-0 to u-n on the whitelist.
func (r *redis) list(n int) {
	r.f.t.Helper()
	var in bytes.Buffer
	for i := range n {
		fmt.Fprintf(&in, "SADD %s u-%d\n", canary, i)
	}
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, "redis-cli", "-p", r.port)
	c.Stdin = &in
	if out, err := c.CombinedOutput(); err != nil {
		r.f.t.Fatalf("%v\n%.500s", err, out)
	}
}

const canary = "gateway:canary:buyer-api"

const listedRules = `entry: shop
identity:
  headers: [X-Buyer-Id]
  trust: [127.0.0.0/8]
rules:
  - id: listed
    priority: 10
    whitelist: { route: buyer-api, header: X-Buyer-Id }
    lane: dev-alice
`

// listed is a shop whose buyers on a whitelist are in a lane.
type listed struct {
	*field
	redis       *redis
	gate, admin string
	caller      *caller
}

func newListed(t *testing.T) *listed {
	t.Helper()
	f := newField(t)
	f.instance("shop", "shop-1", f.app("baseline").addr, nil)
	f.instance("shop", "shop-2", f.app("lane").addr, map[string]string{"lane": "dev-alice"})
	r := f.redis()
	_, gate, admin := f.router("gateway", "--route", "shop", "--rules", f.file("rules.yaml", listedRules), "--redis", "redis://127.0.0.1:"+r.port)
	return &listed{f, r, gate, admin, f.caller()}
}

// colored asks as a buyer, and says whether the lane has served. All else than an
// answer of the shop, with status 200, is an error.
func (l *listed) colored(buyer ...string) (bool, error) {
	var fields []string
	for _, id := range buyer {
		fields = append(fields, "X-Buyer-Id", id)
	}
	r, err := l.caller.get(l.gate, fields...)
	if err != nil {
		return false, err
	}
	if r.by("lane") == nil {
		return true, nil
	}
	return false, r.by("baseline")
}

// A whitelist is edited with redis-cli while its users ask: who is added is in the
// lane, who is removed is not, both without a restart, and without a question to
// Redis for each request.
func TestAWhitelistEditedUnderLoad(t *testing.T) {
	t.Parallel()
	s := newListed(t)

	// Who says of no id, or of a blank one, is nobody: nobody is asked.
	s.each(200, 4, func(i int) error {
		ids := [][]string{nil, {""}, {"  "}}[i%3]
		if colored, err := s.colored(ids...); err != nil || colored {
			return fmt.Errorf("%q: colored %v, %w", ids, colored, err)
		}
		return nil
	})
	if n := s.redis.lookups(); n != 0 {
		t.Errorf("%d look-ups of nobody", n)
	}

	// Before, beside and after: bob is never on the list.
	begin := time.Now()
	var inLane, inBaseline, inARow atomic.Int64
	load := s.load(6, func(i int) error {
		if i%4 == 0 {
			if colored, err := s.colored("bob"); err != nil || colored {
				return fmt.Errorf("bob: colored %v, %w", colored, err)
			}
			return nil
		}
		colored, err := s.colored("buyer-1")
		switch {
		case err != nil:
			return err
		case colored:
			inLane.Add(1)
			inARow.Store(0)
		default:
			inBaseline.Add(1)
			inARow.Add(1)
		}
		return nil
	})
	load.more(500)
	if inLane.Load() > 0 {
		t.Errorf("%d requests were in the lane before anybody was listed", inLane.Load())
	}
	s.redis.cli("SADD", canary, "buyer-1")
	// The answer before, no, is remembered for 10 s: then it is another one.
	s.eventually("the added one is in the lane", func() bool { return inLane.Load() >= 300 })
	load.check()
	s.redis.cli("SREM", canary, "buyer-1")
	s.eventually("the removed one is in the baseline", func() bool { return inARow.Load() >= 500 })
	after := inLane.Load()
	load.more(500)
	if got := inLane.Load() - after; got > 0 {
		t.Errorf("%d requests were in the lane after the end", got)
	}
	n := load.end()

	// Two users and 10 s for each answer, 1 s for a look-up that came late on a busy
	// machine: in any case few.
	asked := int64(s.redis.lookups())
	if most := 2 * (2 + int64(time.Since(begin)/time.Second)); asked > most || asked < 4 || n < 2*asked {
		t.Errorf("%d look-ups for %d requests, %d at most", asked, n, most)
	}
	t.Logf("%d requests, %d look-ups", n, asked)
}

// Redis is killed while users ask: no client sees an error, everybody goes to the
// baseline, it is counted, and when Redis is back, so is the lane.
func TestRedisKilledUnderLoad(t *testing.T) {
	t.Parallel()
	s := newListed(t)
	const users = 40_000 // each asks once, so that nobody's answer is remembered
	s.redis.list(users)
	var inLane, inBaseline atomic.Int64
	load := s.load(6, func(i int) error {
		if i >= users {
			return fmt.Errorf("there are only %d users", users)
		}
		colored, err := s.colored("u-" + strconv.Itoa(i))
		switch {
		case err != nil:
			return err
		case colored:
			inLane.Add(1)
		default:
			inBaseline.Add(1)
		}
		return nil
	})
	s.eventually("users are in the lane", func() bool { return inLane.Load() >= 300 })
	load.check()

	s.redis.p.kill()
	load.more(20) // those that were on their way
	before, counted := inLane.Load(), s.metric(s.admin, "lane_whitelist_errors_total")
	load.more(1000)
	if got := inLane.Load() - before; got > 6 { // one for each caller
		t.Errorf("%d users were in the lane without a Redis", got)
	}
	if got := s.metric(s.admin, "lane_whitelist_errors_total"); got < counted+900 {
		t.Errorf("%v requests without an answer are counted, of 1000", got-counted)
	}
	if s.metric(s.admin, "lane_whitelist_lookup_errors_total") < 1 {
		t.Error("no look-up that failed is counted")
	}

	s.redis.start()
	s.redis.list(users)
	before = inLane.Load()
	s.eventually("users are in the lane again", func() bool { return inLane.Load() >= before+300 })
	t.Logf("%d requests, %d in the lane, %d in the baseline", load.end(), inLane.Load(), inBaseline.Load())
}

// Consul is killed while requests run: gateway, sidecar and session go on from what
// they last knew, nothing is concluded from an absence that is too old, and all is
// well again when Consul is back.
func TestConsulKilledUnderLoad(t *testing.T) {
	t.Parallel()
	bin := consultest.Needed(t)                                                            // the embedded registry is no process that could be killed
	agent := consultest.NewAgent(t, bin, consultest.AgentOptions{Name: "dev", Servers: 1}) // it keeps on disk what it holds
	agent.Await(t)
	f := newFieldOn(t, agent.Addr())
	baseline, laptop := f.app("baseline"), f.app("laptop")
	side, _, _ := f.router("sidecar", "--service", "orders", "--app", baseline.addr, "--outbound", "127.0.0.1:0", "--register", "--stamped")
	session := f.lane("dev-alice", "-s", "orders="+laptop.port(), "--register", "shared")
	rules := f.file("rules.yaml", `entry: orders
rules:
  - { id: alice, priority: 1, lane: dev-alice, match: { cookie: { name: user, exact: alice } } }
  - { id: ghost, priority: 2, lane: dev-ghost, match: { cookie: { name: user, exact: ghost } } }
`)
	gate, at, admin := f.router("gateway", "--route", "orders", "--rules", rules, "--max-stale", "3s")

	c := f.caller()
	var back atomic.Bool // Consul is: from then on a beat may be missed until the next one
	var late, absent, stale, wellInARow atomic.Int64
	load := f.load(6, func(i int) error {
		user := []string{"", "alice", "ghost"}[i%3]
		r, err := c.get(at, "Cookie", "user="+user)
		if err != nil {
			return err
		}
		code := r.head.Get("X-Lane-Error")
		if back.Load() && (code == "E_LANE_UNHEALTHY" || code == "E_BASELINE_UNHEALTHY") {
			late.Add(1)
			wellInARow.Store(0)
			return nil
		}
		switch user {
		case "alice":
			err = r.by("laptop")
		case "":
			err = r.by("baseline")
		default: // a lane that has nothing here
			if code == "E_REGISTRY_STALE" {
				stale.Add(1)
				wellInARow.Store(0)
				return nil
			}
			if err = r.by("baseline"); err == nil && !strings.HasPrefix(r.head.Get("X-Lane-Decision"), "FALLBACK_BASELINE; lane=dev-ghost; reason=lane_absent") {
				err = fmt.Errorf("no fallback: %v", r)
			}
			absent.Add(1)
		}
		wellInARow.Add(1)
		return err
	})
	load.more(300)
	if stale.Load() > 0 || absent.Load() < 50 {
		t.Errorf("before: %d absences proven, %d not", absent.Load(), stale.Load())
	}

	agent.Kill()
	load.more(200)
	// Old enough, the last answer proves no absence any more; the others go on.
	f.eventually("an absence is proven no more", func() bool { return stale.Load() >= 50 })
	proven := absent.Load()
	load.more(600)
	if got := absent.Load() - proven; got > 0 {
		t.Errorf("%d absences were concluded from a registry that is away", got)
	}
	if f.ready(admin) {
		t.Error("the gateway is ready by a registry that is away")
	}

	back.Store(true)
	agent.Restart(t, true)
	f.eventually("all is well again", func() bool { return wellInARow.Load() >= 600 })
	load.check()
	back.Store(false) // no excuse any more
	load.more(600)
	f.eventually("gateway and sidecar are in the registry", func() bool {
		all, err := f.client.Routers(context.Background())
		return err == nil && len(all) == 2 && all[0].Health == lane.Passing && all[1].Health == lane.Passing
	})
	t.Logf("%d requests, %d absences not proven, %d beats late", load.end(), stale.Load(), late.Load())
	if !f.ready(admin) {
		t.Error("the gateway is not ready")
	}
	for _, p := range []*process{gate, side, session} {
		p.end()
	}
}

// spoiledFront stands before the registry, and spoils the writes that register what
// spoil names.
type spoiledFront struct {
	addr  string
	spoil atomic.Pointer[func(w http.ResponseWriter, service string) bool]
}

func (f *field) front() *spoiledFront {
	f.t.Helper()
	s := &spoiledFront{}
	tr := &http.Transport{Proxy: nil}
	f.t.Cleanup(tr.CloseIdleConnections)
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: f.registry})
	forward.Transport = tr
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	s.addr = f.serve(func(w http.ResponseWriter, r *http.Request) {
		spoil := s.spoil.Load()
		if r.URL.Path == "/v1/agent/service/register" && spoil != nil {
			body, err := io.ReadAll(r.Body)
			var what struct{ Name string }
			if err != nil || json.Unmarshal(body, &what) != nil {
				panic(http.ErrAbortHandler)
			}
			if (*spoil)(w, what.Name) {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		r.Host = f.registry
		forward.ServeHTTP(w, r)
	})
	return s
}

// A registry that breaks off what a gateway or a sidecar announces itself with does
// not end it: it serves, and is announced when the registry lets it.
func TestARouterOutlivesItsAnnouncement(t *testing.T) {
	t.Parallel()
	f := newField(t)
	front := f.front()
	var broken atomic.Int64
	breakOff := func(w http.ResponseWriter, service string) bool {
		if broken.Add(1)%2 == 0 {
			_, _ = w.Write([]byte("1")) // it has begun to answer
			_ = http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	front.spoil.Store(&breakOff)
	f.env = append(f.env, "CONSUL_HTTP_ADDR="+front.addr) // of two the last one counts
	direct := f.app("baseline")
	f.instance("direct", "direct-1", direct.addr, nil)
	sidecarAt := f.start("lane", "sidecar", "--service", "orders", "--app", direct.addr, "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--register")
	gate, at, _ := f.router("gateway", "--route", "/direct=direct", "--route", "orders")

	c := f.caller()
	l := f.load(2, func(int) error {
		r, err := c.path(at, "/direct")
		if err != nil {
			return err
		}
		return r.by("baseline")
	})
	f.eventually("it is broken off again and again", func() bool { return broken.Load() >= 4 }) // they are three
	l.more(50)
	for _, p := range []*process{gate, sidecarAt} {
		select {
		case <-p.done:
			t.Fatalf("%q has ended: %v\n%s", p.argv, p.ended, &p.err)
		default:
		}
		if n := strings.Count(p.err.String(), "not in the registry yet"); n < 1 || n > 2 { // the sidecar and its application
			t.Errorf("%q says so %d times:\n%s", p.argv, n, &p.err)
		}
	}
	front.spoil.Store(nil)
	f.eventually("both are announced", func() bool {
		all, err := f.client.Routers(context.Background())
		return err == nil && len(all) == 2
	})
	sidecarAt.says(`^sidecar of orders at `)
	f.eventually("its application is registered", func() bool {
		r, err := c.get(at)
		return err == nil && r.by("baseline") == nil
	})
	l.end()
	for _, p := range []*process{gate, sidecarAt} {
		p.end()
	}
	if all, err := f.client.Routers(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

// The twin: what nobody but an operator can mend ends it, with the way out.
func TestARouterThatMayNotBeAnnouncedSaysSo(t *testing.T) {
	t.Parallel()
	f := newField(t)
	front := f.front()
	deny := func(w http.ResponseWriter, service string) bool {
		http.Error(w, "Permission denied", http.StatusForbidden)
		return true
	}
	front.spoil.Store(&deny)
	f.env = append(f.env, "CONSUL_HTTP_ADDR="+front.addr)
	app := f.app("baseline")
	for _, args := range [][]string{
		{"gateway", "--listen", "127.0.0.1:0", "--route", "orders"},
		{"sidecar", "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--service", "orders", "--app", app.addr},
		{"sidecar", "--listen", "127.0.0.1:0", "--outbound", "127.0.0.1:0", "--service", "orders", "--app", app.addr, "--register", "--announce=false"},
	} {
		ctx, cancel := storyContext()
		defer cancel()
		c := exec.CommandContext(ctx, "lane", args...)
		c.Dir, c.Env = f.dir, f.env
		out, _ := c.CombinedOutput() // the exit code says it
		if code := c.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(string(out), "service:write") ||
			strings.Contains(string(out), "--announce=false") != (args[len(args)-1] != "--announce=false") {
			t.Errorf("%q: exit code %d\n%s", args, code, out)
		}
	}
}

// What a router says of itself is true when it is read: the registry has it by then.
// Meanwhile it serves.
func TestARouterIsReadyWhenTheRegistryHasIt(t *testing.T) {
	t.Parallel()
	f := newField(t)
	baseline := f.app("baseline")
	f.instance("orders", "orders-1", baseline.addr, nil)
	for verb, args := range map[string][]string{
		"gateway": {"--route", "orders"},
		"sidecar": {"--service", "orders", "--app", baseline.addr, "--outbound", "127.0.0.1:0"},
		"relay":   {"--advertise", "127.0.0.1", "--ports", claimPorts()},
	} {
		t.Run(verb, func(t *testing.T) {
			f := &field{world: f.world, t: t, dir: t.TempDir(), env: slices.Clone(f.env), client: f.client}
			front := f.front()
			held, release := make(chan struct{}, 1), make(chan struct{})
			hold := func(_ http.ResponseWriter, service string) bool {
				if service == "lane-"+verb {
					select {
					case held <- struct{}{}:
					default: // it was here before
					}
					<-release
				}
				return false
			}
			front.spoil.Store(&hold)
			let := sync.OnceFunc(func() { close(release) })
			defer let()
			f.env = append(f.env, "CONSUL_HTTP_ADDR="+front.addr, "LANE_STATE_DIR="+f.dir)
			ln, err := consultest.Listen()
			if err != nil {
				t.Fatal(err)
			}
			at := ln.Addr().String()
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
			p := f.start(append([]string{"lane", verb, "--listen", at}, args...)...)
			<-held
			if verb == "relay" {
				f.eventually("it serves", func() bool {
					c, err := tls.Dial("tcp", at, &tls.Config{InsecureSkipVerify: true}) // who it is, is no matter
					return err == nil && c.Close() == nil
				})
			} else if r, err := f.caller().get(at); err != nil || r.by("baseline") != nil {
				t.Errorf("it does not serve: %v, %v", r, err)
			}
			// A registry that takes so long has given cause for a word, and is waited for no more.
			if out := p.out.String(); out != "" && !strings.Contains(p.err.String(), "not in the registry yet") {
				t.Errorf("it says that it is ready before the registry has it:\n%s", out)
			}
			let()
			p.says(`^admin at `)
			var known map[string]struct{ Service string }
			if err := f.call("GET", "/v1/agent/services", nil, &known); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, s := range known {
				found = found || s.Service == "lane-"+verb
			}
			if !found && !strings.Contains(p.err.String(), "not in the registry yet") {
				t.Errorf("ready, and not in the registry: %v", known)
			}
			p.end()
		})
	}
}
