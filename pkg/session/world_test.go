package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/session"
)

var (
	errEnd   = errors.New("the test ends the session")
	loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	direct   = &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}, Timeout: patience}
	quick    = consul.HoldOptions{Beat: 50 * time.Millisecond}
)

// world is a registry with a front, a lane of the test's own and a local
// process.
type world struct {
	t     *testing.T
	addr  string // the registry itself
	front *front
	lane  lane.Name
	local *local
	sign  func(life time.Duration) string // a token of the relay's; set by relayed
}

func newWorld(t *testing.T, addr string) *world {
	t.Helper()
	return &world{t: t, addr: addr, front: newFront(t, addr), lane: lane.Name(consultest.Name(t, "dev-alice")), local: newLocal(t)}
}

// service is a service's name that no other test has.
func (w *world) service(base string) string {
	return base + strings.TrimPrefix(string(w.lane), "dev-alice")
}

// options are those of a session of orders, as install.
func (w *world) options(install string) session.Options {
	w.t.Helper()
	return session.Quicken(session.Options{
		Lane: w.lane, Mode: session.ModeShared, Owner: "alice", Host: "desk-1", Install: install,
		Services:  []session.Service{{Name: w.service("orders"), Local: []string{w.local.addr}}},
		Advertise: loopback, Proxy: "127.0.0.1:0",
		Registry: consul.Config{Address: w.front.addr, Getenv: func(string) string { return "" }},
		Policy:   lane.DefaultPolicy(), Carriers: lane.DefaultCarriers(),
		Drain: 10 * time.Second, ClaimTTL: 10 * time.Second, RuntimeDir: shortDir(w.t),
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}, 0, quick)
}

// shortDir is a directory for sockets, whose path is short by nature.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lane")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// get asks the registry itself.
func (w *world) get(path string, into any) {
	w.t.Helper()
	res, err := direct.Get("http://" + w.addr + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusNotFound {
		return
	}
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		w.t.Fatal(err)
	}
}

// instance is one of the lane's in the catalog.
type instance struct {
	ID, Port, Name, App, Draining string
}

func (w *world) instances() []instance {
	w.t.Helper()
	var names map[string][]string
	w.get("/v1/catalog/services", &names)
	var out []instance
	for name := range names {
		if !strings.Contains(name, string(w.lane)[len("dev-alice"):]) {
			continue
		}
		var entries []struct {
			Service struct {
				ID   string
				Port int
				Meta map[string]string
			}
			Checks []struct{ CheckID, Status string }
		}
		w.get("/v1/health/service/"+name, &entries)
		for _, e := range entries {
			in := instance{ID: e.Service.ID, Name: name, Port: fmt.Sprint(e.Service.Port), Draining: e.Service.Meta["lane-draining"]}
			for _, c := range e.Checks {
				if c.CheckID == e.Service.ID+":app" {
					in.App = c.Status
				}
			}
			out = append(out, in)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

func (w *world) claims() []string {
	var keys []string
	w.get("/v1/kv/lane/declared/"+string(w.lane)+"/?keys", &keys)
	return keys
}

func (w *world) sessions() []string {
	var all []struct{ ID, Name string }
	w.get("/v1/session/list", &all)
	var out []string
	for _, s := range all {
		if strings.Contains(s.Name, string(w.lane)) {
			out = append(out, s.ID)
		}
	}
	return out
}

// empty fails the test if anything of the lane is in the registry.
func (w *world) empty() {
	w.t.Helper()
	if in, cl, s := w.instances(), w.claims(), w.sessions(); len(in)+len(cl)+len(s) != 0 {
		w.t.Errorf("left in the registry: instances %v, claims %v, sessions %v", in, cl, s)
	}
}

// tidy removes what a test has left on purpose.
func (w *world) tidy() {
	w.t.Helper()
	c, err := consul.Open(consul.Config{Address: w.addr, Getenv: func(string) string { return "" }})
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	for _, id := range w.sessions() {
		if err := c.RemoveLeftover(w.t.Context(), id, "", nil); err != nil {
			w.t.Error(err)
		}
	}
	for _, in := range w.instances() {
		if err := c.Deregister(w.t.Context(), in.ID); err != nil {
			w.t.Error(err)
		}
	}
}

// running is a session that runs.
type running struct {
	t     *testing.T
	o     session.Options
	end   context.CancelCauseFunc
	force chan struct{}
	ready chan control.Status
	done  chan struct{}
	err   error
}

func run(t *testing.T, o session.Options) *running {
	t.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &running{t: t, end: cancel, force: make(chan struct{}), ready: make(chan control.Status, 1), done: make(chan struct{})}
	o.Force = r.force
	o.Ready = func(st control.Status) { r.ready <- st }
	r.o = o
	go func() {
		defer close(r.done)
		r.err = session.Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel(errEnd)
		<-r.done
	})
	return r
}

// up waits until the session is routable.
func (r *running) up() control.Status {
	r.t.Helper()
	select {
	case st := <-r.ready:
		return st
	case <-r.done:
		r.t.Fatalf("the session did not start: %v", r.err)
	case <-time.After(patience):
		r.t.Fatal("the session does not start")
	}
	return control.Status{}
}

// wait waits for the session's end.
func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.t.Fatal("the session does not end")
	}
	return r.err
}

