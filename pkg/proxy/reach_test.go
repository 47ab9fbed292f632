package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// running is a front that a test ends itself.
type running struct {
	addr   string
	cancel context.CancelFunc
	done   chan error
}

func (r *running) end() error {
	r.cancel()
	return <-r.done
}

// drains waits until the front takes no more connections; it must still have the
// request that is in it.
func (r *running) drains(t *testing.T) {
	t.Helper()
	eventually(t, "no more connections", func() bool {
		conn, err := net.Dial("tcp", r.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case <-r.done:
		t.Fatal("it ended with a request in it")
	default:
	}
}

func (e *env) start(run func(context.Context, net.Listener) error) *running {
	e.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{addr: ln.Addr().String(), cancel: cancel, done: make(chan error, 1)}
	go func() { r.done <- run(ctx, ln) }()
	return r
}

func TestDialFailureStaysInTheSet(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s := newShop(t, func(c *Config) { c.Now = clock })
	dead1, dead2 := closedAddr(t), closedAddr(t)
	s.reg.set(
		service("half", instance("h1", dead1, "dev-alice"), instance("h2", s.alice.addr(), "dev-alice"), instance("h3", s.base.addr(), "")),
		service("dead", instance("d1", dead1, "dev-alice"), instance("d2", dead2, "dev-alice"), instance("d3", s.base.addr(), "")),
		service("base", instance("b1", dead1, ""), instance("b2", s.base.addr(), "")))
	// Any method is tried again: nothing has left.
	for i := range 6 {
		a := do(t, s.client(), "POST", "http://half/", nil, strings.NewReader("once"))
		if a.header.Get("X-Who") != "alice" {
			t.Fatalf("%d: %d %s", i, a.status, a.body)
		}
	}
	if n := s.alice.hits.Load(); n != 6 {
		t.Errorf("%d requests arrived", n)
	}
	// A lane's request is not retried in the baseline.
	a := s.get("http://dead/")
	if a.status != 502 || a.header.Get(lane.HeaderError) != string(lane.CodeUpstreamConnect) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if ex := s.exchange(7); ex.Tries != 2 || ex.Lane != "dev-alice" || ex.Err == "" || ex.Code != lane.CodeUpstreamConnect {
		t.Errorf("%+v", ex)
	}
	// For a while they count as unhealthy, then they are tried again.
	if a := s.get("http://dead/"); a.status != 503 || a.header.Get(lane.HeaderError) != string(lane.CodeLaneUnhealthy) ||
		!strings.Contains(a.body, "has just refused") {
		t.Errorf("%d %s", a.status, a.body)
	}
	mu.Lock()
	now = now.Add(6 * time.Second)
	mu.Unlock()
	if a := s.get("http://dead/"); a.status != 502 {
		t.Errorf("after the pause: %d", a.status)
	}
	// Registered elsewhere, it has not refused there: it is asked at once.
	s.reg.set(service("dead", instance("d1", s.alice.addr(), "dev-alice"), instance("d2", dead2, "dev-alice"), instance("d3", s.base.addr(), "")),
		service("base", instance("b1", dead1, ""), instance("b2", s.base.addr(), "")))
	for range 3 {
		if a := s.get("http://dead/"); a.header.Get("X-Who") != "alice" {
			t.Errorf("moved: %d %s", a.status, a.body)
		}
	}
	if s.base.hits.Load() != 0 {
		t.Error("the baseline was called")
	}
	for range 4 {
		if a := s.get("http://base/", "x-lane-tag", "baseline"); a.header.Get("X-Who") != "base" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

// An instance that answers is not away, whatever became of another connection.
func TestAnAnswerEndsTheSkipping(t *testing.T) {
	in, goOn := make(chan struct{}, 1), make(chan struct{})
	busy := newBackend(t, "busy", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			in <- struct{}{}
			<-goOn
		}
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("one", busy.addr(), "dev-alice")))
	slow := make(chan int, 1)
	c := e.client()
	go func() {
		resp, err := c.Get("http://svc/slow")
		if err != nil {
			slow <- 0
			return
		}
		resp.Body.Close()
		slow <- resp.StatusCode
	}()
	<-in
	e.tr.ejected.hold = time.Hour
	e.tr.ejected.add("one", e.reg.Catalog().Service("svc").Instances[0].Addr, time.Now())
	if a := e.get("http://svc/"); a.status != 503 {
		t.Errorf("it has refused: %d", a.status)
	}
	close(goOn)
	if got := <-slow; got != 200 {
		t.Errorf("the one under way: %d", got)
	}
	if a := e.get("http://svc/"); a.status != 200 {
		t.Errorf("it has answered: %d %s", a.status, a.body)
	}
}

// When bytes have left there is no second try.
func TestNoRetryAfterTheFirstByte(t *testing.T) {
	origin, heads := rawOrigin(t, "") // reads the head and hangs up
	s := newShop(t, nil)
	s.reg.set(service("svc", instance("bad", origin, "dev-alice")))
	a := do(t, s.client(), "POST", "http://svc/", nil, strings.NewReader("x"))
	if a.status != 502 || !strings.Contains(a.body, "not repeated") {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-heads
	select {
	case h := <-heads:
		t.Errorf("sent again: %q", h)
	default:
	}
	// It took the connection: it is not skipped.
	if ids := s.tr.ejected.now(nil, "svc", time.Now()); len(ids) != 0 {
		t.Errorf("skipped: %v", ids)
	}
}

func TestDrain(t *testing.T) {
	in, goOn := make(chan struct{}), make(chan struct{})
	slow := newBackend(t, "slow", func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		<-goOn
		fmt.Fprint(w, "done")
	})
	e := newEnv(t, nil)
	g, err := NewGuard(e.tr, GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "g", Local: []string{slow.addr()}, Drain: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r := e.start(g.Serve)
	_, br := raw(t, r.addr, "GET / HTTP/1.1\r\nHost: a\r\nx-lane-tag: dev-alice\r\n\r\n")
	<-in
	if g.InFlight() != 1 {
		t.Errorf("%d in flight", g.InFlight())
	}
	r.cancel()
	r.drains(t)
	close(goOn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "done" {
		t.Errorf("%q", b)
	}
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	if g.InFlight() != 0 {
		t.Errorf("%d in flight", g.InFlight())
	}
}

func TestDrainIsBounded(t *testing.T) {
	in := make(chan struct{})
	stuck := newBackend(t, "stuck", func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		<-r.Context().Done()
	})
	e := newEnv(t, nil)
	e.reg.set(service("svc", instance("s", stuck.addr(), "dev-alice")))
	r := e.start(NewForward(e.tr, ForwardConfig{Drain: 50 * time.Millisecond}).Serve)
	raw(t, r.addr, "GET http://svc/ HTTP/1.1\r\nHost: svc\r\n\r\n")
	<-in
	if err := r.end(); err != nil { // with a request in it that would never end
		t.Error(err)
	}
}

// A second signal ends the wait: every front that drains by itself goes on at once.
func TestDrainIsCutShort(t *testing.T) {
	in := make(chan struct{})
	stuck := newBackend(t, "stuck", func(w http.ResponseWriter, r *http.Request) {
		in <- struct{}{}
		<-r.Context().Done()
	})
	const long = time.Hour // a wait that is not cut short fails by the test's own limit
	color := func(context.Context, *rules.Request) (rules.Result, rules.Revision) {
		return rules.Result{}, rules.Revision{}
	}
	for name, front := range map[string]func(e *env, force <-chan struct{}) (func(context.Context, net.Listener) error, error){
		"forward": func(e *env, force <-chan struct{}) (func(context.Context, net.Listener) error, error) {
			return NewForward(e.tr, ForwardConfig{Drain: long, Force: force}).Serve, nil
		},
		"gateway": func(e *env, force <-chan struct{}) (func(context.Context, net.Listener) error, error) {
			g, err := NewGateway(e.tr, GatewayConfig{Routes: []Route{{Service: "svc"}}, Color: color, Drain: long, Force: force})
			return g.Serve, err
		},
		"sidecar": func(e *env, force <-chan struct{}) (func(context.Context, net.Listener) error, error) {
			in, err := NewInbound(e.tr, InboundConfig{Service: "svc", App: []string{stuck.addr()}, Learn: func(*tracemap.Keys, lane.Name) lane.Name { return "" }, Drain: long, Force: force})
			return in.Serve, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, nil)
			e.reg.set(service("svc", instance("s", stuck.addr(), "")))
			force := make(chan struct{})
			serve, err := front(e, force)
			if err != nil {
				t.Fatal(err)
			}
			r := e.start(serve)
			raw(t, r.addr, "GET http://svc/ HTTP/1.1\r\nHost: svc\r\nx-lane-tag: baseline\r\n\r\n")
			<-in
			r.cancel()
			r.drains(t)
			close(force)
			if err := <-r.done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestServeListenerFails(t *testing.T) {
	e := newEnv(t, nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	if err := NewForward(e.tr, ForwardConfig{}).Serve(context.Background(), ln); err == nil {
		t.Error("no error")
	}
}

// Distinct tags at once, over shared connections: nobody gets another's answer.
func TestNoMixing(t *testing.T) {
	const lanes, rounds = 200, 20
	s := newShop(t, func(c *Config) { c.Log = traffic.NewLog(lanes * rounds) })
	echo := newBackend(t, "echo", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Header.Get("X-Lane-Tag"), r.Header.Get("Baggage"), r.URL.Path)
	})
	in := []lane.Instance{instance("base", s.base.addr(), "")}
	for i := range lanes / 2 { // the other half falls back
		in = append(in, instance(fmt.Sprintf("i%d", i), echo.addr(), fmt.Sprintf("dev-%d", i)))
	}
	in[0].Addr = echo.addr()
	s.reg.set(service("svc", in...))
	c := s.client()
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			tag := fmt.Sprintf("dev-%d", i)
			for j := range rounds {
				req, _ := http.NewRequest("GET", fmt.Sprintf("http://svc/%d/%d", i, j), nil)
				req.Header["x-lane-tag"] = []string{tag}
				resp, err := c.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := fmt.Sprintf("%s lane=%s /%d/%d", tag, tag, i, j); string(b) != want {
					t.Errorf("got %q, want %q", b, want)
					return
				}
				kind := "LANE_MATCH; lane=" + tag + "; instance=i"
				if i >= lanes/2 {
					kind = "FALLBACK_BASELINE; lane=" + tag + ";"
				}
				if d := resp.Header.Get(lane.HeaderDecision); !strings.HasPrefix(d, kind) {
					t.Errorf("decision %q, want %q", d, kind)
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all recorded", func() bool { return s.log.Last() == lanes*rounds })
	if n := s.tr.Counts().Total(traffic.CountFallback); n != lanes/2*rounds {
		t.Errorf("%d fallbacks counted", n)
	}
	rows, _ := s.log.Since(0, 0)
	for _, ex := range rows {
		if !strings.Contains(ex.URL, "/"+strings.TrimPrefix(ex.Tag, "dev-")+"/") || string(ex.Lane) != ex.Tag {
			t.Fatalf("%+v", ex)
		}
	}
}

// Whatever name leads there: the proxy does not call itself.
func TestOwnListenerIsNeverDialled(t *testing.T) {
	s := newShop(t, nil)
	s.reg.set(service("svc", instance("me", s.addr, "dev-alice")))
	a := s.get("http://svc/")
	if a.status != 508 || a.header.Get(lane.HeaderError) != string(lane.CodeLoopDetected) {
		t.Errorf("%d %s", a.status, a.body)
	}
	s.exchange(1)
	if n := s.log.Last(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	s.reg.set(service("svc", instance("me", s.addr, "dev-alice"), instance("other", s.alice.addr(), "dev-alice")))
	for range 4 {
		if a := s.get("http://svc/"); a.header.Get("X-Who") != "alice" {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestRecordIsBounded(t *testing.T) {
	s := newShop(t, func(c *Config) { c.KeepHeaders = true })
	long := strings.Repeat("x", 100_000)
	s.get("http://order-service/"+long, "x-lane-tag", long, "X-Long", long)
	ex := s.exchange(1)
	if len(ex.URL) > 3000 || len(ex.Tag) > 300 || len(ex.Err) > 2000 || len(fmt.Sprint(ex.Warnings)) > 10000 || len(fmt.Sprint(ex.ReqHeader)) > 10000 {
		t.Errorf("url %d tag %d err %d head %d", len(ex.URL), len(ex.Tag), len(ex.Err), len(fmt.Sprint(ex.ReqHeader)))
	}
}
