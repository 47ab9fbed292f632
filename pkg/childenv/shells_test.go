//go:build unix

package childenv

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sorted are the values that a syntax can express.
func fit(t *testing.T, syntax string) (vars []Var, text string) {
	t.Helper()
	for name, v := range values {
		if _, err := Render(syntax, []Var{{name, v}}); err == nil {
			vars = append(vars, Var{name, v})
		}
	}
	slices.SortFunc(vars, func(a, b Var) int { return strings.Compare(a.Name, b.Name) })
	text, err := Render(syntax, vars)
	if err != nil || len(vars) < 10 {
		t.Fatalf("%d variables, %v", len(vars), err)
	}
	return vars, text
}

// run runs a command in an environment of nothing but PATH and HOME.
func run(t *testing.T, home string, argv ...string) []byte {
	t.Helper()
	path, err := exec.LookPath(argv[0])
	if err != nil {
		t.Fatalf("this test needs %s: %v", argv[0], err)
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir = home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C.UTF-8"}
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil || errOut.Len() > 0 {
		t.Fatalf("%q: %v\n%s", argv, err, &errOut)
	}
	return out
}

// TestRealShells evaluates as the manual says to, and reads the environment of
// a child of the shell.
func TestRealShells(t *testing.T) {
	for _, c := range []struct{ shell, syntax, script string }{
		{"sh", Sh, `eval "$(cat env)"; exec env -0`},
		{"bash", Sh, `eval "$(cat env)"; exec env -0`},
		{"dash", Sh, `eval "$(cat env)"; exec env -0`},
		{"fish", Fish, `cat env | source; exec env -0`},
	} {
		t.Run(c.shell, func(t *testing.T) {
			vars, text := fit(t, c.syntax)
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "env"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for kv := range strings.SplitSeq(string(run(t, home, c.shell, "-c", c.script)), "\x00") {
				if name, v, ok := strings.Cut(kv, "="); ok {
					got[name] = v
				}
			}
			for _, v := range vars {
				if back, ok := got[v.Name]; !ok || back != v.Value {
					t.Errorf("%s: %q comes back as %q (set: %v)", v.Name, v.Value, back, ok)
				}
			}
		})
	}
}

// TestRealDotenvReader reads the file by node's own reader where there is a
// node, whose rules the syntax follows, and by a reader of these rules in any case.
func TestRealDotenvReader(t *testing.T) {
	vars, text := fit(t, Dotenv)
	readers := map[string]func(t *testing.T) map[string]string{"rules": func(*testing.T) map[string]string { return readDotenv(text) }}
	if _, err := exec.LookPath("node"); err == nil {
		readers["node"] = func(t *testing.T) map[string]string {
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "env"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var got map[string]string
			out := run(t, home, "node", "-e", `process.stdout.write(JSON.stringify(require("util").parseEnv(require("fs").readFileSync("env", "utf8"))))`)
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			return got
		}
	}
	for name, read := range readers {
		t.Run(name, func(t *testing.T) {
			got := read(t)
			for _, v := range vars {
				if back, ok := got[v.Name]; !ok || back != v.Value {
					t.Errorf("%s: %q comes back as %q (set: %v)", v.Name, v.Value, back, ok)
				}
			}
		})
	}
}

// readDotenv reads NAME=, a quote, and everything up to the same quote.
func readDotenv(text string) map[string]string {
	out := map[string]string{}
	for text != "" {
		name, rest, _ := strings.Cut(text, "=")
		value, after, _ := strings.Cut(rest[1:], rest[:1])
		if rest[0] == '"' {
			value = strings.ReplaceAll(value, `\n`, "\n")
		}
		out[name] = value
		text = strings.TrimPrefix(after, "\n")
	}
	return out
}
