package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lane/pkg/chain"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

func newCheckTraceCmd(f *factory) *cobra.Command {
	o := &checkOptions{}
	id := ""
	c := &cobra.Command{
		Use:   "trace ID",
		Short: "Follow the tag of a request that has been sent, by the id of its trace",
		Long: `Ask all gateways and sidecars that are registered, and this machine's sessions, what
they have seen of a trace, and print its chain as 'lane check chain' does. Nothing is
sent. ID is the id as a log, an error of lane's, 'lane tail' or a browser shows it; a
whole traceparent will do. The lane is that which the request had at its entry; --lane
names the one that it should have had.

It exits 0 if the tag is at every hop, 1 if not, or if the trace has no lane, and 3 if no
gateway and no sidecar has seen it: each keeps its last 4,096 requests.`,
		Example: `  lane check trace 4bf92f3577b34da6a3ce929d0e0e4736
  lane check trace --lane dev-alice 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`,
		Args:              takes("ID"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) (err error) {
			if id, err = readTraceID(args[0]); err != nil {
				return usagef("`lane tail --json` has one as trace_id", "%v", err)
			}
			return runCheckTrace(c.Context(), f, o, id)
		},
	}
	addFlag(c, &o.lane, "lane", "", aLane, "the lane that the request should have had")
	addFlags(c, &o.expect, "expect", wantedList, "who has to have served, by lane or baseline")
	addFlags(c, &o.leaves, "leaf", aService, "service without a sidecar that calls nobody")
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
	return c
}

// readTraceID reads an id as it is shown, or the one of a traceparent.
func readTraceID(s string) (string, error) {
	s = strings.TrimSpace(s)
	if p := strings.Split(s, "-"); len(p) == 4 && len(p[0]) == 2 && len(p[1]) == 32 && len(p[2]) == 16 && len(p[3]) == 2 {
		return p[1], nil
	}
	// As long as an id of any text may be.
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%.200q is no id of a trace", s)
	}
	return s, nil
}

func runCheckTrace(ctx context.Context, f *factory, o *checkOptions, id string) error {
	w, err := f.living(ctx)
	if err != nil {
		return err
	}
	sessions, silent, err := f.sessions(ctx)
	if err != nil {
		return err
	}
	if err := f.noteSilent(silent); err != nil {
		return err
	}
	w.rows = func(ctx context.Context) (all []traffic.Exchange, err error) {
		for _, s := range sessions {
			rows, _, err := s.Client.Since(ctx, 0, 0)
			if err != nil { // it has ended meanwhile
				continue
			}
			all = append(all, rows...)
		}
		return all, nil
	}
	rules := chain.Rules{Expect: slices.Concat(o.expect...), Ends: o.leaves}
	var t chain.Trace
	err = w.watch(ctx, recordLimit, []string{id}, func(all [][]chain.Seen) bool {
		if rules.Lane = lane.Name(o.lane); o.lane == "" {
			rules.Lane = chain.LaneOf(all[0])
		}
		t = chain.Judge(rules, id, all[0])
		return t.Verdict != chain.Complete
	})
	if err != nil {
		return err
	}
	w.notes(f.io.Err)
	if t.Verdict == chain.NoData {
		return &noDataError{msg: "no gateway and no sidecar has seen the trace " + id,
			hint: "each keeps its last 4,096 requests; the id is that of the first header of docs/tracing.md that the request had"}
	}
	report := printer.NewTrace(rules.Lane, t)
	if o.json {
		err = f.printJSON(&report)
	} else {
		err = printer.PrintTrace(f.io, &report)
	}
	if err == nil && !report.OK {
		err = &exitError{code: exitFailed}
	}
	return err
}
