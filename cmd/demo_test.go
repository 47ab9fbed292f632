package cmd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lane/pkg/demo"
	"lane/pkg/iostreams"
)

func TestDemoPrintsSteps(t *testing.T) {
	step := demo.Shown{N: 8, Text: "each response says what happened", OK: true,
		Detail: "FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent"}
	wrong := demo.Shown{N: 12, Text: "it is bounced", Detail: "passed\x1b[2J: expected bounced"}
	for _, c := range []struct {
		name  string
		tty   bool
		width int
		step  demo.Shown
		want  string
	}{
		{"off a terminal: one line", false, 80, step,
			" 8  ok     each response says what happened: FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent\n"},
		{"on a wide terminal too", true, 120, step,
			" 8  ok     each response says what happened: FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent\n"},
		{"on a narrow one below", true, 80, step,
			" 8  ok     each response says what happened\n           FALLBACK_BASELINE; lane=dev-nobody; reason=lane_absent\n"},
		{"broken at blanks", true, 50, step,
			" 8  ok     each response says what happened\n           FALLBACK_BASELINE; lane=dev-nobody;\n           reason=lane_absent\n"},
		{"wrong, and no byte acts on the terminal", true, 80, wrong,
			"12  WRONG  it is bounced: passed\\x1b[2J: expected bounced\n"},
	} {
		s, _, out, _ := iostreams.Test()
		s.IsStdoutTTY, s.Width = c.tty, c.width
		f := &factory{io: s}
		if err := f.printStep(c.step); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%q\nwant\n%q", c.name, err, out, c.want)
		}
	}
}

func TestDemoSaysHowManyClaimsHeld(t *testing.T) {
	for _, c := range []struct {
		report demo.Report
		want   string
	}{
		{demo.Report{OK: true, TookMS: 1250, Steps: []demo.Shown{{OK: true}, {OK: true}}}, "all 2 claims held, in 1.2 s; everything is removed\n"},
		{demo.Report{TookMS: 900, Steps: []demo.Shown{{OK: true}, {}, {OK: true}}}, "1 of 3 claims did NOT hold, in 0.9 s; everything is removed\n"},
	} {
		s, _, out, _ := iostreams.Test()
		f := &factory{io: s}
		if err := f.printTour(&demoOptions{}, c.report); err != nil || out.String() != c.want {
			t.Errorf("%v: %q, want %q", err, out, c.want)
		}
	}
}

// An interrupt ends the tour with 130, and without a word about errors.
func TestDemoInterrupted(t *testing.T) {
	s, _, _, errOut := iostreams.Test()
	ctx, cancel := context.WithCancelCause(t.Context())
	s.Out = writer(func(p []byte) (int, error) {
		if strings.HasPrefix(string(p), " 2 ") {
			cancel(errInterrupted)
		}
		return len(p), nil
	})
	f := &factory{io: s, now: time.Now}
	if code := f.run(ctx, []string{"demo", "--once"}); code != exitInterrupted || errOut.Len() > 0 {
		t.Errorf("exit code %d, %q", code, errOut)
	}
}

// What the demo proposes works as it stands, while its traffic flows.
func TestWhatTheDemoProposes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var ran []string
	err := demo.Show(ctx, demo.Options{Now: time.Now, Program: "lane"}, 20, func(ctx context.Context, w *demo.World) error {
		env := map[string]string{"LANE_STATE_DIR": t.TempDir(), "LANE_RUNTIME_DIR": t.TempDir()}
		for _, try := range w.Try() {
			words := strings.Fields(try.Command)
			s, _, out, errOut := iostreams.Test()
			switch words[0] {
			case "export":
				name, value, _ := strings.Cut(words[1], "=")
				env[name] = value
				continue
			case "curl": // it asks in its own way; the tour asks so, too
				continue
			}
			f := &factory{io: s, dir: t.TempDir(), now: time.Now, getenv: func(k string) string { return env[k] }}
			code := f.run(ctx, words[1:])
			for words[1] == "top" && ctx.Err() == nil && !strings.Contains(out.String(), "productpage") {
				code = f.run(ctx, words[1:]) // the routers look at their figures once a second
			}
			if code != exitOK {
				t.Errorf("%s: %d\n%s%s", try.Command, code, out, errOut)
			}
			ran = append(ran, words[1])
			for verb, want := range map[string]string{"rules push": "lane-gateway:", "rules history": "the bookshop's first rules",
				"rules rollback": "rollback to 1", "top": "productpage"} {
				if strings.HasPrefix(try.Command, "lane "+verb) && !strings.Contains(out.String(), want) {
					t.Errorf("%s says %q, not %q", try.Command, out, want)
				}
			}
		}
		lines := strings.Join(toTry(w), "\n")
		if !strings.Contains(lines, w.Shop()) || !strings.Contains(lines, "  lane kill dev2\n") || !strings.Contains(lines, env["CONSUL_HTTP_ADDR"]) {
			t.Errorf("the screen says\n%s", lines)
		}
		return nil
	})
	if got, want := strings.Join(ran, " "), "rules rules rules kill unkill top"; err != nil || got != want {
		t.Errorf("ran %q, want %q; %v", got, want, err)
	}
}

func TestHowTheProgramIsCalled(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "lane")
	if err := os.WriteFile(there, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, exe, want string }{
		{dir, there, "lane"},
		{t.TempDir(), there, there},
		{dir, filepath.Join(dir, "another"), filepath.Join(dir, "another")},
		{dir, "/tmp/go-build123/b001/exe/lane", "go run ."},
		{t.TempDir(), "/home/al ice/lane", "lane"},
	} {
		t.Setenv("PATH", c.path)
		f := &factory{executable: func() (string, error) { return c.exe, nil }}
		if got := f.program(); got != c.want {
			t.Errorf("%s on %s: %q, want %q", c.exe, c.path, got, c.want)
		}
	}
	f := &factory{executable: func() (string, error) { return "", os.ErrNotExist }}
	if got := f.program(); got != "lane" {
		t.Errorf("not known: %q", got)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
