package control

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refused says that nobody listens behind a socket any more: syscall's own names
// for that and for reset are none of the system's on Windows.
func refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// reset says that the session ended while it was asked.
func reset(err error) bool {
	return errors.Is(err, windows.WSAECONNRESET) || errors.Is(err, windows.WSAECONNABORTED)
}
