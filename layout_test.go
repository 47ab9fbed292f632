package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one package of this module: its imports outside of tests, and its
// package documentation.
type source struct {
	imports map[string]bool
	docs    []string // files with a package comment
}

// module parses the imports and the package comments of every package of this
// module, by directory.
func module(t *testing.T) map[string]*source {
	t.Helper()
	out := map[string]*source{}
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || d.Name() == "testdata" || p == "scripts" || p == "dist") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(p))
		if out[dir] == nil {
			out[dir] = &source{imports: map[string]bool{}}
		}
		if documented(file) {
			out[dir].docs = append(out[dir].docs, filepath.Base(p))
		}
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			out[dir].imports[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 10 {
		t.Fatalf("only %d packages found", len(out))
	}
	return out
}

func documented(f *ast.File) bool { return f.Doc != nil && strings.TrimSpace(f.Doc.Text()) != "" }

// forbidden are the imports that a package must not have, and why. A pattern
// that ends in /... matches everything below.
var forbidden = []struct {
	in, imports, why string
}{
	{"pkg/lane", "net/...", "the domain does no I/O"},
	{"pkg/lane", "os/...", "the domain does no I/O"},
	{"pkg/lane", "context", "the domain waits for nothing"},
	{"pkg/lane", "sync/...", "the domain has no goroutines"},
	{"pkg/lane", "lane/...", "the domain knows nobody"},
	{"pkg/rules", "net", "a color is decided without I/O"},
	{"pkg/rules", "net/http/...", "a color is decided without I/O"},
	{"pkg/rules", "os/...", "a color is decided without I/O"},
	{"pkg/rules", "context", "a color waits for nothing"},
	{"pkg/rules", "sync/...", "the rules have no goroutines"},
	{"pkg/rules", "lane/pkg/proxy", "whoever sends asks the rules"},
	{"pkg/rules", "lane/pkg/consul/...", "rules are bytes, wherever they are kept"},
	{"pkg/rules", "lane/pkg/session", "arrows point down"},
	{"pkg/traffic", "lane/pkg/proxy", "recording does not know who records"},
	{"pkg/traffic", "lane/pkg/consul/...", "recording knows no registry"},
	{"pkg/proxy", "lane/pkg/consul/...", "the engine sees a catalog, never a registry"},
	{"pkg/proxy", "lane/tui/...", "no request waits for a screen"},
	{"pkg/proxy", "lane/tunnel/...", "no sideways arrows"},
	{"pkg/proxy", "lane/pkg/session", "arrows point down"},
	{"pkg/proxy", "lane/pkg/control", "arrows point down"},
	{"pkg/consul", "lane/pkg/proxy", "no sideways arrows"},
	{"pkg/consul", "lane/tui/...", "no sideways arrows"},
	{"pkg/consul", "lane/tunnel/...", "no sideways arrows"},
	{"pkg/consul", "lane/pkg/session", "arrows point down"},
	{"pkg/consul/dev", "lane/...", "the embedded registry speaks Consul's API and knows no lanes"},
	{"pkg/consul/dev", "github.com/hashicorp/consul/...", "the embedded registry must not test the client with itself"},
	{"tui", "lane/pkg/proxy", "the screen reads exchanges, it owns no engine"},
	{"tui", "lane/pkg/consul/...", "the screen reads exchanges, it owns no engine"},
	{"tui", "lane/pkg/session", "the screen reads exchanges, it owns no engine"},
	{"tui", "lane/tunnel/...", "no sideways arrows"},
	{"pkg/session", "lane/tui/...", "a session prints nothing"},
	{"pkg/session", "lane/pkg/printer", "a session prints nothing"},
	{"pkg/session", "lane/pkg/iostreams", "a session prints nothing"},
	{"pkg/control", "lane/pkg/session", "arrows point down"},
	{"pkg/proxy", "lane/pkg/metrics", "the engine tells whoever counts, and does not know who"},
	{"pkg/proxy", "lane/pkg/accesslog", "no request waits for a line"},
	{"pkg/metrics", "lane/pkg/proxy", "counting does not know who is counted"},
	{"pkg/metrics", "lane/pkg/consul/...", "counting sees a catalog, never a registry"},
	{"pkg/metrics", "net", "counting opens no port"},
	{"pkg/accesslog", "lane/pkg/proxy", "a reader of exchanges knows no engine"},
	{"pkg/admin", "lane/pkg/proxy", "the port that is looked at has no way to a request"},
	{"pkg/admin", "lane/pkg/consul/...", "the port that is looked at changes nothing elsewhere"},
	{"pkg/chain", "net/...", "a chain is judged by what was recorded, without I/O"},
	{"pkg/chain", "os/...", "a chain is judged by what was recorded, without I/O"},
	{"pkg/chain", "lane/pkg/proxy", "recording does not know who records"},
	{"pkg/ca", "lane/...", "who may sign for what depends on nothing else here"},
	{"pkg/tracemap", "net/http/...", "it reads any head, by an accessor"},
	{"pkg/tracemap", "lane/pkg/proxy", "arrows point down"},
	{"pkg/tracemap", "lane/pkg/http1", "it reads any head, by an accessor"},
	{"pkg/doctor", "net/http/...", "a finding is made of facts that are there"},
	{"pkg/doctor", "os/...", "a finding is made of facts that are there"},
	{"pkg/doctor", "lane/...", "a finding is made of facts that are there"},
	{"pkg/listening", "lane/...", "who listens depends on no lane"},
	{"pkg/logfile", "lane/...", "a file depends on nothing of what is written into it"},
	{"pkg/whitelist", "lane/...", "who is on a list depends on no lane, rule or registry"},
	{"pkg/token", "lane/...", "who may claim what depends on no registry and no tunnel"},
	{"pkg/token", "net", "a token opens nothing"},
	{"pkg/relay", "lane/pkg/session", "arrows point down"},
	{"pkg/relay", "lane/pkg/control", "a relay has no session"},
	{"pkg/relay/facts", "lane/pkg/consul/...", "the words of a claim are no registry's"},
	{"tunnel", "lane/...", "a tunnel knows bytes, claims and names"},
	{"tunnel", "os/exec", "a tunnel starts nothing"},
	{"pkg/compare", "os/...", "what differs between two answers is decided without I/O"},
	{"pkg/compare", "lane/...", "what differs between two answers depends on no lane"},
	{"pkg/describe", "net", "a server is asked by the way that its caller has"},
	{"pkg/describe", "lane/pkg/proxy", "a server is asked by the way that its caller has"},
	{"pkg/har", "os/...", "an archive is bytes, wherever they go"},
	{"pkg/har", "lane/pkg/proxy", "recording does not know who records"},
	{"tui", "net/http", "what a key asks for is sent by whoever owns the engine"},
	{"tui", "os/...", "what a key asks for is written by whoever owns the engine"},
	{"pkg/...", "lane/cmd", "arrows point down"},
	{"pkg/...", "github.com/spf13/...", "only the command line knows flags"},
	{"tui/...", "github.com/spf13/...", "only the command line knows flags"},
}

// owners are the only packages, mostly one, that may import a module outside of
// tests: what it can do is then behind one door.
var owners = map[string]string{
	"github.com/hashicorp/consul/api":    "pkg/consul",
	"github.com/elazarl/goproxy":         "pkg/proxy",
	"github.com/charmbracelet/bubbletea": "tui/...",
	"github.com/charmbracelet/bubbles":   "tui/...",
	"github.com/charmbracelet/lipgloss":  "tui/...",
	"github.com/spf13/cobra":             "cmd",
	"github.com/mattn/go-isatty":         "pkg/iostreams",
	"go.yaml.in/yaml/v3":                 "pkg/config pkg/rules pkg/gateway", // three forms that people write
	"github.com/hashicorp/go-bexpr":      "pkg/consul/dev",
	"github.com/redis/go-redis/v9":       "pkg/whitelist",
	"github.com/hashicorp/yamux":         "tunnel",
	"github.com/coder/websocket":         "tunnel",
	"github.com/golang-jwt/jwt":          "pkg/token",
	"github.com/andybalholm/brotli":      "pkg/traffic",
	"github.com/klauspost/compress":      "pkg/traffic",
	"github.com/prometheus/common":       "pkg/metrics",
	"github.com/prometheus/client_model": "pkg/metrics",
	"google.golang.org/protobuf":         "pkg/describe",
}

func matches(pattern, name string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == base || strings.HasPrefix(name, base+"/")
	}
	return name == pattern
}

// owns reports whether a package is one of the owners of a row.
func owns(owners, dir string) bool {
	return slices.ContainsFunc(strings.Fields(owners), func(o string) bool { return matches(o, dir) })
}

func TestArrowsPointDown(t *testing.T) {
	for dir, p := range module(t) {
		for name := range p.imports {
			for _, f := range forbidden {
				if matches(f.in, dir) && matches(f.imports, name) {
					t.Errorf("%s imports %s: %s", dir, name, f.why)
				}
			}
			for mod, owner := range owners {
				if matches(mod+"/...", name) && !owns(owner, dir) {
					t.Errorf("%s imports %s, which belongs to %s", dir, name, owner)
				}
			}
		}
	}
}

// Each row of the tables is about something that is there: a renamed package
// must not leave a rule behind that guards nothing.
func TestRulesAreAboutPackagesThatExist(t *testing.T) {
	all := module(t)
	dirs := slices.Collect(maps.Keys(all))
	for _, f := range forbidden {
		if !slices.ContainsFunc(dirs, func(d string) bool { return matches(f.in, d) }) {
			t.Errorf("no package %s", f.in)
		}
	}
	for mod, owner := range owners {
		used := false
		for dir, p := range all {
			for name := range p.imports {
				used = used || owns(owner, dir) && matches(mod+"/...", name)
			}
		}
		if !used {
			t.Errorf("%s does not import %s", owner, mod)
		}
	}
}

// Every package says once what it is.
func TestPackagesAreDocumented(t *testing.T) {
	for dir, p := range module(t) {
		if len(p.docs) != 1 {
			t.Errorf("package %s has its documentation in %v, want one file", path.Base(dir), p.docs)
		}
	}
}

// A test that needs the real Consul and finds none is counted as skipped; one that asks
// for itself has returned in silence, and counted as passed. And no test is skipped for
// any other reason.
func TestOnlyOneAsksForTheRealConsul(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && p != "." || filepath.ToSlash(p) == "pkg/consul/consultest") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(p, "_test.go") || p == "layout_test.go" {
			return nil
		}
		seen++
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, word := range []string{"consultest.Variable", `"LANE_TEST_CONSUL"`, "t.Skip", "tb.Skip"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s: consultest.Needed, Each and Either say what is there", p, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 100 {
		t.Fatalf("only %d files of tests found", seen)
	}
}
