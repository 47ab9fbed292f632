//go:build unix

package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// What docs/passing.md tells to put into a service is run as it stands there, each with
// a program of testdata/passing around it, which calls what NEXT names and answers what
// that one has answered: what it was sent.
func TestPassingOn(t *testing.T) {
	text, err := os.ReadFile("../docs/passing.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = append(blocks[m[1]], m[2])
	}
	for lang, n := range map[string]int{"go": 2, "python": 1, "js": 1, "java": 1} {
		if len(blocks[lang]) != n {
			t.Fatalf("docs/passing.md has %d blocks of %s, not %d", len(blocks[lang]), lang, n)
		}
	}
	if len(blocks) != 4 {
		t.Fatalf("docs/passing.md has a block that nobody runs: %v", blocks)
	}
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, passedOn(func(name string) []string { return r.Header.Values(name) }))
	}))
	t.Cleanup(next.Close)
	python := strings.TrimSpace(output(t, "python3", "-c", "import sys; print(sys.executable)"))
	node := filepath.Join(nodeModules(t), "node", "bin", "node")
	for _, p := range []struct {
		name  string
		files map[string]string // beside those of testdata/passing
		build []string
		run   []string
		paths []string // beside /bare: those by which it is passed on
		lost  []string // those by which it is not
	}{
		{"Go", golang(blocks["go"]), []string{"go", "build", "-mod=mod", "-o", "app", "."}, []string{"./app"}, []string{"/now", "/later"}, nil},
		{"gRPC", golang(blocks["go"]), []string{"go", "build", "-mod=mod", "-o", "app", "./grpc"}, []string{"./app"}, []string{"/now", "/later"}, nil},
		{"WSGI", map[string]string{"onward.py": blocks["python"][0]}, nil, []string{python, "wsgi.py"}, []string{"/now", "/later"}, nil},
		{"ASGI", map[string]string{"onward.py": blocks["python"][0]}, nil, []string{python, "asgi.py"}, []string{"/now", "/later"}, nil},
		{"Node", map[string]string{"onward.mjs": blocks["js"][0]}, nil, []string{node, "app.mjs"}, []string{"/now", "/later"}, nil},
		{"Java", map[string]string{"Onward.java": blocks["java"][0]}, []string{"javac", "-d", ".", "Onward.java", "App.java"},
			[]string{"java", "-XX:TieredStopAtLevel=1", "-cp", ".", "App"}, []string{"/now", "/later"}, []string{"/pool"}},
	} {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("../testdata/passing")); err != nil {
				t.Fatal(err)
			}
			for name, text := range p.files {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if p.build != nil {
				c := exec.CommandContext(t.Context(), p.build[0], p.build[1:]...)
				c.Dir = dir
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("%q: %v\n%s", p.build, err, out)
				}
			}
			ask := askHTTP
			to := next.URL + "/"
			if p.name == "gRPC" {
				ask, to = askGRPC, nextGRPC(t)
			}
			asked := ask(t, startPassing(t, dir, to, p.run))
			// Without it nothing is passed on, or the others would prove nothing; and
			// nothing is left behind by which it could be.
			bare := func() {
				for _, path := range append(p.lost, "/bare") {
					if got := asked(path, tagged("lost")); got != passedOn(none) {
						t.Errorf("%s: it was passed on all the same: %s", path, got)
					}
				}
			}
			bare()
			defer bare()
			for _, path := range p.paths {
				for _, lane := range []string{"dev-alice", "", "dev-bob", ""} { // untagged behind tagged
					h := map[string]string{}
					if lane != "" {
						h = tagged(lane)
					}
					if got, want := asked(path, h), passedOn(in(h)); got != want {
						t.Errorf("%s: passed on %s, want %s", path, got, want)
					}
				}
				var all sync.WaitGroup
				for i := range 40 {
					all.Go(func() {
						h := map[string]string{}
						if i%4 > 0 {
							h = tagged(fmt.Sprintf("dev-%d", i))
						}
						if got, want := asked(path, h), passedOn(in(h)); got != want {
							t.Errorf("%s, at once: passed on %s, want %s", path, got, want)
						}
					})
				}
				all.Wait()
			}
		})
	}
}

