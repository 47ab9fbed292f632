package guardian

import (
	"os/exec"
	"strconv"
	"syscall"
)

const detachedProcess = 0x00000008 // DETACHED_PROCESS, see CreateProcess

func own(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: detachedProcess | syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup ends a command and what it started.
func endGroup(pid int) {
	if pid > 0 {
		_ = exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(pid)).Run() // it may be gone
	}
}
