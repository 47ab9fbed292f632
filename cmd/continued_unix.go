//go:build unix

package cmd

import (
	"os"
	"os/signal"
	"syscall"
)

// continued tells when this process goes on after it was stopped, until stop is called.
func continued() (on <-chan os.Signal, stop func()) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGCONT)
	return got, func() { signal.Stop(got) }
}
