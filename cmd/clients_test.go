//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul/consultest"
)

var update = flag.Bool("update", false, "write the table of docs/clients.md")

// TestClients runs clients that developers have as children of `lane run`, and
// holds the table in docs/clients.md to what they did.
func TestClients(t *testing.T) {
	w := newClientWorld(t)
	rows := make([]string, len(w.clients))
	t.Run("calls", func(t *testing.T) {
		for i, c := range w.clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = w.row(t, c)
			})
		}
	})
	if !t.Failed() {
		clientTable(t, rows)
	}
}

// clientWorld is a registry, a baseline and a lane of the same services, and a
// session of that lane.
type clientWorld struct {
	dir       string
	env       []string // without any proxy
	sent      string   // a file to send
	sentBytes []byte
	clients   []*client
	baseline  map[string]int    // ports by service
	guards    map[string]string // registered addresses by service
	vars      map[string]string // what `lane run` sets
}

func newClientWorld(t *testing.T) *clientWorld {
	t.Helper()
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	w := &clientWorld{dir: dir, sent: filepath.Join(dir, "sent"), guards: map[string]string{}}
	w.clients = clients(t, dir, cert)

	// Bytes that a conversion of characters or of line ends would change.
	w.sentBytes = append([]byte("a=ü&b=%2F+\r\n\n"), bytes.Repeat([]byte{'x', '\n', '\r', 0x7f, 0, 0xff, 0xfe}, 10_000)...)
	if err := os.WriteFile(w.sent, w.sentBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	pair := testCertificate(t, cert, "*.web-tls.invalid", "*.rpc-tls.invalid")
	local := clientServers(t, "lane", pair)
	w.baseline = clientServers(t, "baseline", pair)

	reg := &world{registry: consultest.Embedded(t)}
	var conf strings.Builder
	conf.WriteString("services:\n")
	for _, name := range clientServices {
		body := map[string]any{"ID": name + "-1", "Name": name, "Address": "127.0.0.1", "Port": w.baseline[name]}
		if err := reg.call("PUT", "/v1/agent/service/register", body, nil); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&conf, "  %s: { port: %d }\n", name, local[name])
	}
	// A name of each client's own, by which its calls can be told apart in the
	// record; and no resolver has it, so that nothing leaves without the proxy.
	conf.WriteString("hosts:\n")
	for _, c := range w.clients {
		for _, name := range clientServices {
			fmt.Fprintf(&conf, "  %s: %s\n", c.alias(name), name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lane.yaml"), []byte(conf.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runtime, err := os.MkdirTemp("", "lane") // the path of a socket is short by nature
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	w.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PWD=" + dir, "LC_ALL=C.UTF-8", "CONSUL_HTTP_ADDR=" + reg.registry,
		"LANE_RUNTIME_DIR=" + runtime, "LANE_STATE_DIR=" + filepath.Join(dir, "state"), "XDG_CONFIG_HOME=" + filepath.Join(dir, "config"),
		"LANE_OWNER=alice", "LANE_PROXY_LISTEN=127.0.0.1:0", atOnce,
		"SSL_CERT_FILE=" + cert, "NODE_EXTRA_CA_CERTS=" + cert, "NODE_PATH=" + nodeModules(t)}

	w.must(t, "lane", "up", "dev-alice", "-d")
	t.Cleanup(func() { w.must(t, "lane", "down", "dev-alice") })
	var st struct {
		Services []struct{ Name, Guard string }
	}
	w.decode(t, &st, "lane", "status", "--json")
	for _, s := range st.Services {
		w.guards[s.Name] = s.Guard
	}
	var env struct{ Env map[string]string }
	w.decode(t, &env, "lane", "env", "--syntax", "json")
	w.vars = env.Env
	for _, v := range slices.Concat(proxyVars...) {
		if w.vars[v] == "" {
			t.Fatalf("lane env has no %s: %v", v, w.vars)
		}
	}
	return w
}

// alias is a name for a service that only this client calls.
func (c *client) alias(service string) string { return c.name + "." + service + ".invalid" }

// run runs a program in the world's environment and more of it.
func (w *clientWorld) run(more []string, argv ...string) (out []byte, err error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := storyContext()
	defer cancel()
	c := exec.CommandContext(ctx, path, argv[1:]...)
	c.Dir, c.Env = w.dir, append(slices.Clone(w.env), more...)
	var said bytes.Buffer
	c.Stderr = &said
	if out, err = c.Output(); err != nil {
		return out, fmt.Errorf("%q: %w\n%s", argv, err, &said)
	}
	return out, nil
}

func (w *clientWorld) must(t *testing.T, argv ...string) []byte {
	t.Helper()
	out, err := w.run(nil, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (w *clientWorld) decode(t *testing.T, into any, argv ...string) {
	t.Helper()
	if err := json.Unmarshal(w.must(t, argv...), into); err != nil {
		t.Fatal(err)
	}
}

// inLane is the command line of a call inside of the lane.
func inLane(c *client, k call) []string {
	return append([]string{"lane", "run", "--"}, c.command(k)...)
}

// gets checks what a command gets: which side answered, with which tag, and
// that the body arrived whole both ways.
func (w *clientWorld) gets(t *testing.T, side, tag string, body []byte, argv []string) {
	t.Helper()
	out, err := w.run(nil, argv...)
	if err != nil {
		t.Error(err)
		return
	}
	var tags []string
	if tag != "" {
		tags = []string{tag}
	}
	if want := answer(side, tags, body); !bytes.Equal(out, want) {
		t.Errorf("%q: %d bytes %.60q, want %d bytes %.60q", argv, len(out), out, len(want), want)
	}
}

// row is a client's row of the table: what it did.
func (w *clientWorld) row(t *testing.T, c *client) string {
	plain, secure := "web", "web-tls"
	if c.grpc {
		plain, secure = "rpc", "rpc-tls"
	}
	// In the lane: colored, and served by the developer's own process.
	w.gets(t, "lane", "dev-alice", nil, inLane(c, call{host: plain}))
	w.gets(t, "lane", "dev-alice", w.sentBytes, inLane(c, call{host: plain, file: w.sent}))
	// Nothing of a lane outside of `lane run`, even at the lane's own address.
	w.gets(t, "baseline", "", nil, c.command(call{host: w.guards[plain]}))
	// A loopback address is called directly: the session sees nothing of it.
	direct := fmt.Sprintf("127.0.0.1:%d", w.baseline[plain])
	w.gets(t, "baseline", "", nil, inLane(c, call{host: direct}))
	// TLS shows no tag: the baseline serves it, and the record says so.
	w.gets(t, "baseline", "", nil, inLane(c, call{host: c.alias(secure), tls: true}))
	w.gets(t, "baseline", "", w.sentBytes, inLane(c, call{host: c.alias(secure), tls: true, file: w.sent}))
	notes := map[string]bool{}
	for _, e := range w.record(t) {
		if strings.Contains(e.URL, c.alias(secure)) {
			notes[e.Note] = true
		}
		if strings.Contains(e.URL, direct) && (c.grpc || strings.HasSuffix(e.URL, "/"+c.name)) {
			t.Errorf("a call to a loopback address went through the proxy: %+v", e)
		}
	}
	if len(notes) != 1 || !notes["not colored (TLS)"] {
		t.Errorf("calls to %s are recorded as %v", c.alias(secure), notes)
	}

	tlsCell := strings.Join(slices.Sorted(maps.Keys(notes)), ", ")
	cells := []string{c.lib, major(t, c.version(t)), w.found(t, c, plain)}
	if c.grpc {
		cells = append(cells, "", "colored", tlsCell)
	} else {
		cells = append(cells, "colored", "", tlsCell)
	}
	return "| " + strings.Join(append(cells, c.needs), " | ") + " |"
}

// exchange is a line of `lane tail --json`.
type exchange struct{ URL, Note, Front string }

// record are the calls that the session's proxy has seen.
func (w *clientWorld) record(t *testing.T) (out []exchange) {
	t.Helper()
	for line := range bytes.Lines(w.must(t, "lane", "tail", "--json", "--follow=false", "-n", "100000")) {
		var e exchange
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.Front == "forward" {
			out = append(out, e)
		}
	}
	return out
}

// proxyVars are the variables that may lead a client to the proxy, those that
// differ only in case together.
var proxyVars = [][]string{{"http_proxy", "HTTP_PROXY"}, {"https_proxy", "HTTPS_PROXY"}, {"grpc_proxy"}, {"JAVA_TOOL_OPTIONS"}}

// found says which of the variables that `lane run` sets make the client find
// the proxy, each tried alone.
func (w *clientWorld) found(t *testing.T, c *client, service string) string {
	want := answer("lane", []string{"dev-alice"}, nil)
	colored := func(names ...string) bool {
		var vars []string
		for _, v := range names {
			vars = append(vars, v+"="+w.vars[v])
		}
		out, err := w.run(vars, c.command(call{host: c.alias(service)})...)
		return err == nil && bytes.Equal(out, want)
	}
	const node = "NODE_USE_ENV_PROXY"
	var names []string
	suffix, without := "", 0
	for _, group := range proxyVars {
		if !colored(append(slices.Clone(group), node)...) {
			without++
			continue
		}
		for _, v := range group {
			if len(group) == 1 || colored(v, node) {
				names = append(names, "`"+v+"`")
			}
		}
		if !colored(group...) {
			suffix = " with `" + node + "`"
		}
	}
	// The negative twin: without the right variable there is no lane.
	if len(names) == 0 || without == 0 {
		t.Errorf("%s finds the proxy by %v, and without it by %d of %v", c.name, names, len(proxyVars)-without, proxyVars)
	}
	return strings.Join(names, ", ") + suffix
}

// major is the first number of a version, or Go's whole minor one.
func major(t *testing.T, says string) string {
	m := regexp.MustCompile(`go1\.\d+|\d+`).FindString(says)
	if m == "" {
		t.Fatalf("no version in %q", says)
	}
	return strings.TrimPrefix(m, "go")
}

// clientTable holds the table of the page to rows. The versions may differ: a
// newer curl is no reason to fail.
func clientTable(t *testing.T, rows []string) {
	t.Helper()
	const begin, end = "<!-- begin: written by go test ./cmd -run TestClients -update -->\n", "<!-- end -->\n"
	path := filepath.Join("..", "docs", "clients.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(b), begin)
	have, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s lacks %s or %s", path, begin, end)
	}
	got := "\n| client | tested | finds the proxy by | `http://` | gRPC | with TLS | what it needs |\n|---|---|---|---|---|---|---|\n" +
		strings.Join(rows, "\n") + "\n\n"
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	version := regexp.MustCompile(`(?m)^(\| [^|]+ \| )[0-9.]+ `)
	if version.ReplaceAllString(have, "$1") != version.ReplaceAllString(got, "$1") {
		t.Errorf("%s differs; if it is meant to, go test ./cmd -run TestClients -update and read the difference\nhave:\n%s\nwant:\n%s", path, have, got)
	}
}
