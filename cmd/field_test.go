//go:build unix

package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
)

// field is a shared environment under load: a registry, the program as processes of
// their own, applications, and callers.
type field struct {
	*world
	t      *testing.T
	dir    string
	env    []string
	client *consul.Client
}

// newField makes one over the real Consul if there is one, else over the embedded
// registry.
func newField(t *testing.T) *field {
	t.Helper()
	return newFieldOn(t, consultest.Either(t))
}

func newFieldOn(t *testing.T, registry string) *field {
	t.Helper()
	dir := t.TempDir()
	runtime, err := os.MkdirTemp("", "lane") // the path of a socket is short by nature
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	client, err := consul.Open(consul.Config{Address: registry, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &field{world: &world{registry: registry}, t: t, dir: dir, client: client, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PWD=" + dir, "CONSUL_HTTP_ADDR=" + registry, "LANE_RUNTIME_DIR=" + runtime,
		"LANE_STATE_DIR=" + filepath.Join(dir, "state"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"), "LANE_OWNER=alice",
		"LANE_PROXY_LISTEN=127.0.0.1:0", atOnce}}
}

// file writes a file into the field's directory.
func (f *field) file(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// run runs a program to its end, which has to be a good one.
func (f *field) run(argv ...string) string {
	f.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Env = f.dir, f.env
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		f.t.Fatalf("%q: %v\n%s%s", argv, err, out, &said)
	}
	return string(out)
}

// written is what a process has written so far.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (h *written) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.Write(b)
}

func (h *written) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}

// process is a program that runs beside the story.
type process struct {
	f        *field
	argv     []string
	cmd      *exec.Cmd
	out, err written
	done     chan struct{} // closed when it has ended, as ended says
	ended    error
	// interrupted says that the story has ended it, ends that it may end by itself.
	interrupted, ends bool
}

// start starts a program, which is interrupted at the test's end if it has not been
// before; then it has to end well.
func (f *field) start(argv ...string) *process {
	f.t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		f.t.Fatal(err)
	}
	p := &process{f: f, argv: argv, cmd: exec.Command(path, argv[1:]...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = f.dir, f.env, &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() {
		p.ended = p.cmd.Wait()
		close(p.done)
	}()
	f.t.Cleanup(func() { p.end() })
	return p
}

// end interrupts it, as a supervisor does, and waits. One that has ended by itself
// is a failure, but for one that was killed.
func (p *process) end() {
	p.f.t.Helper()
	select {
	case <-p.done:
	default:
		p.interrupted = true
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.f.t.Error(err)
		}
		limit := time.NewTimer(storyLimit)
		defer limit.Stop()
		select {
		case <-p.done:
		case <-limit.C:
			_ = p.cmd.Process.Kill() // it has ended in between
			<-p.done
			p.f.t.Errorf("%q does not end", p.argv)
		}
	}
	if p.ended != nil && !p.ends && !p.killed() && (!p.interrupted || p.cmd.ProcessState.ExitCode() != exitInterrupted) {
		p.f.t.Errorf("%q: %v\n%s", p.argv, p.ended, &p.err)
	}
	if strings.Contains(p.err.String(), "DATA RACE") {
		p.f.t.Errorf("%q:\n%s", p.argv, &p.err)
	}
}

// killed reports whether the story has killed it.
func (p *process) killed() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill ends it as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // an error: it has ended
	<-p.done
}

// says waits for its standard output to match, and returns the first group.
func (p *process) says(pattern string) string {
	p.f.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	var m []string
	p.f.eventually(fmt.Sprintf("%q says %q", p.argv, pattern), func() bool {
		select {
		case <-p.done:
			p.f.t.Fatalf("%q has ended: %v\n%s", p.argv, p.ended, &p.err)
		default:
		}
		m = re.FindStringSubmatch(p.out.String())
		return m != nil
	})
	return m[len(m)-1]
}

// router starts a gateway or a sidecar; what it says of its addresses is in the
// result.
func (f *field) router(verb string, args ...string) (p *process, front, admin string) {
	f.t.Helper()
	p = f.start(append([]string{"lane", verb, "--listen", "127.0.0.1:0"}, args...)...)
	front = p.says(`^` + verb + `.* at (?:http://)?(\S+)$`)
	return p, front, p.says(`^admin at (?:http://)?(\S+)$`)
}

// eventually waits until ok.
func (f *field) eventually(what string, ok func() bool) {
	f.t.Helper()
	ctx, cancel := storyContext()
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.t.Fatalf("never: %s", what)
		}
	}
}

