//go:build linux

// Command proxy measures requests through lane and through other proxies, beside
// each other in one run, and prints a table for docs/performance.md. It is what
// `scripts/bench proxy` runs, and as `proxy gateway` what `scripts/bench gateway`
// does; docs/performance.md says how it measures.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// kind is what a run compares.
type kind string

const (
	kindProxy   kind = "proxy"   // a session's fronts, and other proxies
	kindGateway kind = "gateway" // gateway and sidecar, and nginx with the same match
)

// options are the command line.
type options struct {
	kind     kind
	origin   string
	rate     string
	install  bool
	lanes    []build
	against  string
	only     []string
	reps     int
	modes    []mode
	seconds  time.Duration
	steady   time.Duration
	warm     time.Duration
	patience time.Duration
	others   int
	first    bool
	page     string
}

func parse(args []string) (*options, error) {
	o := options{kind: kindProxy}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		o.kind, args = kind(args[0]), args[1:]
	}
	defaults, parts := "c1,c16,c64,big,one", "cN, with N connections; big, 10 MiB; one, everything on one CPU"
	if o.kind == kindGateway {
		defaults, parts = "c16,c64,r1000", parts+"; rN, N requests a second"
	}
	fs := flag.NewFlagSet("scripts/bench "+string(o.kind), flag.ContinueOnError)
	fs.StringVar(&o.origin, "origin", "", "the built origin; scripts/bench gives it")
	fs.StringVar(&o.rate, "rate", "", "the built client of a fixed rate; scripts/bench gives it")
	fs.BoolVar(&o.install, "install", false, "install the Debian packages that are missing")
	fs.Func("lane", "measure this build too, `[NAME=]PATH[,VARIABLE=VALUE...]`, under NAME and with these variables; may be repeated;\n"+
		"default: LANE_BENCH_BINARY, else what is built from here", func(s string) error {
		b, err := parseBuild(s)
		o.lanes = append(o.lanes, b)
		return err
	})
	fs.StringVar(&o.against, "against", "", "also build this git `REVISION` and measure it as lane-old")
	only := fs.String("only", "", "measure only these `NAMES`, separated by commas, beside direct")
	modes := fs.String("modes", defaults, "what is measured: "+parts)
	fs.IntVar(&o.reps, "reps", 3, "repetitions; the medians are shown")
	fs.DurationVar(&o.seconds, "time", 2*time.Second, "length of one measurement, whole seconds")
	fs.DurationVar(&o.steady, "steady", 5*time.Second, "length of one measurement at a fixed rate, whole seconds")
	fs.DurationVar(&o.warm, "warm", time.Second, "warm-up before each, whole seconds")
	fs.DurationVar(&o.patience, "patience", 10*time.Minute, "longest wait for a quiet machine, of the whole run; repetitions of what was disturbed are in it")
	fs.BoolVar(&o.first, "first", false, "for root, on a machine that others use: what is measured goes before what they run")
	fs.IntVar(&o.others, "others", 999, "instances of the service beside the one that serves")
	fs.StringVar(&o.page, "page", "", "write the result into this `FILE` too, in place of the last one")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if named := os.Getenv("LANE_BENCH_BINARY"); named != "" && len(o.lanes) == 0 {
		b, err := parseBuild(named)
		if err != nil {
			return nil, err
		}
		o.lanes = append(o.lanes, b)
	}
	for name := range strings.SplitSeq(*modes, ",") {
		m, err := parseMode(name)
		if err != nil {
			return nil, err
		}
		if m.rate > 0 && (o.rate == "" || o.kind != kindGateway) {
			return nil, fmt.Errorf("--modes: %q is for scripts/bench gateway", name)
		}
		o.modes = append(o.modes, m)
	}
	if *only != "" {
		o.only = append(strings.Split(*only, ","), direct)
	}
	if o.reps < 1 || o.seconds < time.Second || o.steady < time.Second || o.warm < time.Second || o.origin == "" || fs.NArg() > 0 || o.kind != kindProxy && o.kind != kindGateway {
		return nil, errors.New("wrong arguments; -h lists the flags")
	}
	return &o, nil
}

