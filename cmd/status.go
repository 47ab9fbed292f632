package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"lane/pkg/control"
	"lane/pkg/printer"
	"lane/pkg/traffic"
	"lane/tui"

	"github.com/spf13/cobra"
)

type statusOptions struct {
	lane  string
	plain bool
	json  bool
	utf8  bool
}

func newStatusCmd(f *factory) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:   "status [LANE]",
		Short: "Show a running session: what was routed where, and every fallback with its reason",
		Long: `Attach the terminal UI to a running session; q leaves the session running. Off a
terminal, or with --plain, print the session's state and its counts; with
--json the same as JSON. Without a session it exits 3, and says how the last
detached one ended, if nobody had asked it to.`,
		Args:              takes("[LANE]"),
		ValidArgsFunction: f.completeLanes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.lane = args[0]
			}
			return runStatus(c.Context(), f, o)
		},
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane, if several sessions run")
	c.Flags().BoolVar(&o.plain, "plain", false, "print text, no terminal UI")
	utf8Flag(c, &o.utf8)
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	return c
}

func runStatus(ctx context.Context, f *factory, o *statusOptions) error {
	s, err := f.session(ctx, o.lane)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		return f.printJSON(s.Status)
	case o.plain || !f.screen():
		return printer.Status(f.io, &s.Status)
	}
	return f.watch(ctx, remote{s.Client}, tui.Options{Attached: true, UTF8: o.utf8})
}

// utf8Flag is a verb's wish for characters beyond ASCII. Terminals do not agree on how
// wide all of them are, so that it has to be asked for.
func utf8Flag(c *cobra.Command, to *bool) {
	c.Flags().BoolVar(to, "utf8", false, "show characters beyond ASCII in the terminal UI, not their escapes")
}

// screen says whether the terminal can show the terminal UI.
func (f *factory) screen() bool { return f.io.IsStdinTTY && f.io.IsStdoutTTY && !f.io.Dumb }

// watch runs the terminal UI over a session.
func (f *factory) watch(ctx context.Context, src watched, o tui.Options) error {
	o.In, o.Out, o.Color, o.Now = f.io.In, f.io.Out, f.io.Color, f.now
	o.Deeds, o.Version = &deeds{src, f}, readVersion(f.build).Version
	if f.continued != nil {
		on, stop := f.continued()
		defer stop()
		o.Continued = func(ctx context.Context) bool {
			select {
			case <-on:
				return true
			case <-ctx.Done():
				return false
			}
		}
	}
	err := tui.Run(ctx, src, o)
	if errors.Is(err, tui.ErrInterrupted) {
		return errInterrupted // Ctrl-C, which the screen reads as a key
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return context.Cause(ctx)
	}
	return err
}

// remote is a session behind its socket, as the terminal UI reads it.
type remote struct{ *control.Client }

func (r remote) Status(ctx context.Context) (control.Status, error) {
	st, err := r.Client.Status(ctx)
	if last, ok := r.Last(); ok {
		return last, io.EOF
	}
	return st, ended(err)
}

// headsMost is how many rows at once still come with their heads. Of more, nobody
// reads each: the one that is opened is fetched whole.
const headsMost = 32

func (r remote) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	heads := headsMost
	if after == 0 {
		heads = control.AllHeads // once: they are there when the session no longer is
	}
	b, err := r.Client.Batch(ctx, after, most, heads)
	return b, ended(err)
}

// ended tells the terminal UI the end of a session in its own word, and of one that
// is silent, which the UI says itself, the way out.
func ended(err error) error {
	var silent *control.SilentError
	switch {
	case errors.Is(err, control.ErrGone):
		return io.EOF
	case errors.As(err, &silent):
		pid := strings.Join(silent.PIDs, " ")
		return fmt.Errorf("kill -CONT %s if it was stopped, kill -9 %s if it hangs", pid, pid)
	}
	return err
}

var _ watched = remote{}
