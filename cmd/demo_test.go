package cmd

import (
	"context"
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

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
