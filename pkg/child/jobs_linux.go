package child

import (
	"errors"

	"golang.org/x/sys/unix"
)

// follow mirrors job control: when the command is stopped (Ctrl-Z), we take the
// terminal back and stop too, so that the user's shell gets its prompt; when we
// are continued, so is the command. The channel is closed when the command has
// ended; it is not reaped here.
func (t *terminal) follow(pid int) <-chan struct{} {
	done := make(chan struct{})
	if t == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		for {
			var info unix.Siginfo
			err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || info.Code != cldStopped {
				return
			}
			t.foreground(t.self)
			_ = unix.Kill(0, unix.SIGSTOP) // returns when somebody continues us
			t.foreground(pid)
			_ = unix.Kill(-pid, unix.SIGCONT)
			// Take the stop off the queue, or it would be seen for ever.
			_ = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil)
		}
	}()
	return done
}

const cldStopped = 5 // CLD_STOPPED, see waitid(2)
