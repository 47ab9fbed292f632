package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/proxy"

	"github.com/spf13/cobra"
)

type checkReadyOptions struct {
	lane   string
	needs  []string
	strict bool
	json   bool
}

func newCheckReadyCmd(f *factory) *cobra.Command {
	o := &checkReadyOptions{}
	c := &cobra.Command{
		Use:   "ready LANE",
		Short: "Check that the lane serves what it has, before requests are sent",
		Long: `Decide, and send nothing: would a request of the lane be served by the lane, at each
service of which it has a claim or an instance, and at those of --need? With --strict at
every service that has a baseline: what the lane lacks is listed. It is decided as 'lane
explain' does: by the session of the lane, if one runs here, else by the settings of here.

It exits 0 if the lane serves all of them, 1 if not, and 3 if the registry has nothing of
the lane, or cannot be reached.`,
		Example: `  lane check ready dev-alice
  lane check ready dev-alice --need order-service --need inventory
  lane check ready dev-alice --strict`,
		Args:              takes("LANE"),
		ValidArgsFunction: f.completeRegistered,
		RunE: func(c *cobra.Command, args []string) error {
			o.lane = args[0]
			return runCheckReady(c.Context(), f, o)
		},
	}
	addFlags(c, &o.needs, "need", aService, "service that the lane has to serve")
	c.Flags().BoolVar(&o.strict, "strict", false, "the lane has to serve every service that has a baseline")
	jsonFlag(c, &o.json)
	return c
}

// readyResult is the JSON form of `lane check ready`.
type readyResult struct {
	Schema   string         `json:"schema"`
	Check    string         `json:"check"`
	Lane     lane.Name      `json:"lane"`
	OK       bool           `json:"ok"`
	Services []readyService `json:"services"`
}

// readyService is what a request of the lane for one service would meet.
type readyService struct {
	Service  string      `json:"service"`
	OK       bool        `json:"ok"`
	Decision lane.Kind   `json:"decision"`
	Reason   lane.Reason `json:"reason"`
	Code     lane.Code   `json:"code"`
	Message  string      `json:"message"`
	Hint     string      `json:"hint"`
}

func runCheckReady(ctx context.Context, f *factory, o *checkReadyOptions) error {
	name, err := readLane(o.lane)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	through := f.through(ctx, o.lane)
	s, err := f.settings(given{lane: o.lane, session: through})
	if err != nil {
		return err
	}
	claims, instances, err := f.registered(ctx, name)
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for i := range claims {
		want[claims[i].Service] = true
	}
	for service := range instances {
		want[service] = true
	}
	if len(want) == 0 {
		return f.noLane(ctx, name)
	}
	for _, service := range o.needs {
		want[service] = true
	}
	router, err := lane.NewRouter(s.Policy())
	if err != nil {
		return err
	}
	res := readyResult{Schema: printer.CheckSchema, Check: "ready", Lane: name, OK: true, Services: []readyService{}}
	err = f.engine(ctx, s, router, func(t *proxy.Transport) error {
		ask := func(service string, tag lane.Tag) (lane.Decision, error) {
			_, cat, err := t.Locate(ctx, service)
			var gone *proxy.Problem
			if err != nil && !errors.As(err, &gone) {
				return lane.Decision{}, err
			}
			return router.Explain(cat, lane.Request{Service: service, Tag: tag, Now: f.now(),
				Caller: lane.Caller{Env: s.Env, Tenant: s.Tenant, Zone: s.Zone}}).Decision, nil
		}
		if o.strict {
			all, err := f.services(ctx)
			if err != nil {
				return err
			}
			for _, service := range all {
				d, err := ask(service, lane.Tag{Kind: lane.TagBaseline, Raw: lane.BaselineTag})
				if err != nil {
					return err
				}
				// One that is all sick has one, too.
				want[service] = want[service] || d.Kind == lane.KindBaseline || d.Code == lane.CodeBaselineUnhealthy
			}
		}
		for _, service := range slices.Sorted(maps.Keys(want)) {
			if !want[service] {
				continue
			}
			d, err := ask(service, lane.Tag{Kind: lane.TagLane, Lane: name, Raw: string(name)})
			if err != nil {
				return err
			}
			r := readyService{service, d.Kind == lane.KindLaneMatch, d.Kind, d.Reason, d.Code, d.Message(), d.Hint()}
			res.OK = res.OK && r.OK
			res.Services = append(res.Services, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if through != nil {
		if err := f.sayThrough(s, through); err != nil {
			return err
		}
	}
	if o.json {
		err = f.printJSON(&res)
	} else {
		err = f.printReady(&res)
	}
	if err == nil && !res.OK {
		err = &exitError{code: exitFailed}
	}
	return err
}

// services are the services of the registry in which a lane may be: not Consul itself,
// and none of lane's own.
func (f *factory) services(ctx context.Context) ([]string, error) {
	client, err := f.registry()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all, err := client.Services(ctx)
	return slices.DeleteFunc(all, func(s string) bool { return s == "consul" || strings.HasPrefix(s, "lane-") }), err
}

func (f *factory) printReady(res *readyResult) error {
	table := printer.NewTable(f.io, "SERVICE", "READY", "DECISION", "WHY").Whole()
	lacks := 0
	for _, r := range res.Services {
		ready := printer.As(printer.Good, "yes")
		if !r.OK {
			ready = printer.As(printer.Bad, "no")
			lacks++
		}
		why := printer.Text(r.Message)
		if r.OK {
			why = printer.Text("")
		}
		table.Row(printer.Text(r.Service), ready, printer.Text(string(r.Decision)), why)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	word := "READY: lane " + string(res.Lane) + " serves all of them"
	if lacks > 0 {
		word = fmt.Sprintf("NOT READY: lane %s does not serve %d of %d", res.Lane, lacks, len(res.Services))
	}
	if _, err := fmt.Fprintln(f.io.Out, word); err != nil {
		return err
	}
	for _, r := range res.Services {
		if hint := r.Hint; !r.OK && hint != "" {
			if _, err := fmt.Fprintf(f.io.Err, "hint: %s: %s\n", r.Service, printer.Line(hint)); err != nil {
				return err
			}
		}
	}
	return nil
}
