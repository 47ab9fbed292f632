package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lane/pkg/iostreams"
)

// configOf is what `lane config` says of a lane.yaml.
func configOf(t *testing.T, yaml string, args ...string) (code int, out, errOut string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lane.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, stdout, stderr := iostreams.Test()
	f := &factory{io: s, getenv: func(string) string { return "" }, dir: dir, now: time.Now}
	code = f.run(t.Context(), append([]string{"config"}, args...))
	return code, stdout.String(), stderr.String()
}

// With a mistake `lane config` shows what it could read, and the mistake.
func TestConfigWithAMistake(t *testing.T) {
	const broken = "env: test\ndrain: 30\nregistr: shared\n"
	code, out, errOut := configOf(t, broken)
	if code != exitUsage || !strings.Contains(out, "env\ttest\tlane.yaml:1\n") || !strings.Contains(out, "drain\t?\tlane.yaml:2\n") || !strings.Contains(out, "guard\tbounce\tdefault\n") {
		t.Errorf("%d\n%s", code, out)
	}
	if !strings.HasPrefix(errOut, "read ") || !strings.Contains(errOut, "settings: 2 problems") || !strings.Contains(errOut, "lane.yaml:2: drain: ") || !strings.Contains(errOut, "did you mean register?") {
		t.Error(errOut)
	}
	code, out, errOut = configOf(t, broken, "--json")
	if code != exitUsage || !strings.Contains(out, `{"key":"drain","value":"","source":"lane.yaml:2","wrong":true}`) ||
		!strings.Contains(out, `"problems":[{"source":"lane.yaml:2","key":"drain","why":`) || !strings.Contains(errOut, "settings: 2 problems") {
		t.Errorf("%d\n%s\n%s", code, out, errOut)
	}
	code, out, errOut = configOf(t, "env: test\ndrain: 30s\nregister: shared\n", "--json")
	if code != exitOK || strings.Contains(out, "problems") || strings.Contains(out, "wrong") || errOut != "" {
		t.Errorf("%d\n%s\n%s", code, out, errOut)
	}
}

// What is set and does nothing is told, and is no mistake.
func TestConfigWithoutAZone(t *testing.T) {
	for yaml, told := range map[string]bool{"on_empty: fail\n": true, "on_empty: fail\nzone: eu-1\n": false, "zone: eu-1\n": false} {
		code, _, errOut := configOf(t, yaml)
		if code != exitOK || strings.Contains(errOut, "warning: on_empty (lane.yaml:1): does nothing without a zone") != told {
			t.Errorf("%q: %d %s", yaml, code, errOut)
		}
		if _, out, _ := configOf(t, yaml, "--json"); strings.Contains(out, `"warnings":["on_empty`) != told {
			t.Errorf("%q: %s", yaml, out)
		}
	}
}
