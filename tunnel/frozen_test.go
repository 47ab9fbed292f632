//go:build unix

package tunnel

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// child starts the test's program as something else. end ends it by its input.
func child(t testing.TB, env string) *exec.Cmd {
	t.Helper()
	c := exec.Command(program(t))
	c.Env = append(os.Environ(), env)
	c.Stderr = t.Output()
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGCONT)
		_ = in.Close()
		done := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
		defer done.Stop()
		_ = c.Wait()
	})
	return c
}

// A laptop that sleeps is a process that stands still: the relay gives it up, and
// when it runs again it is back, and claims without a conflict what it had.
func TestAFrozenLaptop(t *testing.T) {
	t.Parallel()
	tm := defaults
	tm.grace = 2 * patience
	r := startRelay(t, tm, nil)
	c := child(t, asAgent+"="+r.addr+" "+r.pin)
	r.auth.want(t, "up dev-alice orders", 1)
	r.echoes(t)
	s := r.dial(t, "orders")
	_, _ = io.WriteString(s, "ping")
	_, _ = io.ReadFull(s, make([]byte, 4))
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
		t.Errorf("%v", err)
	}
	if d := time.Since(began); d > 30*time.Second {
		t.Errorf("found out after %v", d)
	}
	r.auth.want(t, "lost orders", 1)
	if err := c.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	r.auth.want(t, "up dev-alice orders", 2)
	t.Logf("back after %v", time.Since(began))
	r.echoes(t)
	if n := r.auth.count("gone"); n != 0 {
		t.Errorf("%v", r.auth.calls)
	}
}
