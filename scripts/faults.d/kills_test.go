//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
)

var killCount = numberFlag("kills", 10, 200, "how many sessions are killed; 0 is the form's own number")

// kill is one that was drawn.
type kill struct {
	n     int
	phase string // start, run or stop
	sig   syscall.Signal
	group bool          // the process's group, as a closed terminal does
	after time.Duration // in its phase
}

func (k kill) String() string {
	whom := ""
	if k.group {
		whom = " to its group"
	}
	return fmt.Sprintf("kill %d: %s%s, %s into its %s", k.n, k.sig, whom, k.after.Round(time.Millisecond), k.phase)
}

// draw draws a kill. span is how long a start takes here, as measured.
func draw(r *rand.Rand, n int, span time.Duration) kill {
	k := kill{n: n, phase: []string{"start", "run", "stop"}[r.IntN(3)],
		sig: []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGKILL}[r.IntN(4)], group: r.IntN(2) == 0}
	k.after = time.Duration(r.Float64() * 1.1 * float64(span))
	if k.phase == "run" {
		k.after = time.Duration(r.Float64() * float64(500*time.Millisecond))
	}
	return k
}

// Wherever a session is killed, and by what: the registry is as it was, and no
// process is left.
func TestKills(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shape{})
	w.openGateway()
	w.remember()
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 1))
	var jobs []kill
	span := w.startSpan()
	for n := range killCount() {
		jobs = append(jobs, draw(r, n+1, span))
	}
	var mu sync.Mutex
	var worst time.Duration
	w.share(len(jobs), 4, func(w *world, worker, n int) {
		name := fmt.Sprintf("dev-k%d", worker)
		took := w.killed(jobs[n], name, w.desk(name))
		mu.Lock()
		defer mu.Unlock()
		worst = max(worst, took)
	})
	if t.Failed() {
		return
	}
	w.asBefore(limit, "after all kills")
	report.line(2, fmt.Sprintf("**%d sessions killed** at random (seed %d; TERM, INT, HUP and KILL, to the process or to its group, in start, run and stop): "+
		"nothing was left in catalog, KV store and sessions, and no process. The longest took %.1f s to be gone.", len(jobs), *seed, worst.Seconds()))
}

// startSpan is how long a session takes to come up here.
func (w *world) startSpan() time.Duration {
	began := time.Now()
	w.up()
	span := time.Since(began)
	w.session.signal(syscall.SIGINT)
	w.session.wait()
	return span
}

// killed runs one session with a command, kills it, and returns how long it took
// until nothing of it was left.
func (w *world) killed(k kill, name string, vars map[string]string) time.Duration {
	mark := fmt.Sprintf("%d-%s-%d", os.Getpid(), name, k.n)
	p := startMarked(w.t, mark, vars, "up", name, "-s", "orders="+w.local.port(), "--", "/bin/sh", "-c", "sleep 1000 & wait")
	if k.phase != "start" {
		for !isUp(vars, p.pid()) {
			if p.ended() {
				w.t.Fatalf("%s: it has ended by itself\n%s", k, p.err.String())
			}
			pause(w.t, 10*time.Millisecond)
		}
	}
	if k.phase == "stop" {
		p.signal(syscall.SIGINT)
	}
	pause(w.t, k.after)
	at := time.Now()
	pid := p.pid()
	if k.group {
		pid = -pid
	}
	_ = syscall.Kill(pid, k.sig) // it may have ended by now
	select {
	case <-p.done:
	case <-time.After(limit):
		w.t.Fatalf("%s: it does not end\n%s", k, p.err.String())
	}
	var left []string
	for end := at.Add(limit); ; pause(w.t, 20*time.Millisecond) {
		var err error
		if left, err = w.leftOf(name, mark); err == nil && len(left) == 0 {
			return time.Since(at)
		}
		if time.Now().After(end) {
			w.t.Fatalf("%s left (%v):\n%s\nit said:\n%s", k, err, strings.Join(left, "\n"), p.err.String())
		}
	}
}

// leftOf is what there is of a lane in the registry, and of a run's processes.
func (w *world) leftOf(lane, mark string) ([]string, error) {
	p, err := w.picture(w.agent)
	if err != nil {
		return nil, err
	}
	left := processes(mark)
	for line := range strings.Lines(p) {
		if strings.Contains(line, lane) {
			left = append(left, strings.TrimSpace(line))
		}
	}
	return left, nil
}

// processes are those with a mark in their environment, which children inherit.
func processes(mark string) (found []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !slices.Contains(strings.Split(string(env), "\x00"), asProgram+"="+mark) {
			continue
		}
		cmd, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "cmdline"))
		found = append(found, "process "+filepath.Base(filepath.Dir(f))+" "+strings.ReplaceAll(string(cmd), "\x00", " "))
	}
	return found
}

func isUp(vars map[string]string, pid int) bool {
	st, err := askOf(vars, pid)
	return err == nil && st.State == control.SessionUp
}
