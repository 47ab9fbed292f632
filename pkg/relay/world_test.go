package relay_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay"
	"lane/pkg/token"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// limit bounds every wait: it ends a test that hangs, and is no measure of speed.
const limit = time.Minute

// world is a registry, a baseline of one service, and the key that signs tokens.
type world struct {
	t       *testing.T
	addr    string // the registry's
	client  *consul.Client
	service string
	lane    string
	key     ed25519.PrivateKey
	cert    tls.Certificate
}

func newWorld(t *testing.T, addr string) *world {
	t.Helper()
	w := &world{t: t, addr: addr, client: open(t, addr), service: consultest.Name(t, "orders"), lane: consultest.Name(t, "dev-alice")}
	dir := t.TempDir()
	var err error
	if w.key, err = (token.Keeper{Dir: dir}).Key(); err != nil {
		t.Fatal(err)
	}
	if w.cert, err = relay.Certificate(dir, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.register(w.service, w.service+"-base", says(t, "baseline"))
	return w
}

func open(t *testing.T, addr string) *consul.Client {
	t.Helper()
	c, err := consul.Open(consul.Config{Address: addr, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// says is an HTTP server that answers with one word; its address.
func says(t *testing.T, word string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, word) }))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// register puts an instance into the registry, until the test's end.
func (w *world) register(service, id, addr string) {
	w.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put("/v1/agent/service/register", fmt.Sprintf(`{"ID":%q,"Name":%q,"Address":%q,"Port":%s}`, id, service, host, port))
	w.t.Cleanup(func() { w.put("/v1/agent/service/deregister/"+id, "") })
}

func (w *world) put(path, body string) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPut, "http://"+w.addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := direct.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		w.t.Fatalf("PUT %s: %s", path, res.Status)
	}
}

var direct = &http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}

// audit is an audit log that can be read while it is written.
type audit struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (a *audit) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.Write(b)
}

func (a *audit) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.buf.String()
}

// running is one relay.
type running struct {
	addr    string
	audit   *audit
	figures *relay.Figures
	end     func() // ends it, and waits
}

// relay starts a relay; change may be nil.
func (w *world) relay(name string, change func(*relay.Options)) *running {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	client := open(w.t, w.addr)
	r := &running{addr: ln.Addr().String(), audit: &audit{}, figures: &relay.Figures{}}
	up := make(chan struct{})
	o := relay.Options{
		Listener: ln, TLS: &tls.Config{Certificates: []tls.Certificate{w.cert}}, Client: client,
		Watcher: consul.NewWatcher(client, consul.WatchOptions{}), Verifier: token.NewVerifier(w.key.Public().(ed25519.PublicKey), time.Now),
		Name: name, Advertise: netip.MustParseAddr("127.0.0.1"), Ports: relay.Ports{First: 30100, Last: 31999}, ClaimTTL: 10 * time.Second,
		Deny: []string{"payment"}, Policy: lane.DefaultPolicy(), Log: traffic.NewLog(64), Audit: slog.New(slog.NewJSONHandler(r.audit, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Figures: r.figures, Ready: func() { close(up) },
	}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- relay.Run(ctx, o); close(done) }()
	r.end = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				w.t.Errorf("the relay: %v", err)
			}
		case <-time.After(limit):
			w.t.Error("the relay does not end")
		}
	})
	w.t.Cleanup(r.end)
	select {
	case <-up:
	case err := <-done:
		w.t.Fatalf("the relay: %v", err)
	case <-time.After(limit):
		w.t.Fatal("the relay does not start")
	}
	return r
}

// grant is alice's, for her lane; change may be nil.
func (w *world) grant(change func(*token.Grant)) *token.Grant {
	now := time.Now().Truncate(time.Second)
	g := &token.Grant{ID: token.NewID(), User: "alice", Lanes: []string{w.lane, "dev-shared"}, Services: []string{"*"}, Issued: now, Expires: now.Add(time.Hour)}
	if change != nil {
		change(g)
	}
	return g
}

