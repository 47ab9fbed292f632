package cmd

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"lane/pkg/iostreams"
	"lane/pkg/printer"
)

// factory is what the commands need of the world around them.
type factory struct {
	io      *iostreams.IOStreams
	getenv  func(string) string
	environ []string
	dir     string // where lane.yaml is looked for, upward
	now     func() time.Time
	force   <-chan struct{} // closed by the second signal
	// hangups, if set, gives the signals that a supervisor sends when it has moved a
	// log away. Before it is called they end the process.
	hangups func() <-chan struct{}
	// continued, if set, gives the signals by which this process goes on after a stop.
	continued  func() (on <-chan os.Signal, stop func())
	held       *leash // nil: nobody waits for this process at a terminal
	executable func() (string, error)
	build      func() (*debug.BuildInfo, bool)
}

// run runs the command line args and returns the exit code.
func (f *factory) run(ctx context.Context, args []string) int {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	root := newRootCmd(f, name)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return f.report(ctx, err)
}

func (f *factory) printJSON(v any) error { return printer.JSON(f.io, v) }
