package cmd

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type rulesHistoryOptions struct {
	limit int
	json  bool
}

// ruleHistory is the JSON form of `lane rules history`.
type ruleHistory struct {
	Schema    string            `json:"schema"`
	Active    int               `json:"active"` // 0: none
	Revisions []*revisionRecord `json:"revisions"`
}

func newRulesHistoryCmd(f *factory) *cobra.Command {
	o := &rulesHistoryOptions{}
	c := &cobra.Command{
		Use:   "history",
		Short: "List the revisions of the rules: who, when, why; the newest first",
		Args:  takes(),
		RunE:  func(c *cobra.Command, _ []string) error { return runRulesHistory(c.Context(), f, o) },
	}
	addFlag(c, &o.limit, "limit,n", "20", number(1, math.MaxInt32), "how many, at most")
	jsonFlag(c, &o.json)
	return c
}

func runRulesHistory(ctx context.Context, f *factory, o *rulesHistoryOptions) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	list, active, err := client.RuleHistory(ctx, o.limit)
	if err != nil {
		return err
	}
	res := &ruleHistory{Schema: "lane.history/v1", Active: active, Revisions: []*revisionRecord{}}
	t := printer.NewTable(f.io, "REVISION", "", "AUTHOR", "TIME", "FROM", "NOTE").Whole()
	for i := range list {
		r := newRevisionRecord(&list[i])
		r.Active = r.Revision == active
		res.Revisions = append(res.Revisions, r)
		state := printer.Text("")
		if r.Active {
			state = printer.As(printer.Good, "active")
		}
		t.Row(printer.Text(strconv.Itoa(r.Revision)), state, printer.Text(r.Author), printer.As(printer.Dim, r.Time),
			printer.Text(origin(&list[i])), printer.Text(r.Note))
	}
	if o.json {
		return f.printJSON(res)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "no rules in the registry")
		return err
	}
	return t.Flush()
}

func newRulesGetCmd(f *factory) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "get [REVISION | PROPOSAL]",
		Short: "Print the active rules, or those of a revision or a proposal",
		Args:  takes("[REVISION | PROPOSAL]"),
		RunE: func(c *cobra.Command, args []string) error {
			word := ""
			if len(args) > 0 {
				word = args[0]
			}
			return runRulesGet(c.Context(), f, word, asJSON)
		},
		ValidArgsFunction: f.completeRevisions,
	}
	jsonFlag(c, &asJSON)
	return c
}

func runRulesGet(ctx context.Context, f *factory, word string, asJSON bool) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	if consul.IsProposalID(word) {
		p, err := client.RuleProposal(ctx, word)
		if err != nil {
			return err
		}
		if asJSON {
			rec := newProposalRecord(&p)
			rec.Schema, rec.Document = "lane.proposal/v1", string(p.Document)
			return f.printJSON(rec)
		}
		return f.printDocument(p.Document)
	}
	r, err := client.ActiveRules(ctx)
	active := r.Revision
	if word != "" {
		n, nerr := strconv.Atoi(word)
		if nerr != nil || n < 1 {
			return usagef("`lane rules history` lists the revisions", "%q is neither a revision nor a proposal", word)
		}
		r, err = client.Rules(ctx, n)
	}
	if err != nil {
		return err
	}
	if asJSON {
		rec := newRevisionRecord(&r)
		rec.Schema, rec.Active, rec.Document = revisionSchema, r.Revision == active, string(r.Document)
		return f.printJSON(rec)
	}
	return f.printDocument(r.Document)
}

// printDocument writes a document as it is; onto a terminal without what a
// terminal would act on, for anybody may have written it.
func (f *factory) printDocument(b []byte) error {
	if f.io.IsStdoutTTY {
		lines := strings.Split(string(b), "\n")
		for i, l := range lines {
			lines[i] = traffic.Printable(l)
		}
		b = []byte(strings.Join(lines, "\n"))
	}
	_, err := f.io.Out.Write(b)
	return err
}

// completeRevisions completes the numbers of the last revisions.
func (f *factory) completeRevisions(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.completeFirst(c, args, func(ctx context.Context, client *consul.Client) (out []string, err error) {
		list, _, err := client.RuleHistory(ctx, 10)
		for i := range list {
			out = append(out, fmt.Sprintf("%d\t%s", list[i].Revision, traffic.Printable(list[i].Note)))
		}
		return out, err
	})
}
