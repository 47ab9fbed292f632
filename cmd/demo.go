package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
	utf8 bool
	rate int
}

// maxRate keeps the demo a demo: the terminal UI shows no more than a few rows
// at a time.
const maxRate = 100

func newDemoCmd(f *factory) *cobra.Command {
	o := &demoOptions{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See it work on this machine alone: a bookshop, three lanes, traffic",
		Long: `Run a whole test environment on this machine: an embedded registry, a bookshop of
four services, each behind a sidecar, a gateway that colors by rules, and three
lanes: dev2 with alice's local reviews, dev3 with bob's ratings, canary with the
next details. The services know nothing of lanes and pass on only x-request-id.

On a terminal it sends traffic and shows alice's session. The bookshop's page, at
the gateway's port, shows in a browser which lane served which part, and has links
into the lanes. t shows that address, and commands for another terminal: push and
roll back rules, kill a lane, watch them all. q or Ctrl-C ends it.

With --once, or without a terminal, it prints a tour instead: each line is a claim
about lanes that has just been checked with real requests, while customers come and
go. It exits 0 only if all of them held.

It uses free ports of the loopback address and a temporary directory, reads
neither settings nor Consul's variables, and removes everything at its end.`,
		Example: `  lane demo
  lane demo --once
  lane demo --once --json`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), f, o) },
	}
	c.Flags().BoolVar(&o.once, "once", false, "print the tour and end, also on a terminal")
	addFlag(c, &o.rate, "rate", "4", number(1, maxRate), "requests per second, on a terminal")
	utf8Flag(c, &o.utf8)
	jsonFlag(c, &o.json)
	return c
}

func runDemo(ctx context.Context, f *factory, o *demoOptions) error {
	if o.once || o.json || !f.screen() {
		return runTour(ctx, f, o)
	}
	err := demo.Show(ctx, demo.Options{Now: f.now, Program: f.program()}, o.rate, func(ctx context.Context, w *demo.World) error {
		return f.watch(ctx, w.Alice(), tui.Options{Demo: true, UTF8: o.utf8,
			Hint: "shop " + w.Shop() + " in a browser; t: what else to try", Try: toTry(w)})
	})
	interrupted := errors.Is(err, tui.ErrInterrupted) || errors.Is(err, errInterrupted)
	if err != nil && !interrupted {
		return err
	}
	if _, err := fmt.Fprintln(f.io.Err, "removed: the three lanes, the bookshop with its sidecars and its gateway, and the registry"); err != nil {
		return err
	}
	if interrupted {
		return &exitError{code: exitInterrupted}
	}
	return nil
}

// toTry is what to do while the demo runs, as lines of a screen.
func toTry(w *demo.World) []string {
	lines := []string{"In a browser: who serves which part, and links into each lane", "  " + w.Shop(), "",
		"In another terminal: each takes effect at once"}
	for _, t := range w.Try() {
		if t.What != "" {
			lines = append(lines, "  # "+t.What)
		}
		lines = append(lines, "  "+t.Command)
	}
	return lines
}

// program is how the user calls this program in another terminal.
func (f *factory) program() string {
	const name = "lane"
	exe, err := f.executable()
	if err != nil {
		return name
	}
	if found, err := exec.LookPath(name); err == nil && sameFile(found, exe) {
		return name
	}
	if strings.Contains(exe, "go-build") { // of go run, gone with it
		return "go run ."
	}
	if strings.ContainsAny(exe, " '\"\\$") {
		return name
	}
	return exe
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
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
