package cmd

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lane/pkg/control"
)

// watchRun starts a process that looks at the command that this one is about to become:
// one that calls others, and never through the proxy, is told of. It is nobody's child
// and in a session of its own, so that the command waits for nothing that it has not
// started, and a signal to its group is the command's alone. It ends with the command.
// Where that is not possible, nobody looks.
func (f *factory) watchRun(st *control.Status) {
	exe, err := f.executable()
	if err != nil || os.Getpid() == 1 { // whose child the orphan would be
		return
	}
	dir, err := f.runtimeDir()
	if err != nil {
		return
	}
	me, err := pidfd(os.Getpid())
	if err != nil {
		return
	}
	defer func() { _ = me.Close() }()
	// The shell starts it and ends.
	c := exec.Command("/bin/sh", "-c", `"$@" </dev/null >/dev/null &`, "sh",
		exe, bypassName, strconv.Itoa(os.Getpid()), strings.TrimPrefix(st.Proxy, "http://"), dir, strconv.Itoa(st.PID))
	c.Env = f.environ
	c.Stderr = os.Stderr
	c.ExtraFiles = []*os.File{me}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_ = c.Run()
}

// pidfd is a file that is readable when a process has ended.
func pidfd(pid int) (*os.File, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pidfd"), nil
}

// watchedFD is the file descriptor of the process that is watched, as watchRun gives it.
const watchedFD = 3

// commandEnded waits for the end of the watched process, and reports whether it has come.
func commandEnded(wait time.Duration) bool {
	for end := time.Now().Add(wait); ; {
		left := max(time.Until(end), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: watchedFD, Events: unix.POLLIN}}, int(left.Milliseconds()))
		if err == unix.EINTR {
			continue
		}
		return err != nil || n > 0
	}
}
