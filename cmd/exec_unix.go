//go:build unix

package cmd

import (
	"context"
	"syscall"

	"lane/pkg/child"
)

// become replaces this process by a command: its signals, its terminal and its
// exit code are then nobody's in between.
func (f *factory) become(_ context.Context, path string, args, env []string) error {
	if err := syscall.Exec(path, args, env); err != nil {
		return &child.StartError{Name: args[0], Err: err}
	}
	return nil
}
