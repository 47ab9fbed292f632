//go:build unix

package cmd

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A shell sees the holder alone. So what becomes of the session's process becomes of it:
// when that is stopped by job control, it stops itself; when it goes on, so does that.

// following is a process that is waited for.
type following struct {
	pid    int
	states chan unix.WaitStatus // each stop, each going on, and its end
	failed chan error
	quit   chan struct{} // nobody listens any more
}

func follow(pid int) *following {
	c := &following{pid: pid, states: make(chan unix.WaitStatus), failed: make(chan error, 1), quit: make(chan struct{})}
	go c.wait()
	return c
}

// wait ends with the process; os/exec's own would not tell of a stop.
func (c *following) wait() {
	for {
		var ws unix.WaitStatus
		_, err := unix.Wait4(c.pid, &ws, unix.WUNTRACED|unix.WCONTINUED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			c.failed <- fmt.Errorf("wait for the session's process: %w", err)
			return
		}
		select {
		case c.states <- ws:
		case <-c.quit:
		}
		if ws.Exited() || ws.Signaled() {
			return
		}
	}
}

// pass hands a signal on; a process that has ended needs none.
func (c *following) pass(sig syscall.Signal) { _ = unix.Kill(c.pid, sig) }

// byTerminal says that a process was stopped because the terminal is another job's: it
// would be again.
func byTerminal(sig syscall.Signal) bool { return sig == unix.SIGTTIN || sig == unix.SIGTTOU }

// staleStop is for how long a stop may turn out to be over: `fg` has two processes go on,
// one after the other, and the first of them can still see the second one stopped.
const staleStop = 200 * time.Millisecond

// stopped is what a holder does when its session's process was stopped by sig, as far as
// it lasts. on are the signals by which the holder itself goes on.
func (f *factory) stopped(c *following, sig syscall.Signal, on <-chan os.Signal, giveBack func()) (then *unix.WaitStatus) {
	over := time.NewTimer(staleStop)
	defer over.Stop()
	select {
	case ws := <-c.states:
		return &ws
	case <-on:
		c.pass(unix.SIGCONT)
		return nil
	case <-over.C:
	}
	switch {
	case byTerminal(sig), sig == unix.SIGTSTP:
		_ = unix.Kill(os.Getpid(), sig) // a shell takes the terminal back; it goes on by SIGCONT
	default: // nobody at this terminal has done that
		if inForeground() {
			giveBack()
		}
		_, _ = fmt.Fprintf(f.io.Err, "\nlane: the session's process %d was stopped, and answers nobody; it goes on with:  kill -CONT %d\n      Ctrl-C ends it\n", c.pid, c.pid)
	}
	return nil
}

// forcedEnd is how long a session may take to end that was told not to wait.
const forcedEnd = 20 * time.Second
