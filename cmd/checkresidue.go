package cmd

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"time"

	"lane/pkg/chain"
	"lane/pkg/lane"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

// residueLimit bounds each of the two requests, and the wait for their records, so that
// the check takes 10 seconds at most.
const residueLimit = 2 * time.Second

func newCheckResidueCmd(f *factory) *cobra.Command {
	o := &checkOptions{limit: residueLimit}
	c := &cobra.Command{
		Use:   "residue URL",
		Short: "Send a tagged and an untagged request on one connection; the second must keep nothing",
		Long: `Send the URL with GET through the session's proxy twice on one kept connection, tagged
and then untagged, each with a trace of its own, and ask all gateways and sidecars what
they have seen of the second one: a service that keeps a tag in a thread, or in a
client that it uses again, sends the second request on in the lane.

It exits 0 if nothing of the lane is in the second one, 1 if something is, or if one of
the two failed, and 3 if no gateway and no sidecar has seen the second one where the
first one was in the lane: then nothing can be said. It takes 10 seconds at most.`,
		Example:           `  lane check residue http://order-service/api/orders/42`,
		Args:              takes("URL"),
		ValidArgsFunction: f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			o.url = args[0]
			return runCheckResidue(c.Context(), f, o)
		},
	}
	o.flags(f, c)
	return c
}

// residueResult is the JSON form of `lane check residue`.
type residueResult struct {
	Schema   string          `json:"schema"`
	Check    string          `json:"check"`
	URL      string          `json:"url"`
	Lane     lane.Name       `json:"lane"`
	OK       bool            `json:"ok"`
	Decision string          `json:"decision"` // of the second request, as received
	Hops     int             `json:"hops"`     // that routers have seen of it
	Residues []chain.Residue `json:"residues"`
}

func runCheckResidue(ctx context.Context, f *factory, o *checkOptions) error {
	target, head, client, w, err := f.begin(ctx, o)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	reused := false
	watched := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	var ids []string
	var got sent
	for _, tag := range []string{string(w.session.Status.Lane), lane.BaselineTag} {
		id, fields := beginTrace()
		ids = append(ids, id)
		got = probe(watched, client, target, head, tag, fields)
		if err := got.failure(); err != nil {
			return fmt.Errorf("the request with the tag %s failed, what it would have called cannot be checked: %w", tag, err)
		}
	}
	if !reused {
		return fmt.Errorf("the connection was not kept: the second request cannot find what the first one left")
	}
	res := residueResult{Schema: printer.CheckSchema, Check: "residue", URL: traffic.MaskURL(target.String()), Lane: w.session.Status.Lane, Decision: got.decision}
	met := 0
	err = w.watch(ctx, residueLimit, ids, func(all [][]chain.Seen) bool {
		res.Residues, res.Hops, met = chain.Residues(w.session.Status.Lane, all[0], all[1])
		return true // what is kept may be used late
	})
	if err != nil {
		return err
	}
	w.notes(f.io.Err)
	switch {
	case res.Hops == 0:
		return unseenError(nil)
	case met == 0 && len(res.Residues) == 0: // what was never there cannot stay behind
		return &noDataError{msg: fmt.Sprintf("no gateway and no sidecar that has seen the untagged request has seen the tagged one in lane %s: nothing can be said", res.Lane),
			hint: "give the URL by a service's name, which the proxy tags; where the tag is lost: lane check chain " + o.url}
	}
	if res.OK = len(res.Residues) == 0; o.json {
		err = f.printJSON(&res)
	} else {
		err = f.printResidues(&res)
	}
	if err == nil && !res.OK {
		err = &exitError{code: exitFailed}
	}
	return err
}

func (f *factory) printResidues(res *residueResult) error {
	for _, r := range res.Residues {
		if _, err := fmt.Fprintf(f.io.Out, "RESIDUE %s -> %s: %s\n", printer.Line(r.From), printer.Line(r.To), printer.Line(r.Why)); err != nil {
			return err
		}
	}
	if res.OK {
		_, err := fmt.Fprintf(f.io.Out, "CLEAN: nothing of lane %s at the %d hops of the untagged request\n", res.Lane, res.Hops)
		return err
	}
	return nil
}