// golang are the files of a module with what the page says for Go.
func golang(blocks []string) map[string]string {
	mod, _ := os.ReadFile("../go.mod") // without them it does not build
	sum, _ := os.ReadFile("../go.sum")
	return map[string]string{
		"go.mod": strings.Replace(string(mod), "module lane", "module passing", 1), "go.sum": string(sum),
		"onward/onward.go": blocks[0], "onward/grpc.go": blocks[1],
	}
}

// passingNames are the headers that go on.
var passingNames = []string{"x-lane-tag", "baggage", "traceparent", "tracestate", "x-request-id"}

// tagged are the headers of a request of a lane.
func tagged(lane string) map[string]string {
	return map[string]string{
		"x-lane-tag": lane, "baggage": "user=1;p=2, k=a%20b,lane=" + lane, "x-request-id": "id-of-" + lane,
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=of-" + lane + ",other=1",
	}
}

func in(h map[string]string) func(string) []string {
	return func(name string) []string {
		if v, ok := h[name]; ok {
			return []string{v}
		}
		return nil
	}
}

func none(string) []string { return nil }

// passedOn is what NEXT answers to who sends these headers.
func passedOn(values func(name string) []string) string {
	var out []string
	for _, n := range passingNames {
		out = append(out, fmt.Sprintf("%s=%q", n, values(n)))
	}
	return strings.Join(out, " ")
}

// startPassing starts a program, and returns where it listens.
func startPassing(t *testing.T, dir, next string, argv []string) string {
	t.Helper()
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir, c.Stderr = dir, &strings.Builder{}
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "NEXT=" + next}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // killed, it has failed
		if t.Failed() {
			t.Logf("%q said: %s", argv, c.Stderr)
		}
	})
	// It ends with the program, also where that says nothing.
	late := time.AfterFunc(storyLimit, func() { _ = c.Process.Kill() })
	defer late.Stop()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return "127.0.0.1:" + strings.TrimSpace(port)
}

// askHTTP asks the program by HTTP, on connections that are kept where it keeps them.
func askHTTP(t *testing.T, addr string) func(path string, h map[string]string) string {
	tr := &http.Transport{MaxConnsPerHost: 4}
	t.Cleanup(tr.CloseIdleConnections)
	client := &http.Client{Transport: tr, Timeout: storyLimit}
	return func(path string, h map[string]string) string {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			return err.Error()
		}
		for k, v := range h {
			req.Header.Set(k, v)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
}

// echo answers each call with an error that says what it was sent.
type echo struct {
	health.UnimplementedHealthServer
}

func (echo) answer(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	return status.Error(codes.Aborted, passedOn(md.Get))
}

func (e echo) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	return nil, e.answer(ctx)
}

func (e echo) Watch(_ *health.HealthCheckRequest, s health.Health_WatchServer) error {
	return e.answer(s.Context())
}

// nextGRPC is NEXT for gRPC.
func nextGRPC(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	health.RegisterHealthServer(s, echo{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(ln) // it ends with Stop
	}()
	t.Cleanup(func() { s.Stop(); <-done })
	return ln.Addr().String()
}

func askGRPC(t *testing.T, addr string) func(path string, h map[string]string) string {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := health.NewHealthClient(conn)
	return func(path string, h map[string]string) string {
		ctx, cancel := context.WithTimeout(metadata.NewOutgoingContext(t.Context(), metadata.New(h)), storyLimit)
		defer cancel()
		_, err := client.Check(ctx, &health.HealthCheckRequest{Service: path})
		return status.Convert(err).Message()
	}
}
