package control

import (
	"errors"

	"golang.org/x/sys/windows"
)

// refused says that nobody listens behind a socket any more: syscall's own name
// for that is none of the system's on Windows.
func refused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }
