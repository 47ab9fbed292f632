//go:build unix

package cmd

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lane/pkg/consul/consultest"
	"lane/pkg/control"

	"github.com/rogpeppe/go-internal/testscript"
)

// world is what stands around the program in one story: a registry, and
// services that somebody else runs.
type world struct {
	registry string // host:port
	runtime  string
	dir      string // the story's own
	// terminals are those that the story has opened.
	terminals []string

	mu      sync.Mutex
	servers map[string]*server
	saved   map[string]string

	junctions map[string]*junction
	proxies   map[string]*connectProxy
}

// atOnce has a program with the race detector end when it is done: it would wait for a
// second before each good end, which no user's program does, and which a run of all
// stories would pay hundreds of times.
const atOnce = "GORACE=atexit_sleep_ms=10"

// worlds counts the worlds of this run.
var worlds atomic.Int32

// claimPorts are the ports of this world's relays. A port of one that has been killed
// must not lead to another story's relay, which has a lane of the same name.
func claimPorts() string {
	from := 30000 + 40*(worlds.Add(1)%65)
	return fmt.Sprintf("%d-%d", from, from+39)
}

func newWorld(env *testscript.Env, start func(testing.TB) string) (*world, error) {
	t, ok := env.T().(testing.TB)
	if !ok {
		return nil, errors.New("stories need a testing.TB")
	}
	w := &world{registry: start(t), servers: map[string]*server{}, saved: map[string]string{}, junctions: map[string]*junction{}, proxies: map[string]*connectProxy{}}
	// The path of a socket is short by nature; a story's directory is not.
	dir, err := os.MkdirTemp("", "lane")
	if err != nil {
		return nil, err
	}
	w.runtime, w.dir = dir, env.WorkDir
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	env.Vars = append(env.Vars, "CONSUL_HTTP_ADDR="+w.registry, "LANE_RUNTIME_DIR="+dir, "LANE_STATE_DIR="+filepath.Join(home, "state"),
		"HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "config"), "LANE_OWNER=alice", "LANE_PROXY_LISTEN=127.0.0.1:0",
		"NO_PROXY=", "HTTP_PROXY=", atOnce, "claim_ports="+claimPorts())
	env.Defer(func() {
		w.endSessions()
		w.close()
		_ = os.RemoveAll(dir)
	})
	return w, nil
}

// endSessions kills what a story that failed halfway has left running: detached, it
// would go on for ever, and register at whatever has its registry's port next.
func (w *world) endSessions() {
	ctx, cancel := storyContext()
	defer cancel()
	for _, dir := range w.machines() {
		found, _, err := control.Sessions(ctx, dir)
		if err != nil {
			continue // no session was ever there
		}
		for _, f := range found {
			if p, err := os.FindProcess(f.Status.PID); err == nil && f.Status.PID != os.Getpid() {
				_ = p.Kill() // its guardian removes what it had
			}
		}
	}
}

// machines are the directories in which sessions of the story have their sockets: a story
// of several machines makes one for each, wherever it likes.
func (w *world) machines() []string {
	var dirs []string
	for _, root := range []string{w.runtime, w.dir} {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error { // what cannot be read has no socket
			if err == nil && d.Type()&fs.ModeSocket != 0 && !slices.Contains(dirs, filepath.Dir(path)) {
				dirs = append(dirs, filepath.Dir(path))
			}
			return nil
		})
	}
	return dirs
}

func (w *world) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.servers {
		s.close()
	}
	for _, j := range w.junctions {
		j.close()
	}
	for _, p := range w.proxies {
		p.close()
	}
}

// server is one HTTP server of a story: it says who served what with which tag,
// and counts.
type server struct {
	name  string
	port  int
	tls   *tls.Config // nil: plain HTTP
	mu    sync.Mutex
	calls int
	heads []http.Header
	app   http.HandlerFunc // nil: it tells what it was asked
	letGo chan struct{}    // closed, nothing waits any more
	srv   *http.Server
	done  chan struct{}
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls++
	s.heads = append(s.heads, r.Header.Clone())
	app := s.app
	s.mu.Unlock()
	if app != nil {
		app(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if r.URL.Query().Has("wait") { // a slow answer is what the request asked for
		select {
		case <-s.letGo:
		case <-r.Context().Done():
		}
	}
	fmt.Fprintf(w, "%s: %s %s tag=%q baggage=%q body=%d\n", s.name, r.Method, r.RequestURI, r.Header.Get("x-lane-tag"), r.Header.Get("baggage"), len(body))
}

func (s *server) listen() (err error) {
	var ln net.Listener
	if s.port == 0 {
		ln, err = consultest.Listen()
	} else {
		ln, err = net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(s.port))
	}
	if err != nil {
		return err
	}
	s.port = ln.Addr().(*net.TCPAddr).Port
	if s.tls != nil {
		ln = tls.NewListener(ln, s.tls)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	s.srv, s.done = srv, make(chan struct{})
	go func(done chan struct{}) {
		defer close(done)
		_ = srv.Serve(ln) // it ends with close
	}(s.done)
	return nil
}

func (s *server) close() {
	if s.srv != nil {
		_ = s.srv.Close()
		<-s.done
		s.srv = nil
	}
}

// call makes one request to the registry's API and decodes its answer.
func (w *world) call(method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := storyContext()
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+w.registry+path, body)
	if err != nil {
		return err
	}
	res, err := (&http.Transport{Proxy: nil, DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound && out != nil {
		return nil
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		return fmt.Errorf("%s %s: %s: %s", method, path, res.Status, b)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}

// picture is everything that the registry holds, but for clocks and indexes.
func (w *world) picture() (string, error) {
	var services map[string]struct {
		ID, Service string
		Meta        map[string]string
		Port        int
	}
	var kv []struct{ Key, Session string }
	var sessions []struct{ ID, Name string }
	if err := errors.Join(w.call("GET", "/v1/agent/services", nil, &services), w.call("GET", "/v1/kv/?recurse", nil, &kv),
		w.call("GET", "/v1/session/list", nil, &sessions)); err != nil {
		return "", err
	}
	var lines []string
	for _, s := range services {
		lines = append(lines, fmt.Sprintf("service %s %s:%d %v", s.ID, s.Service, s.Port, s.Meta))
	}
	for _, k := range kv {
		lines = append(lines, fmt.Sprintf("key %s %s", k.Key, k.Session))
	}
	for _, s := range sessions {
		lines = append(lines, fmt.Sprintf("session %s %s", s.ID, s.Name))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n"), nil
}
