package cmd

import (
	"context"
	"errors"
	"math"

	"lane/pkg/control"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type tailOptions struct {
	lane   string
	filter traffic.Filter
	json   bool
	follow bool
	rows   int
}

func newTailCmd(f *factory) *cobra.Command {
	o := &tailOptions{}
	c := &cobra.Command{
		Use:   "tail [LANE]",
		Short: "Print a session's exchanges as lines, as they happen",
		Long: `Print the exchanges of a running session as lines: first the last ones, then
every new one until the session ends. Off a terminal a line is tab-separated:
start, front, from, method, URL, route, status, milliseconds, lane, reason,
code, guard, instance, why. With --json each line is a JSON object.`,
		Example: `  lane tail
  lane tail --filter 'route:fallback'
  lane tail --json -n 100 --follow=false`,
		Args:              takes("[LANE]"),
		ValidArgsFunction: f.completeLanes,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.lane = args[0]
			}
			return runTail(c.Context(), f, o)
		},
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane, if several sessions run")
	addFlag(c, &o.filter, "filter", "", aFilter, "only exchanges that match, e.g. 'svc:orders st:5xx' (see docs/filters.md)")
	c.Flags().BoolVarP(&o.follow, "follow", "f", true, "wait for new exchanges")
	addFlag(c, &o.rows, "lines,n", "10", number(0, math.MaxInt32), "how many earlier exchanges to print first")
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	return c
}

func runTail(ctx context.Context, f *factory, o *tailOptions) error {
	s, err := f.session(ctx, o.lane)
	if err != nil {
		return err
	}
	heads := 0 // neither a line nor a filter has anything of them
	if o.json {
		heads = control.AllHeads
	}
	rows, _, err := s.Client.Since(ctx, 0, heads)
	if err != nil {
		return err
	}
	var last uint64
	var fit []traffic.Exchange
	for _, e := range rows {
		last = e.Seq
		if o.filter.Match(&e) {
			fit = append(fit, e)
		}
	}
	for _, e := range fit[max(0, len(fit)-o.rows):] {
		if err := f.printExchange(o.json, &e); err != nil {
			return err
		}
	}
	for o.follow {
		rows, lost, err := s.Client.Next(ctx, last, heads)
		switch {
		case errors.Is(err, control.ErrGone):
			return nil // the session has ended, and so has its tail
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		}
		if err := f.printLost(o.json, lost); err != nil {
			return err
		}
		for _, e := range rows {
			last = e.Seq
			if !o.filter.Match(&e) {
				continue
			}
			if err := f.printExchange(o.json, &e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *factory) printExchange(asJSON bool, e *traffic.Exchange) error {
	if asJSON {
		return printer.JSONLine(f.io, printer.NewExchangeRecord(e))
	}
	return printer.Exchange(f.io, e)
}

func (f *factory) printLost(asJSON bool, n uint64) error {
	if asJSON && n > 0 {
		return printer.JSONLine(f.io, printer.LostRecord{Schema: printer.LostSchema, Lost: n})
	}
	return printer.Lost(f.io, n)
}