func (w *world) token(g *token.Grant) string {
	w.t.Helper()
	text, err := token.Sign(w.key, g)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// laptop is one agent, whose claims lead to a local server.
type laptop struct {
	w     *world
	agent *tunnel.Agent
	end   func() error // ends it, and waits
	over  chan error   // holds what Run returned by itself

	mu     sync.Mutex
	events []tunnel.Event
	news   chan struct{}
}

// laptop starts an agent. It comes in at addr.
func (w *world) laptop(addr, token, install, local string) *laptop {
	return w.laptopAs(addr, token, install, local, nil)
}

// laptopAs is laptop with a client certificate.
func (w *world) laptopAs(addr, token, install, local string, cert *tls.Certificate) *laptop {
	w.t.Helper()
	l := &laptop{w: w, news: make(chan struct{}, 1), over: make(chan error, 1)}
	var err error
	l.agent, err = tunnel.NewAgent(tunnel.AgentConfig{
		URL: "wss://" + addr, Pin: tunnel.Fingerprint(w.cert.Certificate[0]), Install: install, Host: install + "-host", Client: cert,
		Token: func(context.Context) (string, error) { return token, nil },
		Handle: func(ctx context.Context, _ tunnel.Claim, _ tunnel.Header, s tunnel.Stream) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", local)
			if err != nil {
				s.Abort(502, "nothing there")
				return
			}
			defer conn.Close()
			_ = tunnel.Join(ctx, conn, s)
		},
		Notify: func(e tunnel.Event) {
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
			select {
			case l.news <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := l.agent.Run(ctx)
		if ctx.Err() == nil {
			l.over <- err
		}
		done <- err
	}()
	l.end = sync.OnceValue(func() error {
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(limit):
			return errors.New("the agent does not end")
		}
	})
	w.t.Cleanup(func() { _ = l.end() })
	return l
}

// happened waits for an event.
func (l *laptop) happened(what tunnel.EventKind, from int) (tunnel.Event, int) {
	l.w.t.Helper()
	deadline := time.After(limit)
	for {
		l.mu.Lock()
		for i := from; i < len(l.events); i++ {
			if l.events[i].What == what {
				defer l.mu.Unlock()
				return l.events[i], i + 1
			}
		}
		all := fmt.Sprint(l.events)
		l.mu.Unlock()
		select {
		case <-l.news:
		case <-deadline:
			l.w.t.Fatalf("no %v in %s", what, all)
		}
	}
}

func (w *world) claim(facts ...string) tunnel.Claim {
	c := tunnel.Claim{ID: "one", Lane: w.lane, Service: w.service, Kind: tunnel.HTTP, Facts: map[string]string{}}
	for i := 0; i+1 < len(facts); i += 2 {
		c.Facts[facts[i]] = facts[i+1]
	}
	return c
}

// hold claims, and says that the local process answers.
func (l *laptop) hold(c tunnel.Claim) map[string]string {
	l.w.t.Helper()
	got, err := l.try(c)
	if err != nil {
		l.w.t.Fatal(err)
	}
	return got
}

func (l *laptop) try(c tunnel.Claim) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	got, err := l.agent.Claim(ctx, c)
	l.agent.Report(c.ID, tunnel.State{Ready: true})
	return got, err
}

func (l *laptop) release(id string) {
	l.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := l.agent.Release(ctx, id); err != nil {
		l.w.t.Error(err)
	}
}

// get asks an address with a tag, empty for none; its answer, with a code of ours.
func get(addr, tag string) string {
	req, err := http.NewRequest(http.MethodGet, "http://"+addr+"/", nil)
	if err != nil {
		return err.Error()
	}
	if tag != "" {
		req.Header.Set("x-lane-tag", tag)
	}
	res, err := direct.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	if code := res.Header.Get(lane.HeaderError); code != "" {
		return fmt.Sprint(res.StatusCode, " ", code)
	}
	b, _ := io.ReadAll(res.Body)
	return string(b)
}

// instances are the lane's in the registry: name, address and health of each.
func (w *world) instances() []string {
	w.t.Helper()
	var out []string
	for _, name := range []string{w.service, consul.IsolatedName(lane.Name(w.lane), w.service)} {
		all, err := w.client.InstancesOf(context.Background(), name)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, in := range all {
			if in.MetaLane == w.lane {
				out = append(out, fmt.Sprintf("%s %s %s %s", in.Registered, in.Addr, [...]string{"passing", "warning", "critical"}[in.Health], in.Owner))
			}
		}
	}
	slices.Sort(out)
	return out
}

// watch follows the service as a router does whose grace outlives the test, and returns
// what it decides for a request of the lane.
func (w *world) watch() func() lane.Decision {
	w.t.Helper()
	watcher := consul.NewWatcher(w.client, consul.WatchOptions{Grace: time.Hour})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- watcher.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	router, err := lane.NewRouter(lane.DefaultPolicy())
	if err != nil {
		w.t.Fatal(err)
	}
	return func() lane.Decision {
		first, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := watcher.Need(first, w.service); err != nil {
			w.t.Fatal(err)
		}
		return router.Decide(watcher.Catalog(), lane.Request{Service: w.service, Tag: lane.ParseTag(w.lane), Now: time.Now()})
	}
}

func (w *world) claims() []lane.Claim {
	w.t.Helper()
	all, err := w.client.Claims(context.Background(), lane.Name(w.lane))
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("never: %s; instances %v, claims %+v", what, w.instances(), w.claims())
		}
	}
}

// nothing checks that neither an instance nor a claim is in the registry.
func (w *world) nothing(when string) {
	w.t.Helper()
	if in, cl := w.instances(), w.claims(); len(in) > 0 || len(cl) > 0 {
		w.t.Errorf("%s: %v %+v", when, in, cl)
	}
}

// refusal is the HTTP status of a no, 0 for another error.
func refusal(err error) int {
	var no *tunnel.Refusal
	if errors.As(err, &no) {
		return no.Code
	}
	return 0
}

// junction is an address whose connections go to a relay, or to another one.
type junction struct {
	ln net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns map[net.Conn]bool
}

func newJunction(t *testing.T, to string) *junction {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j := &junction{ln: ln, to: to, conns: map[net.Conn]bool{}}
	j.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			j.wg.Go(func() { j.join(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		j.lead("")
		j.wg.Wait()
	})
	return j
}

func (j *junction) join(c net.Conn) {
	defer c.Close()
	j.mu.Lock()
	to := j.to
	j.mu.Unlock()
	s, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer s.Close()
	j.mu.Lock()
	if j.to != to {
		j.mu.Unlock()
		return
	}
	j.conns[c], j.conns[s] = true, true
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		delete(j.conns, c)
		delete(j.conns, s)
		j.mu.Unlock()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(s, c)
		_ = s.Close()
	}()
	_, _ = io.Copy(c, s)
	_ = c.Close()
	<-done
}

// lead cuts what is connected; new connections go elsewhere, for "" nowhere.
func (j *junction) lead(to string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.to = to
	for c := range j.conns {
		_ = c.Close()
	}
}

// lines are the audit log's, by their message.
func (a *audit) lines(msg string) []map[string]any {
	var out []map[string]any
	for line := range strings.Lines(a.String()) {
		var m map[string]any
		if json.Unmarshal([]byte(line), &m) == nil && m["msg"] == msg {
			out = append(out, m)
		}
	}
	return out
}
