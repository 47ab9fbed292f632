//go:build !unix

package cmd

import "os"

// continued: no process is stopped here.
func continued() (on <-chan os.Signal, stop func()) { return nil, func() {} }
