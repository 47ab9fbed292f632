package cmd

import (
	"context"
	"fmt"

	"lane/pkg/lane"
	"lane/pkg/printer"

	"github.com/spf13/cobra"
)

type lsOptions struct {
	json bool
}

func newLsCmd(f *factory) *cobra.Command {
	o := &lsOptions{}
	c := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the lanes in the registry: services, owner, since when, health",
		Args:    takes(),
		RunE:    func(c *cobra.Command, _ []string) error { return runLs(c.Context(), f, o) },
	}
	jsonFlag(c, &o.json)
	return c
}

func runLs(ctx context.Context, f *factory, o *lsOptions) error {
	claims, instances, err := f.registered(ctx, "")
	if err != nil {
		return err
	}
	all := printer.NewLanes(claims, instances)
	killed := f.killed(ctx)
	for i := range all.Lanes {
		all.Lanes[i].Killed = killed(lane.Name(all.Lanes[i].Lane))
	}
	if o.json {
		return f.printJSON(all)
	}
	if len(all.Lanes) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "no lanes in the registry")
		return err
	}
	return printer.PrintLanes(f.io, all)
}

// killed tells which lanes are killed, and says so where nobody can tell.
func (f *factory) killed(ctx context.Context) func(lane.Name) bool {
	client, err := f.registry()
	var s lane.Switches
	if err == nil {
		defer client.Close()
		s, err = client.Switches(ctx)
	}
	if err != nil {
		fmt.Fprintf(f.io.Err, "which lanes are killed is not known: %v\n", err)
	}
	return s.Killed
}

// registered is what the registry holds of one lane, or of all.
func (f *factory) registered(ctx context.Context, name lane.Name) ([]lane.Claim, map[string][]lane.Instance, error) {
	client, err := f.registry()
	if err != nil {
		return nil, nil, err
	}
	claims, err := client.Claims(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	claims = client.WithActivity(ctx, claims)
	instances, err := client.LaneInstances(ctx, name)
	return claims, instances, err
}
