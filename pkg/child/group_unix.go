//go:build unix

package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the terminal that a command was given, nil without one.
type terminal struct {
	fd   int
	self int // our own process group, which had the terminal before
}

// group puts the command into a group of its own and, if its input is our
// controlling terminal and we hold it, into the terminal's foreground.
func group(cmd *exec.Cmd) *terminal {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, ok := cmd.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	fd, self := int(in.Fd()), unix.Getpgrp()
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != self {
		return nil // in the background, or another session's terminal
	}
	// A process that is not in the foreground is stopped by SIGTTOU when it
	// takes the terminal back: that is what giveBack does.
	signal.Ignore(syscall.SIGTTOU)
	cmd.SysProcAttr.Foreground = true
	cmd.SysProcAttr.Ctty = fd
	return &terminal{fd: fd, self: self}
}

// giveBack puts our own group into the foreground again.
func (t *terminal) giveBack() {
	if t != nil {
		t.foreground(t.self)
	}
}

func (t *terminal) foreground(pgrp int) {
	// The terminal may have been closed meanwhile: then nobody needs it back.
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp)
}

func signalGroup(cmd *exec.Cmd, sig os.Signal) error {
	s, ok := sig.(syscall.Signal)
	if !ok {
		return errors.ErrUnsupported
	}
	err := syscall.Kill(-cmd.Process.Pid, s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

func endGroup(cmd *exec.Cmd) error { return unlessGone(signalGroup(cmd, syscall.SIGTERM)) }

func killGroup(cmd *exec.Cmd) error { return unlessGone(signalGroup(cmd, syscall.SIGKILL)) }

// unlessGone is err, unless it says that the group has ended: EPERM is what
// macOS answers for a group of zombies.
func unlessGone(err error) error {
	if errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.EPERM) {
		return nil
	}
	return err
}

func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
