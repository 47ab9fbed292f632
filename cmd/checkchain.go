package cmd

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"lane/pkg/chain"
	"lane/pkg/config"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/tracemap"

	"github.com/spf13/cobra"
)

type checkOptions struct {
	url     string
	lane    string
	headers []string
	samples int
	expect  [][]chain.Wanted
	leaves  []string
	limit   time.Duration
	json    bool
}

func newCheckChainCmd(f *factory) *cobra.Command {
	o := &checkOptions{}
	c := &cobra.Command{
		Use:   "chain URL",
		Short: "Send requests of the lane, and follow the tag from hop to hop",
		Long: `Send the URL with GET through the session's proxy, tagged and with a trace of its
own each time, and ask all gateways and sidecars that are registered what they have
seen of that trace. Printed is the chain, the first place where the tag is lost, and
the coverage: requests with the tag at every hop / requests that entered.

It exits 0 if all are complete, 1 if one is not, or was answered with an error, and 3 if
no gateway and no sidecar has seen any of them, also if they were answered with an error:
that is said, with its way out. A service without a sidecar is unknown, and unknown is not
complete: --leaf says that one calls nobody. What went past every sidecar without the
trace is in no chain: --expect names who has to be in it.`,
		Example: `  lane check chain http://order-service/api/orders/42
  lane check chain --samples 20 --expect stock@dev-alice,price@baseline http://order-service/api/orders/42
  lane check chain -H 'cookie: user=dev2' http://gateway.test:8080/`,
		Args:              takes("URL"),
		ValidArgsFunction: f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			o.url = args[0]
			return runCheckChain(c.Context(), f, o)
		},
	}
	addFlag(c, &o.samples, "samples", "1", number(1, 100), "how many requests, one after the other; coverage needs 20 or so")
	addFlags(c, &o.expect, "expect", wantedList, "who has to have served, by lane or baseline")
	addFlags(c, &o.leaves, "leaf", aService, "service without a sidecar that calls nobody")
	o.flags(f, c)
	return c
}

// flags are those of all checks that send something.
func (o *checkOptions) flags(f *factory, c *cobra.Command) {
	addFlag(c, &o.lane, "lane", "", aLane, "the lane, if several sessions run")
	addFlags(c, &o.headers, "header,H", aHeader, "header of each request")
	if c.Name() == "chain" {
		addFlag(c, &o.limit, "timeout", "30s", duration(time.Millisecond, longest), "how long each request may take")
	}
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("lane", f.completeLanes)
}

// wantedList is who has to have served.
var wantedList = kind[[]chain.Wanted]{"SERVICE@LANE,...", readWanted}

func readWanted(text string) ([]chain.Wanted, error) {
	var out []chain.Wanted
	for item := range strings.SplitSeq(text, ",") {
		service, name, ok := strings.Cut(strings.TrimSpace(item), "@")
		if !ok {
			return nil, fmt.Errorf("%q: each is SERVICE@LANE, as in order-service@dev-alice or order-service@baseline", text)
		}
		if err := config.CheckServiceName(service); err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if _, err := lane.ParseName(name); err != nil && name != lane.BaselineTag {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		out = append(out, chain.Wanted{Service: service, Lane: name})
	}
	return out, nil
}

func runCheckChain(ctx context.Context, f *factory, o *checkOptions) error {
	target, head, client, w, err := f.begin(ctx, o)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	rules := chain.Rules{Lane: w.session.Status.Lane, Expect: slices.Concat(o.expect...), Ends: o.leaves}
	var ids []string
	var failed []error
	for range o.samples {
		id, fields := beginTrace()
		ids = append(ids, id)
		got := probe(ctx, client, target, head, string(rules.Lane), fields)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := got.failure(); err != nil { // what it would have called is not in the chain
			failed = append(failed, err)
		}
	}
	var traces []chain.Trace
	err = w.watch(ctx, recordLimit, ids, func(all [][]chain.Seen) bool {
		traces = traces[:0]
		open := false
		for i, seen := range all {
			t := chain.Judge(rules, ids[i], seen)
			open = open || t.Verdict != chain.Complete
			traces = append(traces, t)
		}
		return open
	})
	if err != nil {
		return err
	}
	w.notes(f.io.Err)
	report := printer.NewChain(target.String(), rules.Lane, traces, len(failed))
	if len(failed) > 0 && report.Entered > 0 { // else the error says it
		fmt.Fprintf(f.io.Err, "lane: %d of %d requests failed, their chains may be cut short: %s\n", len(failed), o.samples, printer.Line(failed[0].Error()))
		if hint := hintOf(failed[0], ""); hint != "" {
			fmt.Fprintf(f.io.Err, "      %s\n", hint)
		}
	}
	if o.json {
		err = f.printJSON(&report)
	} else {
		err = printer.PrintChain(f.io, &report)
	}
	switch {
	case err != nil:
		return err
	case report.Entered == 0:
		if len(failed) > 0 {
			return unseenError(failed[0])
		}
		return unseenError(nil)
	case !report.OK:
		return &exitError{code: exitFailed}
	}
	return nil
}

// beginTrace makes a trace: its id, and the headers in which it is written.
func beginTrace() (id string, fields map[string]string) {
	var all tracemap.Sources
	start := all.Begin()
	fields = map[string]string{}
	for _, f := range start.Fields() {
		fields[http.CanonicalHeaderKey(f.Name)] = f.Value
	}
	return start.ID, fields
}
