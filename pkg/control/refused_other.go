//go:build !windows

package control

import (
	"errors"
	"syscall"
)

// refused says that nobody listens behind a socket any more.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
