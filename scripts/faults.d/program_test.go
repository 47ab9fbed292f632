//go:build unix

package faults

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lane/pkg/control"
)

// output is what a program has said so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// program is a running lane.
type program struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd
	out  output // results
	err  output // all else
	done chan struct{}
}

// environ is lane's environment: what it needs, and nothing of the tester's own.
// The mark is in the environment of all that it starts.
func environ(mark string, vars map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), asProgram + "=" + mark, "NO_PROXY=", "HTTP_PROXY=", "GORACE=atexit_sleep_ms=10"} // the detector would wait for a second
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	return env
}

// start starts lane in a process group of its own; it ends with the test.
func start(t *testing.T, vars map[string]string, args ...string) *program {
	t.Helper()
	return startMarked(t, "1", vars, args...)
}

func startMarked(t *testing.T, mark string, vars map[string]string, args ...string) *program {
	t.Helper()
	exe := *binary
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	p := &program{t: t, args: args, cmd: exec.Command(exe, args...), done: make(chan struct{})}
	p.cmd.Dir = vars["HOME"]
	p.cmd.Env = environ(mark, vars)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = time.Second // a guardian may keep the pipe
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its state
		close(p.done)
	}()
	t.Cleanup(func() {
		if !p.ended() {
			_ = syscall.Kill(-p.pid(), syscall.SIGKILL)
			<-p.done
		}
		if t.Failed() {
			t.Logf("lane %s: %v\n%s", strings.Join(args, " "), p.cmd.ProcessState, p.err.String())
		}
		if strings.Contains(p.err.String(), "DATA RACE") {
			t.Errorf("lane %s:\n%s", strings.Join(args, " "), p.err.String())
		}
	})
	return p
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends a signal to the process alone.
func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// wait waits for its end and returns its exit code, -1 for one that was killed.
func (p *program) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(limit):
		p.t.Fatalf("lane %s does not end:\n%s", strings.Join(p.args, " "), p.err.String())
	}
	return p.cmd.ProcessState.ExitCode()
}

// askOf asks a session for its status.
func askOf(vars map[string]string, pid int) (control.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return control.Dial(vars["LANE_RUNTIME_DIR"], pid).Status(ctx)
}

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// run runs lane to its end.
func run(t *testing.T, vars map[string]string, args ...string) (code int, out, errOut string) {
	t.Helper()
	p := start(t, vars, args...)
	code = p.wait()
	return code, p.out.String(), p.err.String()
}
