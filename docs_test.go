package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lane/pkg/config"
	"lane/pkg/traffic"
	"lane/tui"
)

// The test binary is also the program, so that the pages are held to what the
// program says of itself.
const asProgram = "LANE_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is lane with a registry that is not there and no settings.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	c := exec.CommandContext(t.Context(), exe, args...)
	c.Dir = home
	c.Env = []string{asProgram + "=1", "HOME=" + home, "PATH=" + os.Getenv("PATH"), "CONSUL_HTTP_ADDR=127.0.0.1:1",
		"LANE_STATE_DIR=" + filepath.Join(home, "s"), "LANE_RUNTIME_DIR=" + filepath.Join(home, "r"),
		"GORACE=atexit_sleep_ms=10"} // else one with the race detector waits for a second before it ends
	return c
}

// program runs lane and returns its result.
func program(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	c := command(t, args...)
	b, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), c.ProcessState.ExitCode()
}

func page(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// row returns the table row of a page that begins with the given cell.
func row(t *testing.T, text, cell string) string {
	t.Helper()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "| "+cell+" |") {
			return strings.TrimSpace(line)
		}
	}
	t.Errorf("no row for %s", cell)
	return ""
}

var helpLine = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}(\S.*)$`)

func TestCommandsPageHasEveryCommand(t *testing.T) {
	help, code := program(t, "--help")
	if code != 0 {
		t.Fatalf("lane --help: %d", code)
	}
	text := page(t, "docs/commands.md")
	var names []string
	for _, m := range helpLine.FindAllStringSubmatch(help, -1) {
		if m[1] == "lane" || m[1] == "help" {
			continue
		}
		names = append(names, m[1])
		if want := "| `lane " + m[1] + "` | " + m[2] + " |"; !strings.Contains(text, want) {
			t.Errorf("docs/commands.md lacks the row\n%s", want)
		}
	}
	if len(names) < 10 {
		t.Fatalf("only %v found in the help", names)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `lane ([a-z]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("docs/commands.md has lane %s, the help has not", m[1])
		}
	}
}

// Flags of lane up that are no settings.
var noSettings = []string{"bodies", "detach", "help", "join", "json", "plain", "takeover", "utf8"}

