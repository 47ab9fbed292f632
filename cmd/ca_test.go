package cmd

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"lane/pkg/ca"
	"lane/pkg/iostreams"
)

// caRun runs lane ca with a state directory, at a time, in a directory of settings.
func caRun(t *testing.T, state, dir string, now time.Time, args ...string) (code int, out, errOut string) {
	t.Helper()
	s, _, stdout, stderr := iostreams.Test()
	f := &factory{io: s, dir: dir, now: func() time.Time { return now }, getenv: func(k string) string {
		return map[string]string{"LANE_STATE_DIR": state}[k]
	}}
	c := newCACmd(f)
	c.SetFlagErrorFunc(badFlag) // as its root has it
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	return f.report(t.Context(), c.ExecuteContext(t.Context())), stdout.String(), stderr.String()
}

func TestCA(t *testing.T) {
	state, now := filepath.Join(t.TempDir(), "it's here"), time.Now()
	run := func(args ...string) (int, string, string) { return caRun(t, state, t.TempDir(), now, args...) }
	for _, verb := range []string{"path", "trust-help"} {
		if code, out, errOut := run(verb); code != exitUnreachable || out != "" || !strings.Contains(errOut, "lane ca init") {
			t.Errorf("%s without one: %d %q %q", verb, code, out, errOut)
		}
	}
	for _, bad := range []string{"10.0.0.1", "*", "a b", ""} {
		if code, _, errOut := run("init", "--host", bad); code != exitUsage || !strings.Contains(errOut, "want a host") {
			t.Errorf("%q: %d %q", bad, code, errOut)
		}
	}
	code, out, errOut := run("init", "--host", "*.test.example", "--host", "orders")
	if code != exitOK || out != ca.Path(state)+"\n" || !strings.Contains(errOut, "these alone") {
		t.Fatalf("%d %q %q", code, out, errOut)
	}
	a, err := ca.Load(state, now)
	if err != nil || strings.Join(a.Hosts(), " ") != "test.example orders" {
		t.Errorf("%v %v", a, err)
	}
	if code, _, errOut = run("init"); code != exitUsage || !strings.Contains(errOut, "already") || !strings.Contains(errOut, `rm -r '`) {
		t.Errorf("again: %d %q", code, errOut)
	}
	if code, again, _ := run("path"); code != exitOK || again != out {
		t.Errorf("path: %d %q", code, again)
	}
	if code, out, _ := run("path", "--json"); code != exitOK || !strings.HasPrefix(out, `{"schema":"lane.ca/v1","path":`) ||
		!strings.Contains(out, `"hosts":["test.example","orders"],"not_after":"20`) {
		t.Errorf("path --json: %d %q", code, out)
	}
	code, help, _ := run("trust-help")
	if code != exitOK || strings.Contains(help, "{") || !strings.Contains(help, `'\''`) {
		t.Errorf("%d %s", code, help)
	}
	for _, who := range []string{"lane run", "Debian", "Fedora", "Arch", "Alpine", "macOS", "Windows", "Firefox", "Chrome", "Java", "Node", "Python", "curl", "Wget", "undo"} {
		if !strings.Contains(help, who) {
			t.Errorf("nothing about %s", who)
		}
	}
	if b, err := os.ReadFile(filepath.Join(state, "ca", "ca-key.pem")); err != nil || strings.Contains(help, string(b)) {
		t.Errorf("the key: %v", err)
	}
}

// The CA is bound to what lane.yaml opens, and says so where it is bound to nothing.
func TestCAInitHosts(t *testing.T) {
	dir := t.TempDir()
	if code, out, errOut := caRun(t, t.TempDir(), dir, time.Now(), "init", "--json"); code != exitOK || !strings.Contains(out, `"hosts":[]`) {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	if code, _, errOut := caRun(t, t.TempDir(), dir, time.Now(), "init"); code != exitOK || !strings.Contains(errOut, "any host") {
		t.Errorf("%d %q", code, errOut)
	}
	if err := os.WriteFile(filepath.Join(dir, "lane.yaml"), []byte("mitm: [orders, '*.test.example']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := caRun(t, t.TempDir(), dir, time.Now(), "init", "--json"); code != exitOK || !strings.Contains(out, `"hosts":["orders","test.example"]`) {
		t.Errorf("%d %q %q", code, out, errOut)
	}
	// What is listed is not asked to be listed.
	const list = "list hosts under mitm"
	if code, _, errOut := caRun(t, t.TempDir(), dir, time.Now(), "init"); code != exitOK || strings.Contains(errOut, list) || !strings.Contains(errOut, "next: lane up;") {
		t.Errorf("%d %q", code, errOut)
	}
	if code, _, errOut := caRun(t, t.TempDir(), dir, time.Now(), "init", "--host", "billing"); code != exitOK || !strings.Contains(errOut, list) {
		t.Errorf("%d %q", code, errOut)
	}
	if err := os.WriteFile(filepath.Join(dir, "lane.yaml"), []byte("mitn: [orders]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	if code, _, errOut := caRun(t, state, dir, time.Now(), "init"); code != exitUsage || !strings.Contains(errOut, "did you mean mitm") {
		t.Errorf("%d %q", code, errOut)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("left %v %v", left, err)
	}
}

func TestCARefuses(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	state := t.TempDir()
	if code, _, errOut := caRun(t, state, dir, now, "init"); code != exitOK {
		t.Fatalf("%d %q", code, errOut)
	}
	if code, _, errOut := caRun(t, state, dir, now.AddDate(3, 0, 0), "path"); code != exitFailed || !strings.Contains(errOut, "has ended") || !strings.Contains(errOut, "rm -r ") {
		t.Errorf("ended: %d %q", code, errOut)
	}
	// A file where its directory should be: the setting is wrong.
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := caRun(t, file, dir, now, "init"); code != exitUsage || out != "" || !strings.Contains(errOut, file) {
		t.Errorf("no directory: %d %q", code, errOut)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(filepath.Join(state, "ca", "ca-key.pem"), 0o640); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := caRun(t, state, dir, now, "path"); code != exitFailed || out != "" || !strings.Contains(errOut, "open to others") || !strings.Contains(errOut, "rm -r ") {
		t.Errorf("a key that others read: %d %q", code, errOut)
	}
	if os.Getuid() == 0 {
		return // nothing is forbidden to root
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := caRun(t, closed, dir, now, "init"); code != exitFailed || !strings.Contains(errOut, "LANE_STATE_DIR") {
		t.Errorf("no right to write: %d %q", code, errOut)
	}
}
