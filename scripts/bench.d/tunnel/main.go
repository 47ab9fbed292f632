//go:build linux

// Command tunnel measures lane's tunnel beside ssh -R and bare yamux, over a wire
// that makes each round trip longer; docs/performance.md says how. It is its own
// ends, too: it starts itself as relay and as laptop.
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
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

type options struct {
	reps    int
	rtt     time.Duration
	bytes   int64
	only    string
	page    string
	install bool
}

const (
	runBegins = "<!-- begin: written by scripts/bench tunnel --page -->\n\n"
	runEnds   = "<!-- end -->"
)

func main() {
	if len(os.Args) > 1 {
		if end := ends[os.Args[1]]; end != nil {
			if err := end(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, os.Args[1]+":", err)
				os.Exit(1)
			}
			return
		}
	}
	var o options
	flag.IntVar(&o.reps, "reps", 5, "repetitions of each measurement")
	flag.DurationVar(&o.rtt, "rtt", 40*time.Millisecond, "what the wire adds to each round trip")
	flag.Int64Var(&o.bytes, "mib", 32, "size of a transfer in MiB")
	flag.StringVar(&o.only, "only", "", "these targets, with commas between them")
	flag.StringVar(&o.page, "page", "", "write the tables into this page, too")
	flag.BoolVar(&o.install, "install", false, "install the Debian packages that are missing")
	flag.Parse()
	o.bytes <<= 20
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o *options) error {
	if err := needSSH(ctx, o); err != nil {
		return err
	}
	// A thousand connections need as many files at both ends, ssh's too.
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "lane-bench-tunnel")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	app, err := startApp()
	if err != nil {
		return err
	}
	defer app.close()
	load := loadavg()
	var targets []*target
	defer func() {
		for _, t := range targets {
			t.close()
		}
	}()
	for _, k := range kinds {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), k.name) {
			continue
		}
		dir := filepath.Join(work, k.name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		t, err := k.start(ctx, k.name, o, dir, app.addr)
		if t != nil {
			targets = append(targets, t)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
	}
	res := results{o: o, targets: targets, load: load}
	if err := res.measure(ctx); err != nil {
		return err
	}
	var b bytes.Buffer
	res.print(&b)
	if _, err := os.Stdout.Write(b.Bytes()); err != nil {
		return err
	}
	if o.page == "" {
		return nil
	}
	return replace(o.page, b.Bytes())
}

// replace writes a run into its place in a page.
func replace(page string, run []byte) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(text, []byte(runBegins))
	_, after, ended := bytes.Cut(rest, []byte(runEnds))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for a run", page)
	}
	return os.WriteFile(page, slices.Concat(before, []byte(runBegins), run, []byte("\n"+runEnds), after), 0o644)
}

// needSSH looks for both ends of ssh, or installs them if that was asked for.
func needSSH(ctx context.Context, o *options) error {
	if o.only != "" && !strings.Contains(o.only, "ssh") {
		return nil
	}
	_, server := os.Stat(sshd)
	_, client := exec.LookPath("ssh")
	_, keys := exec.LookPath("ssh-keygen")
	if server == nil && client == nil && keys == nil {
		return nil
	}
	if !o.install {
		return errors.New("these Debian packages are missing: openssh-server openssh-client\n" +
			"       --install installs them; --only lane,yamux measures without ssh")
	}
	for _, args := range [][]string{{"update", "-qq"}, {"install", "-y", "-qq", "--no-install-recommends", "openssh-server", "openssh-client"}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}

func loadavg() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "?"
	}
	return strings.Fields(string(b))[0]
}

func machine() string {
	kernel := "?"
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = strings.TrimSpace(string(b))
	}
	return fmt.Sprintf("%d CPUs, Linux %s, %s", runtime.NumCPU(), kernel, runtime.Version())
}

func revision() string {
	b, err := exec.Command("git", "log", "-1", "--format=%h of %cs").Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(b))
}

// versionOf is the first line that a program prints about itself.
func versionOf(name string, args ...string) string {
	b, _ := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(b), "\n")
	line, _, _ = strings.Cut(line, ",")
	return line
}
