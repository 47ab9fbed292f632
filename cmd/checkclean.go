package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"time"

	"lane/pkg/chain"
	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/rules"

	"github.com/spf13/cobra"
)

// cleanTick is how often routers are asked while they are watched: often enough that
// a busy one still has in its record what came since the last time.
const cleanTick = 2 * time.Second

type checkCleanOptions struct {
	lane string
	span time.Duration
	json bool
}

func newCheckCleanCmd(f *factory) *cobra.Command {
	o := &checkCleanOptions{}
	c := &cobra.Command{
		Use:   "clean LANE",
		Short: "Check that nothing of an ended lane is left: instance, claim, rule, switch, request",
		Long: `Check that a lane has ended everywhere. The registry must have no instance, no claim,
no active rule and no switch of it, and for --for, from now on, no gateway and no
sidecar may see a request with its tag.

It exits 0 if nothing is left, also of a lane that never was (a name of a lane in the
registry that is near it is said), 1 if something is, and 3 if that cannot be told: nobody
can be asked, or one of them does not answer or has seen more than it keeps.`,
		Example: `  lane check clean dev-alice
  lane check clean dev-alice --for 10m`,
		Args:              takes("LANE"),
		ValidArgsFunction: f.completeRegistered,
		RunE: func(c *cobra.Command, args []string) error {
			o.lane = args[0]
			return runCheckClean(c.Context(), f, o)
		},
	}
	addFlag(c, &o.span, "for", "10s", duration(time.Second, 24*time.Hour), "how long requests are watched")
	jsonFlag(c, &o.json)
	return c
}

// cleanResult is the JSON form of `lane check clean`.
type cleanResult struct {
	Schema  string            `json:"schema"`
	Check   string            `json:"check"`
	Lane    lane.Name         `json:"lane"`
	OK      bool              `json:"ok"`
	Left    []cleanLeft       `json:"left"`
	Seconds float64           `json:"seconds"` // for which requests were watched
	Routers int               `json:"routers"`
	Unknown map[string]string `json:"unknown,omitempty"` // routers, and why they cannot tell
}

// cleanLeft is one thing that is left.
type cleanLeft struct {
	Kind string `json:"kind"` // instance, claim, rule, switch, request
	What string `json:"what"`
	Do   string `json:"do"`
}

func runCheckClean(ctx context.Context, f *factory, o *checkCleanOptions) error {
	name, err := readLane(o.lane)
	if err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	res := cleanResult{Schema: printer.CheckSchema, Check: "clean", Lane: name, Left: []cleanLeft{}, Unknown: map[string]string{}}
	all, err := routers(ctx, client)
	if err != nil {
		return err
	}
	if all = slices.DeleteFunc(all, dead); len(all) == 0 {
		return &noDataError{msg: "every gateway and sidecar in the registry is dead: nobody can be asked", hint: "lane top lists them"}
	}
	res.Routers = len(all)
	seen, took := watchLane(ctx, newAdmin(), all, name, o.span, res.Unknown)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	res.Seconds = took.Seconds()
	if res.Left, err = leftOf(ctx, client, name); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		res.Left = append(res.Left, cleanLeft{"request", fmt.Sprintf("%s at %s", count(seen[id], "request"), id),
			"find who still sends the tag: the caller stands in its access log"})
	}
	if res.OK = len(res.Left) == 0 && len(res.Unknown) == 0; o.json {
		err = f.printJSON(&res)
	} else {
		err = f.printClean(&res)
	}
	switch {
	case err != nil:
		return err
	case res.OK:
		if near := nearLane(ctx, client, name, nil); near != "" { // of a slip nothing is left, ever
			fmt.Fprintf(f.io.Err, "note: nothing named %s was seen here; did you mean %s?\n", name, near)
		}
		return nil
	case len(res.Left) > 0:
		return &exitError{code: exitFailed}
	}
	return &noDataError{msg: "not every gateway and sidecar can tell whether it has seen the lane",
		hint: "each needs an admin port that this machine reaches: --admin ADDRESS"}
}

