//go:build unix

package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"lane/pkg/control"
	"lane/pkg/iostreams"
)

// The ends of a leash in the session's process, as hold gives them.
const (
	leashFrom = 3
	leashTo   = 4
)

// takeLeash takes the leash that this process is on, if it is on one. Nothing that it
// starts gets any of it: a holder would wait for that too.
func takeLeash() *leash {
	if os.Getenv(leashVar) == "" {
		return nil
	}
	_ = os.Unsetenv(leashVar)
	for _, fd := range []int{leashFrom, leashTo} {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return nil // somebody else's variable
		}
	}
	for _, fd := range []int{leashFrom, leashTo} {
		unix.CloseOnExec(fd)
		_ = unix.SetNonblock(fd, true) // so that close ends a read
	}
	return newLeash(os.NewFile(leashFrom, "leash"), os.NewFile(leashTo, "leash"))
}

// hold runs this command line again, as a session that can leave this terminal, and
// waits for it: its end is ours, unless it is let go. It says false where no such process
// can be started: then the session is this one, and belongs to its terminal.
func (f *factory) hold(ctx context.Context, args []string) (held bool, err error) {
	exe, err := f.executable()
	if err != nil {
		return false, nil
	}
	from, pullIt, err := os.Pipe()
	if err != nil {
		return false, nil
	}
	hear, to, err := os.Pipe()
	if err != nil {
		_, _ = from.Close(), pullIt.Close()
		return false, nil
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(f.environ[:len(f.environ):len(f.environ)], leashVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = f.io.In, iostreams.ForChild(f.io.Out), iostreams.ForChild(f.io.Err)
	cmd.ExtraFiles = []*os.File{from, to}
	restore := f.io.Keep()
	err = cmd.Start()
	_, _ = from.Close(), to.Close() // the session has its own
	if err != nil {
		_, _ = pullIt.Close(), hear.Close()
		return false, nil
	}
	told := make(chan *control.Status, 1) // nil: it has ended, and was not let go
	go func() {
		var st control.Status
		if json.NewDecoder(hear).Decode(&st) != nil {
			told <- nil
			return
		}
		told <- &st
	}()
	c := follow(cmd.Process.Pid)
	defer close(c.quit)
	on, deaf := f.goingOn()
	defer deaf()

	asked, force := ctx.Done(), f.force
	var late <-chan time.Time
	var next *unix.WaitStatus // seen already
	still := false            // the session's process is stopped
	for {
		if ws := next; ws != nil {
			next = nil
			switch {
			case ws.Stopped() && ctx.Err() != nil && !byTerminal(ws.StopSignal()):
				c.pass(unix.SIGCONT) // a stopped process cannot end
			case ws.Stopped():
				still = true
				next = f.stopped(c, ws.StopSignal(), on, restore)
			case ws.Continued():
				still = false
			case ws.Exited(), ws.Signaled():
				if told != nil && ctx.Err() == nil {
					if st := <-told; st != nil {
						return true, f.banner(f.io.Out, st)
					}
				}
				return true, endOfHeld(*ws, restore)
			}
			continue
		}
		select {
		case ws := <-c.states:
			next = &ws
		case err := <-c.failed:
			return true, err
		case <-on:
			c.pass(unix.SIGCONT)
		case st := <-told:
			// One that was asked to end meanwhile does, wherever it runs now.
			if st != nil && ctx.Err() == nil {
				return true, f.banner(f.io.Out, st)
			}
			told = nil
		case <-asked:
			asked = nil
			_, _ = pullIt.Write([]byte{byte(pullFor(context.Cause(ctx)))}) // it may have ended
			if still {
				c.pass(unix.SIGCONT)
			}
		case <-force:
			force = nil
			_, _ = pullIt.Write([]byte{byte(pullInterrupt)})
			limit := time.NewTimer(forcedEnd)
			defer limit.Stop()
			late = limit.C
		case <-late:
			late = nil
			_, _ = fmt.Fprintf(f.io.Err, "lane: the session's process %d has not ended within %s: it is killed\n", c.pid, forcedEnd)
			c.pass(unix.SIGKILL)
		}
	}
}

// goingOn gives the signals by which this process goes on after a stop.
func (f *factory) goingOn() (on <-chan os.Signal, deaf func()) {
	if f.continued == nil {
		return nil, func() {}
	}
	return f.continued()
}

// endOfHeld is the end of a held session as an error: its exit code, or, of one that
// somebody has killed, what has become of it.
func endOfHeld(how unix.WaitStatus, restore func()) error {
	if !how.Signaled() {
		if how.ExitStatus() == 0 {
			return nil
		}
		return &exitError{code: how.ExitStatus()}
	}
	if inForeground() {
		restore()
	}
	return &killedError{how: how.Signal().String(), code: 128 + int(how.Signal())}
}

// canLeave says why this process could not leave its terminal.
func canLeave() error {
	if unix.Getpgrp() == unix.Getpid() {
		return errors.New("this process leads its process group")
	}
	return nil
}

// leaveTerminal takes this process out of its terminal for good: into a session of its
// own, with a log where it printed. What the runtime says of a panic goes there too.
func leaveTerminal(null, log *os.File) error {
	if _, err := unix.Setsid(); err != nil {
		return fmt.Errorf("leave the terminal: %w", err)
	}
	for i, f := range []*os.File{null, log, log} {
		if err := unix.Dup2(int(f.Fd()), i); err != nil {
			return fmt.Errorf("leave the terminal: %w", err)
		}
	}
	return nil
}

// inForeground says that the terminal is this process's: to set another's would stop us.
func inForeground() bool {
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