// stop ends the session and waits.
func (r *running) stop() error {
	r.t.Helper()
	r.end(errEnd)
	return r.wait()
}

func (r *running) ctl() *control.Client { return control.Dial(r.o.RuntimeDir, os.Getpid()) }

func (r *running) status() control.Status {
	r.t.Helper()
	st, err := r.ctl().Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// ask sends a tagged request to a guard.
func (w *world) ask(st control.Status, path string) (int, string, error) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+st.Services[0].Guard+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("x-lane-tag", string(w.lane))
	res, err := direct.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

// free fails the test if an address is still listened on. It dials: a port that is closed
// may be the local one of somebody's connection by now.
func free(t *testing.T, addrs ...string) {
	t.Helper()
	for _, a := range addrs {
		c, err := net.Dial("tcp", strings.TrimPrefix(a, "http://"))
		if err == nil {
			t.Errorf("still open: %v", a)
			_ = c.Close()
		}
	}
}

// listen listens at an address, at first ("") at one that nobody else has: it is closed
// and opened again.
func listen(addr string) (net.Listener, error) {
	if addr == "" {
		return consultest.Listen()
	}
	return net.Listen("tcp", addr)
}

// patience bounds every waiting: it ends what hangs, and is no measure of speed.
const patience = time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-limit:
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// local is a developer's process: it can be away, ill, and slow.
type local struct {
	t    *testing.T
	addr string

	mu     sync.Mutex
	srv    *http.Server
	ended  chan struct{}
	health int
	word   string        // what it answers
	slow   chan struct{} // /slow waits for its end
	inside chan struct{} // one for each request that waits
}

func newLocal(t *testing.T) *local {
	l := &local{t: t, health: http.StatusOK, word: "local", slow: make(chan struct{}), inside: make(chan struct{}, 8)}
	l.open()
	t.Cleanup(l.close)
	return l
}

func (l *local) open() {
	l.t.Helper()
	ln, err := listen(l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.addr = ln.Addr().String()
	l.srv, l.ended = &http.Server{Handler: l, Protocols: new(http.Protocols)}, make(chan struct{})
	l.srv.Protocols.SetHTTP1(true)
	l.srv.Protocols.SetUnencryptedHTTP2(true)
	srv, ended := l.srv, l.ended
	go func() {
		defer close(ended)
		_ = srv.Serve(ln)
	}()
}

func (l *local) close() {
	_ = l.srv.Close()
	<-l.ended
}

func (l *local) set(health int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health = health
}

func (l *local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/healthz":
		l.mu.Lock()
		defer l.mu.Unlock()
		w.WriteHeader(l.health)
		return
	case "/slow":
		l.inside <- struct{}{}
		select {
		case <-l.slow:
		case <-r.Context().Done():
			return
		}
	}
	l.mu.Lock()
	word := l.word
	l.mu.Unlock()
	_, _ = io.WriteString(w, word)
}

func (l *local) says(word string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.word = word
}
