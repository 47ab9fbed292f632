//go:build !windows

package control

import (
	"errors"
	"syscall"
)

// refused says that nobody listens behind a socket any more.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// reset says that the session ended while it was asked.
func reset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