func TestSettingsPageIsComplete(t *testing.T) {
	text := page(t, "docs/settings.md")
	for _, key := range config.Keys() {
		row(t, text, "`"+key+"`")
	}
	for name := range asked(t) {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("docs/settings.md lacks %s", name)
		}
	}
	help, _ := program(t, "up", "--help")
	flags := regexp.MustCompile(`(?m)^ +(?:-\w, )?--([a-z0-9-]+)`).FindAllStringSubmatch(help, -1)
	if len(flags) < 10 {
		t.Fatalf("only %v found in the help", flags)
	}
	for _, m := range flags {
		if !slices.Contains(noSettings, m[1]) && !strings.Contains(text, "`--"+m[1]+"`") && !strings.Contains(text, "`--"+m[1]+",") {
			t.Errorf("docs/settings.md lacks --%s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(LANE_[A-Z_]+)`").FindAllStringSubmatch(text, -1) {
		if !asked(t)[m[1]] && m[1] != "LANE_PROXY" { // which the program sets
			t.Errorf("docs/settings.md has %s, which nothing reads", m[1])
		}
	}
}

// asked are the environment variables that settings and directories ask for.
func asked(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	getenv := func(name string) string { names[name] = true; return "" }
	if _, err := config.Load(config.Options{Getenv: getenv}); err != nil {
		t.Fatal(err)
	}
	sys := config.System{Getenv: getenv, GOOS: "linux", Home: "/home/alice", Temp: "/tmp"}
	if _, err := config.StateDir(sys); err != nil {
		t.Fatal(err)
	}
	if _, err := config.RuntimeDir(sys); err != nil {
		t.Fatal(err)
	}
	delete(names, "XDG_STATE_HOME") // shown as $XDG_STATE_HOME/lane
	delete(names, "XDG_RUNTIME_DIR")
	if len(names) < 20 {
		t.Fatalf("only %v are asked for", names)
	}
	return names
}

func TestDefaultsOfTheSettingsPage(t *testing.T) {
	s, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := page(t, "docs/settings.md")
	for _, e := range s.Entries() {
		if e.Value == "" || e.Key == "owner" { // user@host, as it is on this machine
			continue
		}
		cells := strings.Split(row(t, text, "`"+e.Key+"`"), "|") // "", key, flag, environment, default, meaning, ""
		if len(cells) != 7 || !strings.Contains(cells[4], "`"+e.Value+"`") {
			t.Errorf("docs/settings.md: %s lacks its default %q", e.Key, e.Value)
		}
	}
}

// The lane.yaml of each page is one that the program accepts.
func TestYamlOfThePages(t *testing.T) {
	for _, name := range []string{"README.md", "docs/settings.md", "docs/https.md"} {
		found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page(t, name), -1)
		if len(found) == 0 {
			t.Errorf("%s shows no lane.yaml", name)
		}
		for _, m := range found {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Options{Dir: dir, Home: dir}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestFilterPageIsComplete(t *testing.T) {
	text := page(t, "docs/filters.md")
	for _, k := range traffic.FilterKeys() {
		r := row(t, text, "`"+k.Key+"`")
		for v := range strings.SplitSeq(k.Values, ", ") {
			if !strings.Contains(r, "`"+v+"`") {
				t.Errorf("docs/filters.md: %s lacks %s", k.Key, v)
			}
		}
	}
	_, examples, _ := strings.Cut(text, "## Examples")
	n := 0
	for line := range strings.Lines(examples) {
		cell, ok := strings.CutPrefix(line, "| `")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(strings.ReplaceAll(cell, `\|`, "\x00"), " | ")
		for f := range strings.SplitSeq(strings.TrimSuffix(cell, "`"), "`, `") {
			n++
			if _, err := traffic.ParseFilter(strings.ReplaceAll(f, "\x00", "|")); err != nil {
				t.Errorf("docs/filters.md: %v", err)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d examples", n)
	}
	for _, m := range regexp.MustCompile(`(?m)^\$ lane tail --filter '(.*)'$`).FindAllStringSubmatch(text, -1) {
		if _, err := traffic.ParseFilter(m[1]); err == nil || !strings.Contains(text, "lane: --filter: "+err.Error()) {
			t.Errorf("docs/filters.md: %s says %v", m[1], err)
		}
	}
}

func TestCommandsPageHasEveryExitCode(t *testing.T) {
	_, table, _ := strings.Cut(page(t, "docs/commands.md"), "## Exit codes")
	for _, code := range []string{"0", "1", "2", "3", "130"} {
		row(t, table, code)
	}
	for _, c := range []struct {
		args string
		want int
	}{
		{"version", 0}, {"no-such-command", 2}, {"up Not_A_Lane", 2}, {"ls", 3}, {"status", 3}, {"explain http://orders/", 3},
	} {
		if _, code := program(t, strings.Fields(c.args)...); code != c.want {
			t.Errorf("lane %s: %d, want %d", c.args, code, c.want)
		}
	}
}

// sources reads every file of the module with one of the endings.
func sources(t *testing.T, visit func(name, text string), endings ...string) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != "." {
			return filepath.SkipDir
		}
		if slices.Contains(endings, filepath.Ext(p)) {
			visit(filepath.ToSlash(p), page(t, p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCommandsPageHasEverySchema(t *testing.T) {
	pinned := page(t, "docs/commands.md")
	schema := regexp.MustCompile(`"(lane\.[a-z]+/v[0-9]+)"`)
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, m := range schema.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(pinned, "`"+m[1]+"`") {
				t.Errorf("docs/commands.md lacks the schema %s", m[1])
			}
		}
	}, ".go")
}

// A page that promises a test names one that is there.
func TestNamedTestsExist(t *testing.T) {
	var all bytes.Buffer
	sources(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") {
			all.WriteString(text)
		}
	}, ".go")
	text := page(t, "docs/architecture.md") + page(t, "docs/protocols.md")
	names := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`").FindAllStringSubmatch(text, -1)
	if len(names) < 60 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, m := range names {
		if !bytes.Contains(all.Bytes(), []byte("\nfunc "+m[1]+"(")) {
			t.Errorf("the pages name %s, which is not there", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+\\.txtar)`").FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join("testdata/script", m[1])); err != nil {
			t.Error(err)
		}
	}
}

// Links between the pages lead somewhere, to the heading too.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	pages := []string{"README.md", "CHANGELOG.md"}
	more, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(pages, more...) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(page(t, name), "code"), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: %v", name, err)
			} else if heading != "" && !slices.Contains(anchors(page(t, to)), heading) {
				t.Errorf("%s: %s has no heading #%s", name, to, heading)
			}
		}
	}
}

// anchors are the headings of a page as their links are written.
func anchors(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if h, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			h = strings.ToLower(strings.TrimSpace(h))
			h = regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(h, "")
			out = append(out, strings.ReplaceAll(h, " ", "-"))
		}
	}
	return out
}

// The table of keys is made of the keys.
func TestKeysPageHasEveryKey(t *testing.T) {
	var want strings.Builder
	for _, k := range tui.Keys() {
		want.WriteString("| `" + strings.ReplaceAll(k.Keys, " ", "`, `") + "` | " + k.Means + " | " + k.Where + " |\n")
	}
	text := page(t, "docs/ui.md")
	if !strings.Contains(text, "|---|---|---|\n"+want.String()+"\n") {
		t.Errorf("docs/ui.md lacks the table\n%s", want.String())
	}
}
