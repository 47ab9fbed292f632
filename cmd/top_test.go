package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	adminport "lane/pkg/admin"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/metrics"
	"lane/pkg/printer"
	"lane/pkg/traffic"
)

// gatewayPort is an admin port that has seen requests of lane gray and of the
// baseline.
func gatewayPort(t *testing.T) (addr string) {
	t.Helper()
	m := metrics.New(metrics.Options{KnownLane: func(lane.Name) bool { return true }, KnownService: func(string) bool { return true }})
	for range 10 {
		e := traffic.Exchange{Service: "orders", Status: 200, Front: traffic.FrontGateway, Instance: "o-1", Took: time.Millisecond}
		m.Done(&e)
		e.Lane, e.Instance, e.Status = "gray", "o-2", 500
		m.Done(&e)
	}
	s, err := adminport.Listen(adminport.Options{Listen: ":0", Stats: m.Stats})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

// withRegistry runs a command line against a registry.
func withRegistry(t *testing.T, registry string, args ...string) (code int, out, errOut string) {
	t.Helper()
	s, _, stdout, stderr := iostreams.Test()
	f := &factory{io: s, getenv: func(name string) string { return map[string]string{"CONSUL_HTTP_ADDR": registry}[name] },
		dir: t.TempDir(), now: time.Now, executable: os.Executable, build: debug.ReadBuildInfo}
	code = f.run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

func TestTopFindsThePortsInTheRegistry(t *testing.T) {
	e := newEnvironment(t)
	registry := e.addr
	if code, out, errOut := withRegistry(t, registry, "top"); code != exitUnreachable || out != "" || !strings.Contains(errOut, "no gateway and no sidecar") {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	_, at, _ := net.SplitHostPort(gatewayPort(t))
	for id, admin := range map[string]string{"gw-1": at, "gw-2": "1"} { // where nobody listens
		e.put(t, "/v1/agent/service/register", map[string]any{"ID": id, "Name": "lane-gateway", "Address": "127.0.0.1", "Port": 80,
			"Meta": map[string]string{"lane-admin-port": admin}})
	}
	e.router(t, "lane-sidecar", "sc-1", "critical", nil) // dead, so it is not asked
	e.router(t, "lane-sidecar", "sc-2", "passing", applies(`"rows":[]`))
	code, out, errOut := withRegistry(t, registry, "top")
	if code != exitOK || !strings.HasPrefix(out, "orders\tgray\t") || !strings.Contains(out, "\t100.0%\t") || !strings.Contains(errOut, "(gw-2) does not answer") {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	code, out, _ = withRegistry(t, registry, "top", "--json", "--window", "60s")
	var top printer.Top
	if err := json.Unmarshal([]byte(out), &top); err != nil || code != exitOK || top.Schema != printer.TopSchema || len(top.Ports) != 3 ||
		top.Ports[0].Error != "" || top.Ports[1].Error == "" || top.Services[0].In.Errors != 10 || top.Services[0].Baseline.Errors != 0 {
		t.Errorf("%d %v %s", code, err, out)
	}
}

func TestTopOfNamedPorts(t *testing.T) {
	if code, out, errOut := offline(t, "top", "--admin", gatewayPort(t), "--once"); code != exitOK || !strings.HasPrefix(out, "orders\tgray\t") || errOut != "" {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"schema":"other/v1"}`) }))
	defer other.Close()
	for _, c := range []struct {
		args, want string
		code       int
	}{
		{"top --admin " + other.Listener.Addr().String(), `the schema "other/v1"`, exitUnreachable},
		{"top --admin 127.0.0.1:1", "no admin port answers", exitUnreachable},
		{"top --window 5s", "is none of 10s, 60s", exitUsage},
		{"top --interval 1ms", "is not between 500ms and 1h", exitUsage},
		{"top orders", "usage: lane top", exitUsage},
	} {
		if code, out, errOut := offline(t, strings.Fields(c.args)...); code != c.code || out != "" || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: %d %q %q", c.args, code, out, errOut)
		}
	}
}

// painted is a terminal that tells when it was painted.
type painted struct {
	mu    sync.Mutex
	pages int
	b     bytes.Buffer
	after func(pages int)
}

func (p *painted) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pages++
	p.after(p.pages)
	return p.b.Write(b)
}

func TestTopPaintsOverItself(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	screen := &painted{after: func(n int) {
		if n == 2 {
			cancel(errInterrupted)
		}
	}}
	s, _, _, _ := iostreams.Test()
	s.Out, s.IsStdoutTTY, s.Height = screen, true, 24
	f := &factory{io: s, getenv: func(string) string { return "" }, dir: t.TempDir(), now: time.Now, executable: os.Executable, build: debug.ReadBuildInfo}
	if code := f.run(ctx, []string{"top", "--admin", gatewayPort(t), "--interval", "500ms"}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	got := screen.b.String()
	if strings.Count(got, "SERVICE") != 2 || strings.Count(got, "\x1b[2A\x1b[J") != 1 || strings.HasPrefix(got, "\x1b[2A") {
		t.Errorf("%q", got)
	}
}

func TestPagesFitTheTerminal(t *testing.T) {
	page := []byte(strings.Repeat("line\n", 10))
	if got := fit(page, 0); len(got) != len(page) {
		t.Errorf("%q", got)
	}
	if got := fit(page, 11); len(got) != len(page) {
		t.Errorf("%q", got)
	}
	if got := string(fit(page, 10)); strings.Count(got, "\n") != 9 || !strings.Contains(got, "… 2 more lines") {
		t.Errorf("%q", got)
	}
}
