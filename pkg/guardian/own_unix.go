//go:build unix

package guardian

import (
	"os/exec"
	"syscall"
	"time"
)

func own(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// endGroup ends a process group: politely, and a second later by force.
func endGroup(pgrp int) {
	if pgrp <= 1 {
		return // 0 and 1 would mean us and everybody
	}
	if err := syscall.Kill(-pgrp, syscall.SIGTERM); err != nil {
		return // it is gone
	}
	timer := time.AfterFunc(time.Second, func() { _ = syscall.Kill(-pgrp, syscall.SIGKILL) })
	defer timer.Stop()
	for range 20 {
		if syscall.Kill(-pgrp, 0) != nil {
			return
		}
		<-time.After(60 * time.Millisecond)
	}
}
