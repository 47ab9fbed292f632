package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lane/pkg/ca"
	"lane/pkg/iostreams"
)

// The verbs work before they are in the root.
func TestCA(t *testing.T) {
	state := filepath.Join(t.TempDir(), "it's here")
	run := func(args ...string) (code int, out, errOut string) {
		s, _, stdout, stderr := iostreams.Test()
		f := &factory{io: s, dir: t.TempDir(), now: time.Now, getenv: func(k string) string {
			return map[string]string{"LANE_STATE_DIR": state}[k]
		}}
		c := newCACmd(f)
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(args)
		return f.report(t.Context(), c.ExecuteContext(t.Context())), stdout.String(), stderr.String()
	}
	for _, verb := range []string{"path", "trust-help"} {
		if code, out, errOut := run(verb); code != exitUnreachable || out != "" || !strings.Contains(errOut, "lane ca init") {
			t.Errorf("%s without one: %d %q %q", verb, code, out, errOut)
		}
	}
	if code, _, errOut := run("init", "--host", "10.0.0.1"); code == exitOK || errOut == "" {
		t.Errorf("an address: %d %q", code, errOut)
	}
	code, out, errOut := run("init", "--host", "*.test.example", "--host", "orders")
	if code != exitOK || out != ca.Path(state)+"\n" {
		t.Fatalf("%d %q %q", code, out, errOut)
	}
	a, err := ca.Load(state, time.Now())
	if err != nil || strings.Join(a.Cert.PermittedDNSDomains, " ") != "test.example orders" {
		t.Errorf("%v %v", a, err)
	}
	if code, _, errOut = run("init"); code != exitUsage || !strings.Contains(errOut, "already") {
		t.Errorf("again: %d %q", code, errOut)
	}
	if code, again, _ := run("path"); code != exitOK || again != out {
		t.Errorf("path: %d %q", code, again)
	}
	code, help, _ := run("trust-help")
	if code != exitOK || strings.Contains(help, "{") || !strings.Contains(help, `'\''`) {
		t.Errorf("%d %s", code, help)
	}
	for _, who := range []string{"Debian", "Fedora", "macOS", "Windows", "Firefox", "Java", "Node", "Python", "curl"} {
		if !strings.Contains(help, who) {
			t.Errorf("nothing about %s", who)
		}
	}
	if b, err := os.ReadFile(filepath.Join(state, "ca", "ca-key.pem")); err != nil || strings.Contains(help, string(b)) {
		t.Errorf("the key: %v", err)
	}
}