// metric is the sum of a metric's values at an admin port.
func (f *field) metric(admin, name string) (sum float64) {
	f.t.Helper()
	err := newAdmin().get(f.t.Context(), consul.Router{Admin: admin}, "/metrics", func(b io.Reader) error {
		text, err := io.ReadAll(b)
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(line, name)
			if !ok || rest[0] != '{' && rest[0] != ' ' {
				continue
			}
			value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			sum += value
		}
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return sum
}

// ready is what a router says of itself.
func (f *field) ready(admin string) bool {
	f.t.Helper()
	r, err := f.caller().path(admin, "/readyz")
	if err != nil {
		f.t.Fatal(err)
	}
	return r.status == http.StatusOK
}

// app is an application: its answer is its name and the tag that it got.
type app struct {
	name, addr string
	calls      atomic.Int64
}

func (f *field) app(name string) *app {
	f.t.Helper()
	a := &app{name: name}
	a.addr = f.serve(func(w http.ResponseWriter, r *http.Request) {
		a.calls.Add(1)
		fmt.Fprintf(w, "%s %s", a.name, r.Header.Get("x-lane-tag"))
	})
	return a
}

// port is an application's port.
func (a *app) port() string {
	_, port, _ := net.SplitHostPort(a.addr)
	return port
}

// serve serves until the test ends, and returns where.
func (f *field) serve(h http.HandlerFunc) (addr string) {
	f.t.Helper()
	ln, err := consultest.Listen()
	if err != nil {
		f.t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // it ends with Close
	}()
	f.t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return ln.Addr().String()
}

// instance registers an address as somebody else's healthy instance of a service.
func (f *field) instance(service, id, addr string, meta map[string]string) {
	f.t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		f.t.Fatal(err)
	}
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.call("PUT", "/v1/agent/service/register", map[string]any{"ID": id, "Name": service, "Address": host, "Port": n, "Meta": meta}, nil); err != nil {
		f.t.Fatal(err)
	}
}

// lane starts a session, and waits until it is up; it ends with the test.
func (f *field) lane(args ...string) *process {
	f.t.Helper()
	p := f.start(append([]string{"lane", "up"}, args...)...)
	f.eventually(fmt.Sprintf("%q is up", p.argv), func() bool {
		select {
		case <-p.done:
			f.t.Fatalf("%q has ended: %v\n%s", p.argv, p.ended, &p.err)
		default:
		}
		return strings.Contains(p.err.String()+p.out.String(), "is up")
	})
	return p
}

// reply is what a caller got.
type reply struct {
	status int
	head   http.Header
	body   string
}

func (r *reply) String() string {
	return fmt.Sprintf("%d %q, X-Lane-Decision: %s, X-Lane-Error: %s", r.status, r.body, r.head.Get("X-Lane-Decision"), r.head.Get("X-Lane-Error"))
}

// by is an error unless an application's answer came, with status 200.
func (r *reply) by(name string) error {
	if who, _, _ := strings.Cut(r.body, " "); r.status != http.StatusOK || who != name {
		return fmt.Errorf("not served by %s: %v", name, r)
	}
	return nil
}

// caller asks over connections that it keeps.
type caller struct{ client *http.Client }

func (f *field) caller() *caller {
	tr := &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 64}
	f.t.Cleanup(tr.CloseIdleConnections)
	return &caller{&http.Client{Transport: tr, Timeout: storyLimit}}
}

// get asks for / with fields in pairs.
func (c *caller) get(addr string, fields ...string) (*reply, error) {
	return c.path(addr, "/", fields...)
}

func (c *caller) path(addr, path string, fields ...string) (*reply, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	return c.do(req)
}

func (c *caller) do(req *http.Request) (*reply, error) {
	res, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return &reply{res.StatusCode, res.Header, string(body)}, err
}

// each makes n calls, by so many callers at once.
func (f *field) each(n, callers int, call func(i int) error) {
	f.t.Helper()
	var next, failed atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) || failed.Load() >= mostFaults {
					return
				}
				if err := call(int(i)); err != nil {
					failed.Add(1)
					f.t.Errorf("request %d of %d: %v", i, n, err)
				}
			}
		})
	}
	all.Wait()
	if failed.Load() > 0 {
		f.t.FailNow()
	}
}

// mostFaults is how many faults of a load are told.
const mostFaults = 5

// load are callers that ask one request after the other until the story ends it.
type load struct {
	f        *field
	answered atomic.Int64
	stop     chan struct{}
	once     sync.Once
	callers  sync.WaitGroup

	mu     sync.Mutex
	faults []error
}

// breath is between two requests of one caller: the load is to be there all the
// time, not to be all that the machine does.
const breath = 5 * time.Millisecond

// load lets callers ask; call makes the i-th request, and says what was wrong with
// its answer.
func (f *field) load(callers int, call func(i int) error) *load {
	l := &load{f: f, stop: make(chan struct{})}
	var next atomic.Int64
	for range callers {
		l.callers.Go(func() {
			tick := time.NewTicker(breath)
			defer tick.Stop()
			for {
				select {
				case <-l.stop:
					return
				case <-tick.C:
				}
				i := next.Add(1) - 1
				if err := call(int(i)); err != nil {
					l.mu.Lock()
					l.faults = append(l.faults, fmt.Errorf("request %d: %w", i, err))
					l.mu.Unlock()
				}
				l.answered.Add(1)
			}
		})
	}
	f.t.Cleanup(l.halt) // of a story that has failed
	return l
}

// more waits until n more requests have been answered.
func (l *load) more(n int64) {
	l.f.t.Helper()
	want := l.answered.Load() + n
	l.f.eventually(fmt.Sprintf("%d more requests are answered", n), func() bool { return l.answered.Load() >= want })
	l.check()
}

// check fails the story if an answer was wrong.
func (l *load) check() {
	l.f.t.Helper()
	l.mu.Lock()
	faults := slices.Clone(l.faults)
	l.mu.Unlock()
	if len(faults) > 0 {
		l.f.t.Fatalf("%d of %d answers are wrong; the first: %v", len(faults), l.answered.Load(), errors.Join(faults[:min(len(faults), mostFaults)]...))
	}
}

func (l *load) halt() {
	l.once.Do(func() { close(l.stop) })
	l.callers.Wait()
}

// end ends the load, and says how many requests it was.
func (l *load) end() int64 {
	l.f.t.Helper()
	l.halt()
	l.check()
	return l.answered.Load()
}
