package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type switchOptions struct {
	service, group string
	clear          bool
	force          bool
	wait           bool
	cacheTTL       time.Duration
	watch          time.Duration
	json           bool
}

// switchResult is the JSON form of a switch.
type switchResult struct {
	Schema  string        `json:"schema"`
	Service string        `json:"service"`
	Group   string        `json:"group"` // empty: all groups
	Before  string        `json:"before"`
	Changed bool          `json:"changed"`
	Waited  *switchWaited `json:"waited,omitempty"` // with --wait
}

func newSwitchCmd(f *factory) *cobra.Command {
	o := &switchOptions{}
	c := &cobra.Command{
		Use:   "switch [SERVICE [GROUP]]",
		Short: "Switch a service to another group of its instances (blue, green), and back",
		Long: `Make a group the only baseline of a service: its instances whose metadata has
group=GROUP. Every router does so within seconds; lanes are not touched. The way back
is the same command with the other group; --clear makes all groups the baseline again.
A group without a healthy instance is refused, because its callers would get errors.

With --wait it returns when callers that keep a list of instances have dropped it
(--cache-ttl), and the gateways' and sidecars' counters show that no request has gone
to the other groups for as long as --watch says; else it exits 1.

With SERVICE alone it lists the groups; without, what is switched and killed. It exits 1
if a switch stands in the registry in a form that cannot be read.`,
		Example: `  lane switch order-service
  lane switch order-service green --wait
  lane switch order-service blue`,
		Args:              takes("[SERVICE]", "[GROUP]"),
		ValidArgsFunction: f.completeSwitch,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.service = args[0]
			}
			if len(args) > 1 {
				o.group = args[1]
			}
			for _, name := range []string{"cache-ttl", "watch"} {
				if c.Flags().Changed(name) && !o.wait {
					return usagef("add --wait", "--%s goes with --wait", name)
				}
			}
			return runSwitch(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.clear, "clear", false, "all groups are the baseline again")
	c.Flags().BoolVar(&o.force, "force", false, "switch to a group without a healthy instance, and over a switch that cannot be read")
	c.Flags().BoolVar(&o.wait, "wait", false, "wait, and check that the other groups get no requests")
	addFlag(c, &o.cacheTTL, "cache-ttl", "35s", duration(0, longest), "how long callers keep a list of instances (Spring's default)")
	addFlag(c, &o.watch, "watch", "5s", duration(time.Millisecond, longest), "how long --wait then watches the other groups")
	jsonFlag(c, &o.json)
	return c
}

