package child

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

type terminal struct{}

func group(cmd *exec.Cmd) *terminal {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
	return nil
}

func (t *terminal) giveBack() {}

func (t *terminal) follow(int) <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

func signalGroup(cmd *exec.Cmd, _ os.Signal) error { return killGroup(cmd) }

func endGroup(cmd *exec.Cmd) error { return killGroup(cmd) }

// killGroup ends the command and what it started: Windows has no group to
// signal, but knows the tree.
func killGroup(cmd *exec.Cmd) error {
	if cmd.ProcessState != nil {
		return nil
	}
	return exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(cmd.Process.Pid)).Run()
}

func exitCode(s *os.ProcessState) int { return s.ExitCode() }
