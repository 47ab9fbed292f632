package cmd

import (
	"context"
	"fmt"
	"strconv"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type rulesApproveOptions struct {
	publishOptions
	id    string
	force bool
}

// The states of a proposal.
const (
	proposalOpen      = "open"
	proposalActive    = "active"    // it was approved, and holds
	proposalOvertaken = "overtaken" // another revision has become active since
)

// proposalList is the JSON form of `lane rules approve` without an ID.
type proposalList struct {
	Schema    string            `json:"schema"`
	Proposals []*proposalRecord `json:"proposals"`
}

func newRulesApproveCmd(f *factory) *cobra.Command {
	o := &rulesApproveOptions{}
	c := &cobra.Command{
		Use:   "approve [ID]",
		Short: "Make a proposal the active rules; without an ID, list the proposals",
		Long: `Make what somebody has proposed the active rules: a new revision with your name and
theirs. 'lane rules get ID' prints it, 'lane rules diff ID --sample FILE' shows what it
changes. A proposal that was overtaken by another revision is refused. It takes a token
by which one may approve ('lane rules policies'). --wait is that of 'lane rules push'.`,
		Args: takes("[ID]"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listProposals(c.Context(), f, o.json)
			}
			o.id = args[0]
			return runRulesApprove(c.Context(), f, o)
		},
		ValidArgsFunction: f.completeProposals,
	}
	c.Flags().BoolVar(&o.force, "force", false, "approve a document with mistakes that do not keep it from being loaded")
	o.flags(c)
	return c
}

func runRulesApprove(ctx context.Context, f *factory, o *rulesApproveOptions) error {
	if err := checkProposal(o.id); err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	p, err := client.RuleProposal(ctx, o.id)
	if err != nil {
		return err
	}
	if err := f.fit(ctx, client, "proposal "+o.id, p.Document, o.force); err != nil {
		return err
	}
	d, err := f.draft(nil, o.note, p.Base)
	if err != nil {
		return err
	}
	r, changed, err := client.ApproveRules(ctx, o.id, d)
	if err != nil {
		return err
	}
	return f.published(ctx, client, &o.publishOptions, &r, changed)
}

func listProposals(ctx context.Context, f *factory, asJSON bool) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	list, err := proposals(ctx, client)
	if err != nil {
		return err
	}
	if asJSON {
		return f.printJSON(proposalList{Schema: "lane.proposals/v1", Proposals: list})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(f.io.Err, "no proposals")
		return err
	}
	roles := map[string]printer.Role{proposalOpen: printer.Warn, proposalActive: printer.Good, proposalOvertaken: printer.Dim}
	t := printer.NewTable(f.io, "ID", "STATE", "BASE", "AUTHOR", "TIME", "NOTE").Whole()
	for _, p := range list {
		t.Row(printer.Text(p.ID), printer.As(roles[p.State], p.State), printer.Text(strconv.Itoa(p.Base)), printer.Text(p.Author),
			printer.As(printer.Dim, p.Time), printer.Text(p.Note))
	}
	return t.Flush()
}

// proposals are all proposals with their states.
func proposals(ctx context.Context, client *consul.Client) ([]*proposalRecord, error) {
	all, err := client.RuleProposals(ctx)
	if err != nil {
		return nil, err
	}
	last, active, err := client.RuleHistory(ctx, 1)
	if err != nil {
		return nil, err
	}
	list := make([]*proposalRecord, len(all))
	for i := range all {
		list[i] = newProposalRecord(&all[i])
		switch {
		case len(last) > 0 && last[0].Revision == active && last[0].Proposal == all[i].ID:
			list[i].State = proposalActive
		case all[i].Base == active:
			list[i].State = proposalOpen
		default:
			list[i].State = proposalOvertaken
		}
	}
	return list, nil
}

// completeProposals completes the IDs of the proposals.
func (f *factory) completeProposals(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.completeFirst(c, args, func(ctx context.Context, client *consul.Client) (out []string, err error) {
		list, err := proposals(ctx, client)
		for _, p := range list {
			out = append(out, p.ID+"\t"+p.State+" "+traffic.Printable(p.Note))
		}
		return out, err
	})
}