// wants reports whether a target is to be measured.
func (o *options) wants(name string) bool { return len(o.only) == 0 || slices.Contains(o.only, name) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o)
	}
	stop()
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if err := needTools(ctx, o); err != nil {
		return err
	}
	if err := needCPUs(); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil { // squid leaves root behind
		return err
	}
	lanes, err := builds(ctx, o, work)
	if err != nil {
		return err
	}
	s := &stage{ctx: ctx, work: work, first: o.first, patience: o.patience}
	defer s.stop()
	if err := s.start(o, lanes); err != nil {
		return err
	}
	for _, t := range s.targets {
		if err := s.check(t); err != nil {
			return err
		}
	}
	if err := settle(ctx, 2*time.Second); err != nil {
		return err
	}
	for _, t := range s.targets {
		t.idle = t.memory("VmRSS")
	}
	r := newResults(o, s.targets)
	if err := s.measureAll(o, r); err != nil {
		return err
	}
	for _, t := range s.targets {
		t.after, t.peak = t.memory("VmRSS"), t.memory("VmHWM")
	}
	if err := s.recorded(); err != nil {
		return err
	}
	known := facts(ctx, o, s.targets)
	for _, w := range s.entries {
		lost, err := w.lost(s)
		if err != nil {
			return err
		}
		known = append(known, lost)
	}
	var out bytes.Buffer
	r.print(&out, known)
	if _, err := os.Stdout.Write(out.Bytes()); err != nil || o.page == "" {
		return err
	}
	return replace(o.page, o.kind, out.Bytes())
}

// Between these a page has the result of a run, of each kind.
func (k kind) begins() string {
	return "<!-- begin: written by scripts/bench " + string(k) + " --page -->\n\n"
}

const runEnds = "<!-- end -->\n"

func replace(page string, of kind, run []byte) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(of.begins()))
	_, after, ended := bytes.Cut(rest, []byte(runEnds))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for a run", page)
	}
	return os.WriteFile(page, slices.Concat(before, []byte(of.begins()), run, []byte("\n"+runEnds), after), 0o644)
}

// build is a lane binary to measure.
type build struct {
	name, path string
	env        []string
}

func parseBuild(s string) (build, error) {
	fields := strings.Split(s, ",")
	b := build{name: "lane", path: fields[0], env: fields[1:]}
	if name, path, ok := strings.Cut(fields[0], "="); ok {
		b.name, b.path = name, path
	}
	if _, err := exec.LookPath(b.path); err != nil {
		return b, err
	}
	return b, nil
}

// builds are the binaries to measure, the work tree's or those that were named.
func builds(ctx context.Context, o *options, work string) ([]build, error) {
	lanes := o.lanes
	if len(lanes) == 0 {
		b := build{name: "lane", path: work + "/lane"}
		if err := compile(ctx, ".", b.path); err != nil {
			return nil, err
		}
		lanes = append(lanes, b)
	}
	if o.against == "" {
		return lanes, nil
	}
	src := work + "/old"
	tree := exec.CommandContext(ctx, "sh", "-c", `mkdir "$2" && git archive "$1" | tar -x -C "$2"`, "sh", o.against, src)
	tree.Stderr = os.Stderr
	if err := tree.Run(); err != nil {
		return nil, fmt.Errorf("git archive %s: %w", o.against, err)
	}
	old := build{name: "lane-old", path: work + "/lane-old"}
	if err := compile(ctx, src, old.path); err != nil {
		return nil, err
	}
	return append(lanes, old), nil
}

// compile makes the release build.
func compile(ctx context.Context, dir, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, ".")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd.Run()
}

// settle waits.
func settle(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
