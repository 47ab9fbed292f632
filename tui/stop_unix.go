//go:build unix

package tui

import (
	"syscall"
	"time"
)

// stopWithin is how long a signal that stops this process may take to arrive.
const stopWithin = 300 * time.Millisecond

// stop stops this process with its whole job, as ctrl+z does where a terminal reads the
// key, and returns when it goes on. It says false if nothing has stopped it: the kernel
// does not stop a job that no shell could continue.
var stop = func() bool {
	begun := time.Now()
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return false
	}
	<-time.After(stopWithin) // it is over as soon as the process goes on
	return time.Since(begun) > 2*stopWithin
}
