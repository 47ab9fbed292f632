//go:build !unix

package cmd

import (
	"context"
	"os"
	"time"

	"lane/pkg/child"
)

// become runs a command in place of this process, as far as the system can: it
// passes its end on as our own.
func (f *factory) become(ctx context.Context, path string, args, env []string) error {
	c, err := child.Start(child.Spec{Args: append([]string{path}, args[1:]...), Env: env,
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Grace: 5 * time.Second})
	if err != nil {
		return err
	}
	select {
	case <-c.Done():
		return c.Wait()
	case <-ctx.Done():
		return c.Stop(context.WithoutCancel(ctx))
	}
}
