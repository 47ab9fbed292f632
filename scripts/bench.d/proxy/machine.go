//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// tools are the programs that a run needs, and where Debian has them.
var tools = []struct{ target, program, pkg string }{
	{"", "wrk", "wrk"},
	{"", "curl", "curl"},
	{"", "taskset", "util-linux"},
	{"nginx", "nginx", "nginx-light"},
	{"nginx-nolog", "nginx", "nginx-light"},
	{"haproxy", "haproxy", "haproxy"},
	{"squid", "squid", "squid"},
	{"tinyproxy", "tinyproxy", "tinyproxy"},
	{"mitmdump", "mitmdump", "mitmproxy"},
}

// needTools says what is missing, or installs it if that was asked for.
func needTools(ctx context.Context, o *options) error {
	var missing []string
	for _, t := range tools {
		needed := t.target == "" || o.wants(t.target) && slices.ContainsFunc(peersOf(o.kind), func(p peer) bool { return p.name == t.target })
		if _, err := exec.LookPath(t.program); err != nil && needed && !slices.Contains(missing, t.pkg) {
			missing = append(missing, t.pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if !o.install {
		return fmt.Errorf("these Debian packages are missing: %s\n"+
			"       --install installs them; --only measures without the other proxies", strings.Join(missing, " "))
	}
	for _, args := range [][]string{{"update", "-qq"}, append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", args[0], err)
		}
	}
	return nil
}

func needCPUs() error {
	if runtime.NumCPU() < 2 {
		return errors.New("it needs CPU 0 for the load and CPU 1 for the proxy")
	}
	return nil
}

// facts are what a reader must know of the machine: no name and no path of it.
func facts(ctx context.Context, o *options, targets []*target) []string {
	out := []string{
		fmt.Sprintf("%s, %d CPUs, Linux %s, %s", cpuModel(), runtime.NumCPU(), firstLine(os.ReadFile("/proc/sys/kernel/osrelease")), runtime.Version()),
		"wrk " + version(ctx, "wrk", "-v"),
	}
	if rev, err := exec.CommandContext(ctx, "git", "log", "-1", "--format=%h of %cs").Output(); err == nil && len(o.lanes) == 0 {
		out = append(out, "lane at "+firstLine(rev, nil))
	}
	if o.first {
		out = append(out, "On a machine that others used too; what is measured went before them")
	}
	for _, t := range targets {
		if len(t.versionArgs) > 0 {
			out[1] += ", " + t.name + " " + version(ctx, t.versionArgs...)
		}
	}
	return out
}

func cpuModel() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(data)) {
			if name, model, ok := strings.Cut(line, ":"); ok && strings.HasPrefix(name, "model name") {
				return strings.TrimSpace(model)
			}
		}
	}
	return "unknown CPU"
}

func firstLine(b []byte, err error) string {
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

var versionIs = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

func version(ctx context.Context, args ...string) string {
	// wrk ends with 1 after its version: what was printed counts.
	out, _ := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if v := versionIs.Find(out); v != nil {
		return string(v)
	}
	return "(version unknown)"
}

// tick is the unit of CPU time in /proc: USER_HZ is 100 on all of Linux that Go
// runs on.
const tick = 10 * time.Millisecond

// busy is the CPU time that the machine has spent so far, on anybody. Interrupts
// are counted: most kernels charge those of the load to its processes.
func busy() (time.Duration, error) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(firstLine(data, nil)) // cpu user nice system idle iowait irq softirq steal
	var sum time.Duration
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// cpuTime is what one process has spent so far.
func cpuTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(data)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]) // a name may hold blanks
	var sum time.Duration
	for _, i := range []int{11, 12} { // utime, stime
		n, err := strconv.ParseInt(f[i], 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// quiet waits until the rest of the machine uses less than a small share of one
// CPU, as long as there is patience.
func (s *stage) quiet() error {
	const look, most = 250 * time.Millisecond, 0.15
	start := time.Now()
	defer func() { s.patience -= time.Since(start) - look }()
	for {
		from, err := busy()
		if err != nil {
			return err
		}
		if err := settle(s.ctx, look); err != nil {
			return err
		}
		to, err := busy()
		if err != nil {
			return err
		}
		// One measurement may not use all of it up.
		if waited := time.Since(start); float64(to-from)/float64(look) < most || waited > s.patience || waited > s.patience/10 {
			return nil
		}
	}
}