func runSwitch(ctx context.Context, f *factory, o *switchOptions) error {
	switch {
	case o.clear && (o.service == "" || o.group != ""):
		return usagef("lane switch SERVICE --clear", "--clear goes with a SERVICE, and without a GROUP")
	case o.wait && o.group == "":
		return usagef("lane switch SERVICE GROUP --wait", "--wait goes with a SERVICE and a GROUP")
	case strings.TrimSpace(o.group) != o.group:
		return usagef("lane switch SERVICE lists its groups", "no group is called %q", o.group)
	}
	if o.group != "" {
		if err := consul.CheckGroup(o.service, o.group); err != nil {
			return err
		}
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	if o.service == "" {
		return listSwitches(ctx, f, client, o.json)
	}
	groups, err := groupsOf(ctx, client, o.service)
	if err != nil {
		return err
	}
	if o.group == "" && !o.clear {
		return listGroups(ctx, f, client, o, groups)
	}
	if err := o.fits(groups); err != nil {
		return err
	}
	before, changed, err := client.SetGroup(ctx, o.service, o.group, o.force)
	if err != nil {
		return err
	}
	res := &switchResult{Schema: "lane.switch/v1", Service: o.service, Group: o.group, Before: before, Changed: changed}
	if !o.json {
		if _, err := fmt.Fprintln(f.io.Out, res.sentence()); err != nil {
			return err
		}
	}
	if o.wait {
		res.Waited, err = f.waitForSwitch(ctx, client, o, groups)
	}
	if o.json && (err == nil || res.Waited != nil) {
		if perr := f.printJSON(res); perr != nil {
			return perr
		}
	}
	return err
}

func (r *switchResult) sentence() string {
	was := ""
	switch {
	case !r.Changed:
		was = " (no change)"
	case r.Before != "":
		was = " (before: " + traffic.Printable(r.Before) + ")"
	}
	if r.Group == "" {
		return "all instances of " + r.Service + " are its baseline" + was
	}
	return "group " + r.Group + " is the baseline of " + r.Service + was
}

// group is the baseline's instances of a service with the same group.
type group struct {
	Group     string   `json:"group"`
	Active    bool     `json:"active"`
	Instances int      `json:"instances"`
	Healthy   int      `json:"healthy"`
	ids       []string // of its instances
}

// groupsOf are the groups of a service, sorted; those without a name are one.
func groupsOf(ctx context.Context, client *consul.Client, service string) ([]*group, error) {
	all, err := client.InstancesOf(ctx, service)
	if err != nil {
		return nil, err
	}
	found := map[string]*group{}
	for _, in := range all {
		if in.Local || notBaseline(in.MetaLane) || notBaseline(in.MetaTag) {
			continue
		}
		g := found[in.Group]
		if g == nil {
			g = &group{Group: in.Group}
			found[in.Group] = g
		}
		g.Instances++
		g.ids = append(g.ids, in.ID)
		if in.Health != lane.Critical && !in.Draining && in.Weight > 0 {
			g.Healthy++
		}
	}
	out := slices.Collect(maps.Values(found))
	slices.SortFunc(out, byName)
	return out, nil
}

func byName(a, b *group) int { return strings.Compare(a.Group, b.Group) }

func notBaseline(raw string) bool {
	t := lane.ParseTag(raw)
	return t.Kind == lane.TagLane || t.Kind == lane.TagInvalid
}

// fits refuses a group that nobody would be served by.
func (o *switchOptions) fits(groups []*group) error {
	if o.force || o.clear {
		return nil
	}
	var names []string
	for _, g := range groups {
		if g.Group == o.group && g.Healthy > 0 {
			return nil
		}
		if g.Group == o.group {
			return fmt.Errorf("no instance of %s in group %s is healthy: its callers would get errors (--force switches all the same)", o.service, o.group)
		}
		if g.Group != "" {
			names = append(names, traffic.Printable(g.Group))
		}
	}
	hint := "instances name theirs in the metadata `group`"
	if len(names) > 0 {
		hint = "there are: " + strings.Join(names, ", ")
	}
	return &noDataError{msg: o.service + " has no instance in group " + o.group, hint: hint}
}

// groupList is the JSON form of `lane switch SERVICE`.
type groupList struct {
	Schema  string   `json:"schema"`
	Service string   `json:"service"`
	Active  string   `json:"active"` // empty: all
	Groups  []*group `json:"groups"`
}

func listGroups(ctx context.Context, f *factory, client *consul.Client, o *switchOptions, groups []*group) error {
	s, err := client.Switches(ctx)
	var bad consul.UnreadableSwitchErrors
	if errors.As(err, &bad) {
		err = nil
		for _, u := range bad {
			if u.Service() == o.service {
				return u
			}
		}
	}
	if err != nil {
		return err
	}
	list := groupList{Schema: "lane.groups/v1", Service: o.service, Active: s.ActiveGroup[o.service], Groups: groups}
	named := len(groups) == 0 || slices.ContainsFunc(groups, func(g *group) bool { return g.Group != "" })
	there := slices.ContainsFunc(groups, func(g *group) bool { return g.Group == list.Active })
	if list.Active != "" && !there { // whoever wonders why nobody serves has to see it
		groups = append(groups, &group{Group: list.Active})
		slices.SortFunc(groups, byName)
		list.Groups = groups
	}
	if len(groups) == 0 {
		return &noDataError{msg: "the registry has no baseline instance of " + o.service, hint: "lane switch lists what is switched"}
	}
	t := printer.NewTable(f.io, "GROUP", "STATE", "INSTANCES", "HEALTHY")
	for _, g := range groups {
		// Where no instance names a group, the switch leaves none out.
		g.Active = list.Active == "" || g.Group == list.Active || !named
		state, name := printer.As(printer.Dim, "idle"), g.Group
		switch {
		case g.Active && g.Instances > 0:
			state = printer.As(printer.Good, "active")
		case g.Active && named:
			state = printer.As(printer.Bad, "active")
		case g.Active:
			state = printer.As(printer.Warn, "active")
		}
		if name == "" {
			name = "-"
		}
		t.Row(printer.Text(name), state, printer.Text(strconv.Itoa(g.Instances)), printer.Text(strconv.Itoa(g.Healthy)))
	}
	if o.json {
		return f.printJSON(list)
	}
	if err := t.Flush(); err != nil || list.Active == "" || there {
		return err
	}
	note := "group %s of %s is switched on, and no instance is in it: callers get an error (lane switch %s --clear)\n"
	if !named {
		note = "group %s of %s is switched on, but no instance names a group: all serve, until one does (lane switch %s --clear)\n"
	}
	_, err = fmt.Fprintf(f.io.Err, note, traffic.Printable(list.Active), o.service, o.service)
	return err
}

// switchList is the JSON form of `lane switch`.
type switchList struct {
	Schema string            `json:"schema"`
	All    bool              `json:"all"`
	Lanes  []string          `json:"lanes"`
	Groups map[string]string `json:"groups"` // by service
	// Unreadable are the switches that cannot be read; the other fields lack them.
	Unreadable []unreadableSwitch `json:"unreadable,omitempty"`
}

type unreadableSwitch struct {
	Key   string `json:"key"`
	Value string `json:"value"` // its beginning
	Why   string `json:"why"`
}

func listSwitches(ctx context.Context, f *factory, client *consul.Client, asJSON bool) error {
	s, err := client.Switches(ctx)
	var bad consul.UnreadableSwitchErrors
	if err != nil && !errors.As(err, &bad) {
		return err
	}
	if asJSON {
		list := switchList{Schema: "lane.switches/v1", All: s.KillAll, Lanes: newKillResult(s, false).Lanes, Groups: map[string]string{}}
		maps.Copy(list.Groups, s.ActiveGroup)
		for _, u := range bad {
			list.Unreadable = append(list.Unreadable, unreadableSwitch{u.Key, u.Value, u.Why})
		}
		return cmp.Or(f.printJSON(list), err)
	}
	t := printer.NewTable(f.io, "SWITCH", "OF", "TO").Whole()
	if s.KillAll {
		t.Row(printer.As(printer.Bad, "killed"), printer.Text("all lanes"), printer.Text("baseline"))
	}
	for _, n := range s.KilledLanes {
		t.Row(printer.As(printer.Bad, "killed"), printer.As(printer.Lane, string(n)), printer.Text("baseline"))
	}
	for _, service := range slices.Sorted(maps.Keys(s.ActiveGroup)) {
		t.Row(printer.Text("group"), printer.Text(service), printer.Text(s.ActiveGroup[service]))
	}
	for _, u := range bad {
		t.Row(printer.As(printer.Bad, "unreadable"), printer.Text(u.Key), printer.Text(traffic.Printable(u.Value)))
	}
	if !s.KillAll && len(s.KilledLanes) == 0 && len(s.ActiveGroup) == 0 && len(bad) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "nothing is switched: no lane is killed, and no service has an active group")
		return err
	}
	return cmp.Or(t.Flush(), err)
}

// completeSwitch completes the services, and then the groups of one.
func (f *factory) completeSwitch(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const noFile = cobra.ShellCompDirectiveNoFileComp
	switch len(args) {
	case 0:
		return f.serviceNames(c.Context()), noFile
	case 1:
	default:
		return nil, noFile
	}
	return f.completeFrom(c, func(ctx context.Context, client *consul.Client) (out []string, err error) {
		groups, err := groupsOf(ctx, client, args[0])
		for _, g := range groups {
			if g.Group != "" {
				out = append(out, g.Group)
			}
		}
		return out, err
	})
}
