//go:build unix

package cmd

import (
	"os/exec"
	"syscall"
)

// ownSession takes a command out of our terminal, so that it survives it.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
