package cmd

import (
	"context"

	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type showOptions struct {
	lane string
	json bool
}

func newShowCmd(f *factory) *cobra.Command {
	o := &showOptions{}
	c := &cobra.Command{
		Use:               "show LANE",
		Short:             "Show one lane in the registry in full: claims, instances, health",
		Args:              takes("LANE"),
		ValidArgsFunction: f.completeRegistered,
		RunE: func(c *cobra.Command, args []string) error {
			o.lane = args[0]
			return runShow(c.Context(), f, o)
		},
	}
	jsonFlag(c, &o.json)
	return c
}

func runShow(ctx context.Context, f *factory, o *showOptions) error {
	name, err := readLane(o.lane)
	if err != nil {
		return err
	}
	claims, instances, err := f.registered(ctx, name)
	if err != nil {
		return err
	}
	details := printer.NewLaneDetails(claims, instances)
	if len(details) == 0 {
		return f.noLane(ctx, name)
	}
	details[0].Killed = f.killed(ctx)(name)
	if o.json {
		return f.printJSON(details[0])
	}
	return printer.PrintLane(f.io, &details[0])
}

// noDataError says that there is nothing to show.
type noDataError struct{ msg, hint string }

func (e *noDataError) Error() string { return e.msg }

// completeRegistered completes the lanes of the registry.
func (f *factory) completeRegistered(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	claims, instances, err := f.registered(c.Context(), "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, row := range printer.NewLanes(claims, instances).Lanes {
		out = append(out, row.Lane)
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
