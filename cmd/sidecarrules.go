package cmd

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"lane/pkg/gateway"
	"lane/pkg/lane"
	"lane/pkg/rules"
	"lane/pkg/whitelist"
)

// fromRegistry is the word for the registry's rules where a file may stand too.
const fromRegistry = "registry"

func readRulesSource(s string) (string, error) {
	if s == fromRegistry {
		return s, nil
	}
	return s, checkFile(s)
}

// colors are the rules by which a sidecar colors; none without --rules.
type colors struct {
	set      *rules.Set     // a file's
	registry *gateway.Rules // those of the registry
	list     *whitelist.Whitelist
	members  rules.Members
}

func (o *sidecarOptions) colors(ctx context.Context, f *factory, at *place) (*colors, error) {
	out := &colors{}
	if o.rules == "" {
		return out, nil
	}
	redis, err := o.lists.url(f)
	if err != nil {
		return nil, err
	}
	if o.rules != fromRegistry {
		if out.set, err = readRules(o.rules); err != nil {
			return nil, err
		}
		if !slices.Contains(out.set.Entries(), o.service) {
			fmt.Fprintf(f.io.Err, "lane: no rule of %s has %s as its entry: nothing is colored here\n", o.rules, o.service)
		}
	}
	if out.list, err = o.lists.open(f, redis, at.client); err != nil {
		return nil, err
	}
	out.members = membersOf(ctx, out.list)
	if out.set == nil {
		out.registry = gateway.NewRules(at.client, out.members, f.logger(slog.LevelInfo))
	}
	return out, nil
}

func (c *colors) close() {
	if c.list != nil {
		_ = c.list.Close() // what it could not end ends with the process
	}
}

// color is what colors a request, nil without rules.
func (c *colors) color() gateway.Color {
	switch {
	case c.registry != nil:
		return c.registry.Color
	case c.set != nil:
		return func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
			return c.set.Color(r, c.members), c.set.Revision()
		}
	}
	return nil
}

// lane reports whether a rule gives a lane.
func (c *colors) lane(l lane.Name) bool {
	if c.registry != nil {
		return c.registry.Set().HasLane(l)
	}
	return c.set.HasLane(l)
}
