//go:build !windows

package session

import (
	"errors"
	"syscall"
)

// inUse says whether a listener could not be opened because its port is taken.
func inUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