// leftOf is what the registry has of a lane.
func leftOf(ctx context.Context, client *consul.Client, name lane.Name) ([]cleanLeft, error) {
	left := []cleanLeft{}
	claims, err := client.Claims(ctx, name)
	if err != nil {
		return nil, err
	}
	for i := range claims {
		left = append(left, cleanLeft{"claim", claims[i].Service + ", by " + claims[i].Owner, "lane down " + string(name) + " there, or lane gc"})
	}
	instances, err := client.LaneInstances(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, service := range slices.Sorted(maps.Keys(instances)) {
		for _, in := range instances[service] {
			left = append(left, cleanLeft{"instance", service + " " + in.ID + " at " + in.Addr, "lane gc, or lane kill " + string(name) + " --deregister"})
		}
	}
	var none *consul.NoRevisionError
	switch active, err := client.ActiveRules(ctx); {
	case errors.As(err, &none):
	case err != nil:
		return nil, err
	default:
		set, err := rules.Parse(active.Document)
		if err != nil {
			return nil, fmt.Errorf("revision %d of the rules: %w", active.Revision, err)
		}
		if set.HasLane(name) {
			left = append(left, cleanLeft{"rule", fmt.Sprintf("revision %d of the rules gives the lane", active.Revision), "lane rules push, without it"})
		}
	}
	switches, err := client.Switches(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Contains(switches.KilledLanes, name) {
		left = append(left, cleanLeft{"switch", "the lane is killed", "lane unkill " + string(name)})
	}
	return left, nil
}

// watchLane counts the requests of a lane that routers see from now on, for a span. Why
// one of them cannot tell goes into unknown.
func watchLane(ctx context.Context, a *admin, all []consul.Router, name lane.Name, span time.Duration, unknown map[string]string) (seen map[string]int, took time.Duration) {
	type answer struct {
		seen chain.LaneSeen
		err  error
	}
	ask := func(after map[string]uint64) []answer {
		return each(all, func(r consul.Router) answer {
			var s chain.LaneSeen
			path := fmt.Sprintf("/v1/lane/%s?after=%d", url.PathEscape(string(name)), after[r.ID])
			err := a.get(ctx, r, path, func(b io.Reader) error { return json.NewDecoder(b).Decode(&s) })
			if err == nil && s.Schema != chain.LaneSchema {
				err = fmt.Errorf("it answers with the schema %.40q, not %s", s.Schema, chain.LaneSchema)
			}
			return answer{s, err}
		})
	}
	seen, after := map[string]int{}, map[string]uint64{}
	began := time.Now()
	for i, got := range ask(after) {
		if id := all[i].ID; got.err != nil {
			unknown[id] = got.err.Error()
		} else {
			after[id] = got.seen.Last
		}
	}
	for left := span; left > 0 && ctx.Err() == nil; left = span - time.Since(began) {
		if sleep(ctx, min(cleanTick, left)) != nil {
			break
		}
		for i, got := range ask(after) {
			id := all[i].ID
			switch {
			case got.err != nil:
				unknown[id] = got.err.Error()
			case got.seen.Last < after[id]:
				unknown[id] = "it was started again meanwhile"
			default:
				if got.seen.Lost > 0 {
					unknown[id] = fmt.Sprintf("it has seen more than it keeps: %d requests are gone from its record", got.seen.Lost)
				}
				if got.seen.Requests > 0 {
					seen[id] += got.seen.Requests
				}
				after[id] = got.seen.Last
			}
		}
	}
	return seen, time.Since(began)
}

func (f *factory) printClean(res *cleanResult) error {
	for _, l := range res.Left {
		if _, err := fmt.Fprintf(f.io.Out, "LEFT %s: %s\n     %s\n", l.Kind, printer.Line(l.What), printer.Line(l.Do)); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(res.Unknown)) {
		fmt.Fprintf(f.io.Err, "lane: %s cannot tell: %s\n", id, printer.Line(res.Unknown[id]))
	}
	if !res.OK {
		return nil
	}
	_, err := fmt.Fprintf(f.io.Out, "CLEAN: nothing of lane %s in the registry, and no request of it in %.0f s at %s\n",
		res.Lane, res.Seconds, count(res.Routers, "router"))
	return err
}
