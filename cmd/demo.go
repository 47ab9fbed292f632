package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"lane/pkg/demo"
	"lane/pkg/traffic"
	"lane/tui"

	"github.com/spf13/cobra"
)

type demoOptions struct {
	once bool
	json bool
	rate int
}

// maxRate keeps the demo a demo: the terminal UI shows no more than a few rows
// at a time.
const maxRate = 100

func newDemoCmd(f *factory) *cobra.Command {
	o := &demoOptions{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work on this machine alone: a bookshop, two lanes, traffic",
		Long: `Run a whole test environment on this machine: an embedded registry, a bookshop of
four services that call each other, and two lanes: dev-alice with a local
reviews, dev-bob with a local ratings. On a terminal it sends tagged and untagged
requests and shows dev-alice's session; q or Ctrl-C ends it.

With --once, or without a terminal, it prints a tour instead: each line is a claim
about lanes that has just been checked with real requests. It exits 0 only if all
of them held.

It uses free ports of the loopback address and a temporary directory, reads
neither settings nor Consul's variables, and removes everything at its end.`,
		Example: `  lane demo
  lane demo --once
  lane demo --once --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.rate < 1 || o.rate > maxRate {
				return usagef("", "--rate is 1 to %d requests a second, not %d", maxRate, o.rate)
			}
			return runDemo(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.once, "once", false, "print the tour and end, also on a terminal")
	c.Flags().IntVar(&o.rate, "rate", 4, "requests per second, on a terminal")
	jsonFlag(c, &o.json)
	return c
}

func runDemo(ctx context.Context, f *factory, o *demoOptions) error {
	if o.once || o.json || !f.screen() {
		return runTour(ctx, f, o)
	}
	err := demo.Show(ctx, demo.Options{Now: f.now}, o.rate, func(ctx context.Context, v demo.View) error {
		return f.watch(ctx, v, tui.Options{Demo: true})
	})
	interrupted := errors.Is(err, tui.ErrInterrupted) || errors.Is(err, errInterrupted)
	if err != nil && !interrupted {
		return err
	}
	if _, err := fmt.Fprintln(f.io.Err, "removed: the lanes dev-alice and dev-bob, the four services of the bookshop, and their registry"); err != nil {
		return err
	}
	if interrupted {
		return &exitError{code: exitInterrupted}
	}
	return nil
}

func runTour(ctx context.Context, f *factory, o *demoOptions) error {
	tell := func(s demo.Shown) error { return f.printStep(s) }
	if o.json {
		tell = func(demo.Shown) error { return nil }
	}
	r, err := demo.Tour(ctx, demo.Options{Now: f.now}, tell)
	if err != nil {
		return err
	}
	if err := f.printTour(o, r); err != nil {
		return err
	}
	if !r.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

// printStep prints one step as it was seen: on one line if the terminal has
// room, else what was seen goes under the claim.
func (f *factory) printStep(s demo.Shown) error {
	mark := "ok"
	if !s.OK {
		mark = "WRONG"
	}
	head := fmt.Sprintf("%2d  %-5s  ", s.N, mark)
	text, seen := traffic.Printable(s.Text), traffic.Printable(s.Detail)
	line := head + text + ": " + seen
	if f.io.IsStdoutTTY && len(line) > f.io.Width {
		indent := strings.Repeat(" ", len(head))
		line = head + text + "\n" + indent + strings.Join(wrap(seen, f.io.Width-len(head)), "\n"+indent)
	}
	_, err := fmt.Fprintln(f.io.Out, line)
	return err
}

// wrap breaks a text into lines of at most width bytes, where it has blanks.
func wrap(s string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		if n := len(lines) - 1; n >= 0 && len(lines[n])+1+len(word) <= width {
			lines[n] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

func (f *factory) printTour(o *demoOptions, r demo.Report) error {
	if o.json {
		return f.printJSON(r)
	}
	held := 0
	for _, s := range r.Steps {
		if s.OK {
			held++
		}
	}
	what := "all " + strconv.Itoa(held) + " claims held"
	if !r.OK {
		what = fmt.Sprintf("%d of %d claims did NOT hold", len(r.Steps)-held, len(r.Steps))
	}
	_, err := fmt.Fprintf(f.io.Out, "%s, in %.1f s; everything is removed\n", what, float64(r.TookMS)/1000)
	return err
}
