//go:build !unix

package cmd

import (
	"context"
	"errors"
	"os"
)

// takeLeash finds none: no process can leave its console here.
func takeLeash() *leash { return nil }

// hold starts nothing: the session is this process, and belongs to its terminal.
func (f *factory) hold(context.Context, []string) (held bool, err error) { return false, nil }

// leaveTerminal cannot be.
func leaveTerminal(_, _ *os.File) error { return errors.ErrUnsupported }

// canLeave cannot be.
func canLeave() error { return errors.ErrUnsupported }
