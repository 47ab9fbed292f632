package session

import (
	"errors"

	"golang.org/x/sys/windows"
)

// inUse says whether a listener could not be opened because its port is taken:
// syscall's own name for that is none of the system's on Windows.
func inUse(err error) bool {
	return errors.Is(err, windows.WSAEADDRINUSE) || errors.Is(err, windows.WSAEACCES) // the latter for another's exclusive port
}
