package cmd

import (
	"context"

	"lane/pkg/consul"

	"github.com/spf13/cobra"
)

func newUnkillCmd(f *factory) *cobra.Command {
	o := &killOptions{}
	c := &cobra.Command{
		Use:   "unkill LANE | --all",
		Short: "Switch a killed lane on again",
		Long: `Take back 'lane kill': within seconds the lane's requests are routed to it again. With
--all it takes back 'lane kill --all'; a lane that was killed by its name stays killed
until it is named, and is listed.

A kill switch that cannot be read is refused as 'lane kill' does; with --force nothing
is killed afterwards.`,
		Example: `  lane unkill dev-bob
  lane unkill --all`,
		Args:              laneOrAll(&o.all),
		ValidArgsFunction: f.completeKilled,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.lane = args[0]
			}
			return runUnkill(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.all, "all", false, "take back that all lanes are killed")
	forceFlag(c, &o.force)
	jsonFlag(c, &o.json)
	return c
}

func runUnkill(ctx context.Context, f *factory, o *killOptions) error {
	name, client, err := f.switching(o.lane, o.all)
	if err != nil {
		return err
	}
	defer client.Close()
	after, changed, err := client.Unkill(ctx, name, o.all, o.force)
	if err != nil {
		return err
	}
	if o.json {
		return f.printJSON(newKillResult(after, changed))
	}
	if err := f.sayKill(name, o.all, changed, false, after); err != nil {
		return err
	}
	if !o.all && !changed { // of a name that is none, the switch is where it was
		f.warnUnknownLane(ctx, client, name, after.KilledLanes)
	}
	return nil
}

// completeKilled completes the lanes that are killed by their names.
func (f *factory) completeKilled(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.completeFirst(c, args, func(ctx context.Context, client *consul.Client) (out []string, err error) {
		s, err := client.Switches(ctx)
		for _, n := range s.KilledLanes {
			out = append(out, string(n))
		}
		return out, err
	})
}
