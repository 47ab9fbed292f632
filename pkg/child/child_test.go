//go:build unix

package child

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// asGate makes this test binary a gate.
const asGate = "LANE_TEST_AS_GATE"

func TestMain(m *testing.M) {
	if os.Getenv(asGate) != "" {
		if err := Pass(os.Args[1:]); err != nil {
			os.Exit(99)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// gated starts a command behind a gate.
func gated(t *testing.T, out io.Writer, args ...string) (*Child, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Start(Spec{Args: args, Env: []string{asGate + "=1", "PATH=" + os.Getenv("PATH"), "foo.bar=1"}, Out: out, Gate: []string{exe}, Grace: 5 * time.Second})
}

func TestACommandBehindAGate(t *testing.T) {
	var out bytes.Buffer
	c, err := gated(t, &out, "sh", "-c", `echo "$0" "$1"; for fd in 3 4; do [ -e /dev/fd/$fd ] && echo leaked; done; exit 7`, "a b", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Go(); err != nil {
		t.Fatal(err)
	}
	var exit *ExitError
	if err := c.Wait(); !errors.As(err, &exit) || exit.Code != 7 || exit.Name != "sh" {
		t.Errorf("%v", err)
	}
	if got := out.String(); got != "a b \n" {
		t.Errorf("printed %q", got)
	}
}

// Its environment is what it was given, to the letter: no shell is in between.
func TestAGateChangesNoEnvironment(t *testing.T) {
	var out bytes.Buffer
	c, err := gated(t, &out, "env")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Go(), c.Wait()); err != nil {
		t.Fatal(err)
	}
	if want := asGate + "=1\nPATH=" + os.Getenv("PATH") + "\nfoo.bar=1\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// Whoever dies before he has said a word has started nothing.
func TestAGateThatNobodyOpens(t *testing.T) {
	var out bytes.Buffer
	c, err := gated(t, &out, "echo", "begun")
	if err != nil {
		t.Fatal(err)
	}
	c.gate.close() // as a death does
	if err := c.Wait(); err != nil || out.Len() != 0 {
		t.Errorf("%v, printed %q", err, out.String())
	}
	if c, err = gated(t, &out, "echo", "begun"); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err == nil || out.Len() != 0 {
		t.Errorf("stopped at its gate: %v, printed %q", err, out.String())
	}
	c.gate.close()
}

func TestWhatCannotBeginBehindAGate(t *testing.T) {
	var start *StartError
	if _, err := gated(t, nil, "no-such-command-anywhere"); !errors.As(err, &start) || start.Name != "no-such-command-anywhere" {
		t.Errorf("Start = %v", err)
	}
	path := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(path, []byte("\x7fELF, or not"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := gated(t, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Go(); !errors.As(err, &start) || !strings.Contains(err.Error(), "format") {
		t.Errorf("Go = %v", err)
	}
	_ = c.Wait() // it has ended
}

func TestExitCodeIsTheCommandsOwn(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -TERM $$": 128 + int(syscall.SIGTERM)} {
		c, err := Start(Spec{Args: []string{"sh", "-c", script}})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Wait()
		var exit *ExitError
		if want == 0 && err != nil || want != 0 && (!errors.As(err, &exit) || exit.Code != want) {
			t.Errorf("%q: %v, want exit code %d", script, err, want)
		}
	}
}

func TestMissingCommand(t *testing.T) {
	_, err := Start(Spec{Args: []string{"no-such-command-anywhere"}})
	var start *StartError
	if !errors.As(err, &start) || start.Name != "no-such-command-anywhere" {
		t.Errorf("Start = %v", err)
	}
}

func TestEnvironmentIsPassed(t *testing.T) {
	var out bytes.Buffer
	c, err := Start(Spec{Args: []string{"sh", "-c", "echo $LANE_TAG"}, Env: []string{"LANE_TAG=dev-alice", "PATH=" + os.Getenv("PATH")}, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil || out.String() != "dev-alice\n" {
		t.Errorf("printed %q, %v", out.String(), err)
	}
}

// startTree starts a shell with a grandchild and returns the grandchild's pid.
func startTree(t *testing.T, script string, grace time.Duration) (*Child, int) {
	t.Helper()
	r, w := io.Pipe()
	c, err := Start(Spec{Args: []string{"sh", "-c", script}, Out: w, Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 32)
	n, err := r.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	t.Cleanup(func() { _ = w.Close() })
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatal(err)
	}
	return c, pid
}

func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(deadline) {
		// A zombie that nobody reaps still answers: its state tells.
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		<-tick.C
	}
	t.Errorf("process %d is still there", pid)
}

func TestStopEndsTheWholeGroup(t *testing.T) {
	c, grandchild := startTree(t, "sleep 1000 & echo $!; wait", time.Hour)
	err := c.Stop(t.Context())
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 128+int(syscall.SIGTERM) {
		t.Errorf("Stop = %v", err)
	}
	gone(t, grandchild)
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	c, grandchild := startTree(t, "trap '' TERM; (trap '' TERM; exec sleep 1000) & echo $!; wait; sleep 1000", time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no more patience
	err := c.Stop(ctx)
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 128+int(syscall.SIGKILL) {
		t.Errorf("Stop = %v", err)
	}
	gone(t, grandchild)
}

func TestStopOfACommandThatHasEnded(t *testing.T) {
	c, err := Start(Spec{Args: []string{"sh", "-c", "exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	var exit *ExitError
	if err := c.Stop(t.Context()); !errors.As(err, &exit) || exit.Code != 3 {
		t.Errorf("Stop = %v, want the exit code 3", err)
	}
}
