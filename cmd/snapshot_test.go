package cmd

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"lane/pkg/iostreams"
)

// offline runs a command line in a world without environment, registry or
// terminal.
func offline(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	s, _, stdout, stderr := iostreams.Test()
	f := &factory{io: s, getenv: func(string) string { return "" }, dir: t.TempDir(), now: time.Now,
		executable: os.Executable, build: debug.ReadBuildInfo}
	code = f.run(t.Context(), args)
	return code, stdout.String(), stderr.String()
}

// The worked cases give the same decisions through the command as they state.
func TestSnapshotsOfTheWorkedCases(t *testing.T) {
	const file = "../testdata/route_cases.json"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID     string
		Input  json.RawMessage
		Expect map[string]any
	}
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := offline(t, "explain", "--snapshot", file, "--json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errOut)
	}
	lines := bufio.NewScanner(strings.NewReader(out))
	n := 0
	for ; lines.Scan(); n++ {
		var got map[string]any
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := cases[n].Expect
		want["id"] = cases[n].ID
		if !reflect.DeepEqual(got, want) {
			t.Errorf("case %s:\n got %v\nwant %v", cases[n].ID, got, want)
		}
	}
	if n != len(cases) || n != 68 {
		t.Errorf("%d decisions of %d cases", n, len(cases))
	}

	// One input alone, without an ID around it.
	one := filepath.Join(t.TempDir(), "one.json")
	if err := os.WriteFile(one, cases[3].Input, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = offline(t, "explain", "--snapshot", one, "--json")
	if code != exitOK || !strings.Contains(out, `"kind":"LANE_MATCH"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("one input: exit code %d, %q, %q", code, out, errOut)
	}
}

func TestWrongSnapshotsNameTheField(t *testing.T) {
	for in, want := range map[string]string{
		`{"instances":[],"cfg":{"mode":"sideways"}}`:                        "mode",
		`[{"id":"K7","input":{"instances":[],"cfg":{"no_match":"maybe"}}}]`: "K7",
		`{"instances":[],"cgf":{}}`:                                         "cgf",
		`{"instances":[{"id":"a","weight":"heavy"}]}`:                       "weight",
		`not json`: "one.json",
		``:         "one.json",
	} {
		file := filepath.Join(t.TempDir(), "one.json")
		if err := os.WriteFile(file, []byte(in), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errOut := offline(t, "explain", "--snapshot", file, "--json")
		if code != exitUsage || out != "" || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, %q, %q; want %q in it", in, code, out, errOut, want)
		}
	}
}

// Help lists no verb that does nothing, and every command has an example or says
// enough without.
func TestHelpOfEveryCommand(t *testing.T) {
	_, out, _ := offline(t, "--help")
	for _, c := range newRootCmd(&factory{io: &iostreams.IOStreams{}, getenv: func(string) string { return "" }}, "").Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !strings.Contains(out, "  "+c.Name()+" ") {
			t.Errorf("lane --help does not list %s", c.Name())
		}
		code, help, errOut := offline(t, c.Name(), "--help")
		if code != exitOK || !strings.Contains(help, "Usage:") || errOut != "" {
			t.Errorf("lane %s --help: exit code %d, %q", c.Name(), code, errOut)
		}
		for _, line := range strings.Split(help, "\n") {
			if len(line) > 120 {
				t.Errorf("lane %s --help: a line of %d columns: %s", c.Name(), len(line), line)
			}
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, out, errOut := offline(t, "completion", shell)
		if code != exitOK || !strings.Contains(out, "__complete") {
			t.Errorf("completion %s: exit code %d, %q", shell, code, errOut)
		}
	}
}
