package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/nearest"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type killOptions struct {
	lane       string
	all        bool
	force      bool
	deregister bool
	drain      time.Duration
	json       bool
}

// killResult is the JSON form of `lane kill` and `lane unkill`.
type killResult struct {
	Schema  string   `json:"schema"`
	Changed bool     `json:"changed"`
	All     bool     `json:"all"`
	Lanes   []string `json:"lanes"` // killed by their names
	// Removed is what --deregister did, an instance each.
	Removed []removal `json:"removed,omitempty"`
}

func newKillCmd(f *factory) *cobra.Command {
	o := &killOptions{}
	c := &cobra.Command{
		Use:   "kill LANE | --all",
		Short: "Switch a lane off for everybody: its traffic goes to the baseline",
		Long: `Switch a lane off, or all lanes with --all. Within seconds every router, whoever runs
it, serves requests with the lane's tag by the baseline. The tag is still passed on,
env and tenant hold as before, and what is routed so is counted as killed, not as a
fallback. Nothing is restarted, and sessions stay up: 'lane unkill' takes it back.

What is killed already may stand in the registry in a form that cannot be read, written
by somebody else. Then it refuses, and says what stands there: running routers go on
with what they last read. --force writes over it, and nothing else is killed then.

Killed instances can still be called at their own addresses. --deregister takes them
out of the registry as well: they are marked as draining, get --drain to finish what
is under way, and then their claims are dropped, which ends the sessions behind them,
and they are deregistered. It takes an operator's token ('lane rules policies').`,
		Example: `  lane kill dev-bob
  lane kill --all
  lane kill dev-bob --deregister`,
		Args:              laneOrAll(&o.all),
		ValidArgsFunction: f.completeRegistered,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.lane = args[0]
			}
			if c.Flags().Changed("drain") && !o.deregister {
				return usagef("add --deregister", "--drain goes with --deregister")
			}
			return runKill(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.all, "all", false, "all lanes")
	c.Flags().BoolVar(&o.deregister, "deregister", false, "take the lane's instances out of the registry, too")
	addFlag(c, &o.drain, "drain", "30s", duration(0, longest), "how long --deregister waits for requests under way")
	forceFlag(c, &o.force)
	jsonFlag(c, &o.json)
	return c
}

func forceFlag(c *cobra.Command, force *bool) {
	c.Flags().BoolVar(force, "force", false, "write over a kill switch that cannot be read")
}

// laneOrAll wants either the name of a lane or --all.
func laneOrAll(all *bool) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 1:
			return fmt.Errorf("one lane at a time, not %d", len(args))
		case *all && len(args) > 0:
			return fmt.Errorf("either --all or lane %s, not both", args[0])
		case !*all && len(args) == 0:
			return fmt.Errorf("say which lane, or --all")
		}
		return nil
	}
}

func runKill(ctx context.Context, f *factory, o *killOptions) error {
	name, client, err := f.switching(o.lane, o.all)
	if err != nil {
		return err
	}
	defer client.Close()
	after, changed, err := client.Kill(ctx, name, o.all, o.force)
	if err != nil {
		return err
	}
	res := newKillResult(after, changed)
	if !o.json {
		if err := f.sayKill(name, o.all, changed, true, after); err != nil {
			return err
		}
	}
	if !o.all && !o.deregister {
		f.warnUnknownLane(ctx, client, name, nil)
	}
	if !o.deregister {
		return f.printKill(o.json, res)
	}
	out := &takeOut{f: f, client: client, lane: name, drain: o.drain, quiet: o.json}
	err = out.run(ctx)
	res.Removed = out.done
	if perr := f.printKill(o.json, res); err == nil {
		err = perr
	}
	return err
}

// switching is what kill and unkill begin with.
func (f *factory) switching(name string, all bool) (lane.Name, *consul.Client, error) {
	if !all {
		if _, err := readLane(name); err != nil {
			return "", nil, err
		}
	}
	client, err := f.registry()
	return lane.Name(name), client, err
}

func newKillResult(s lane.Switches, changed bool) *killResult {
	res := &killResult{Schema: "lane.kill/v1", Changed: changed, All: s.KillAll, Lanes: []string{}}
	for _, n := range s.KilledLanes {
		res.Lanes = append(res.Lanes, string(n))
	}
	return res
}

func (f *factory) printKill(asJSON bool, res *killResult) error {
	if asJSON {
		return f.printJSON(res)
	}
	return nil
}

// sayKill says what is killed now, and what is so besides.
func (f *factory) sayKill(name lane.Name, all, changed, killed bool, after lane.Switches) error {
	what, are := "lane "+string(name), "is"
	if all {
		what, are = "all lanes", "are"
	}
	line := what + " " + are + " killed: the baseline serves them"
	switch {
	case killed && !all:
		line = what + " is killed: the baseline serves its requests"
	case !killed:
		line = what + " " + are + " not killed any more"
	}
	if !changed {
		line += " (no change)"
	}
	if _, err := fmt.Fprintln(f.io.Out, line); err != nil {
		return err
	}
	if killed {
		return nil
	}
	note := ""
	switch {
	case after.KillAll:
		note = "all lanes are killed still: lane unkill --all"
	case all && len(after.KilledLanes) > 0:
		note = "killed by name still: " + joinNames(after.KilledLanes)
	}
	if note == "" {
		return nil
	}
	_, err := fmt.Fprintln(f.io.Err, note)
	return err
}

func joinNames(all []lane.Name) string {
	s := make([]string, len(all))
	for i, n := range all {
		s[i] = traffic.Printable(string(n)) // anybody may have written the key
	}
	return strings.Join(s, ", ")
}

// warnUnknownLane says so when a lane that was killed is not in the registry: it
// may be a typing error, and whoever is in a hurry should know. A registry that
// does not tell is no reason to fail: the switch is set. more are lanes that it may have
// meant besides those of the registry.
func (f *factory) warnUnknownLane(ctx context.Context, client *consul.Client, name lane.Name, more []lane.Name) {
	claims, err := client.Claims(ctx, name)
	if err != nil || len(claims) > 0 {
		return
	}
	if all, err := client.LaneInstances(ctx, name); err == nil && len(all) == 0 {
		way := "`lane ls` lists the lanes"
		if near := nearLane(ctx, client, name, more); near != "" {
			way = "did you mean " + near + "?"
		}
		fmt.Fprintf(f.io.Err, "note: lane %s has nothing in the registry now; %s\n", name, way)
	}
}

// noLane is the error where the registry has nothing of a lane.
func (f *factory) noLane(ctx context.Context, name lane.Name) error {
	hint := "`lane ls` lists those that there are"
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	if near := nearLane(ctx, client, name, nil); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return &noDataError{msg: "the registry has no lane " + string(name), hint: hint}
}

// nearLane is the lane of the registry, or of more, that a name is most likely a slip of;
// "" if there is none, or the registry does not tell.
func nearLane(ctx context.Context, client *consul.Client, name lane.Name, more []lane.Name) string {
	claims, err := client.Claims(ctx, "")
	if err != nil {
		claims = nil
	}
	instances, err := client.LaneInstances(ctx, "")
	if err != nil {
		instances = nil
	}
	var names []string
	for _, n := range more {
		names = append(names, string(n))
	}
	for _, row := range printer.NewLanes(claims, instances).Lanes {
		names = append(names, row.Lane)
	}
	return nearest.Word(string(name), slices.DeleteFunc(names, func(n string) bool {
		_, err := lane.ParseName(n) // anybody may have written it
		return n == string(name) || err != nil
	}))
}
