package cmd

import (
	"context"
	"fmt"

	"lane/pkg/consul"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

type rulesProposeOptions struct {
	file     string
	note     string
	force    bool
	withdraw string
	json     bool
}

// proposalRecord is the JSON form of a proposal.
type proposalRecord struct {
	Schema   string `json:"schema,omitempty"` // not within a list
	ID       string `json:"id"`
	State    string `json:"state,omitempty"` // open | active | overtaken
	Author   string `json:"author"`
	Time     string `json:"time"` // by the author's own clock
	Note     string `json:"note"`
	Base     int    `json:"base"` // the revision that was active; 0 is none
	Document string `json:"document,omitempty"`
	// Already is set when it had been proposed before: author, time and note are the first's.
	Already bool `json:"already,omitempty"`
	// Withdrawn is set by --withdraw.
	Withdrawn bool `json:"withdrawn,omitempty"`
}

func newProposalRecord(p *consul.RuleProposal) *proposalRecord {
	return &proposalRecord{ID: p.ID, Author: p.Author, Time: p.Time, Note: p.Note, Base: p.Base}
}

func newRulesProposeCmd(f *factory) *cobra.Command {
	o := &rulesProposeOptions{}
	c := &cobra.Command{
		Use:   "propose FILE",
		Short: "Propose a document of rules, for somebody else to approve",
		Long: `Check a document as 'lane rules push' does, and keep it as a proposal: it holds nowhere
until 'lane rules approve' is given its ID. The ID is made of the document, so that
what was looked at is what is approved: proposed again, it keeps its first author and
note. A document that is active already is refused. A proposal is overtaken when
another revision becomes active. It takes a token by which one may propose ('lane rules policies').`,
		Example: `  lane rules propose rules.yaml --note 'buyers of the new checkout'
  lane rules propose --withdraw 5f2a1f0e9b9c4c0e8a4d2b7c6e1f3a90`,
		Args: func(c *cobra.Command, args []string) error {
			if o.withdraw != "" {
				return takes()(c, args)
			}
			return takes("FILE")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			if o.withdraw != "" {
				return runRulesWithdraw(c.Context(), f, o)
			}
			o.file = args[0]
			return runRulesPropose(c.Context(), f, o)
		},
	}
	addFlag(c, &o.note, "note", "", anyText("TEXT"), "why, for whoever approves it and for the history")
	c.Flags().BoolVar(&o.force, "force", false, "propose a document with mistakes that do not keep it from being loaded")
	addFlag(c, &o.withdraw, "withdraw", "", aProposal, "remove the proposal with this ID")
	jsonFlag(c, &o.json)
	_ = c.RegisterFlagCompletionFunc("withdraw", f.completeProposals)
	return c
}

func runRulesPropose(ctx context.Context, f *factory, o *rulesProposeOptions) error {
	document, err := f.readDocument(o.file)
	if err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	base, err := activeRevision(ctx, client)
	if err != nil {
		return err
	}
	if err := f.fit(ctx, client, o.file, document, o.force); err != nil {
		return err
	}
	d, err := f.draft(document, o.note, base)
	if err != nil {
		return err
	}
	p, made, err := client.ProposeRules(ctx, d)
	if err != nil {
		return err
	}
	if o.json {
		rec := newProposalRecord(&p)
		rec.Schema, rec.State, rec.Already = "lane.proposal/v1", proposalOpen, !made
		return f.printJSON(rec)
	}
	if _, err := fmt.Fprintln(f.io.Out, p.ID); err != nil {
		return err
	}
	said := "proposed"
	if !made {
		said = fmt.Sprintf("proposed already, by %s at %s: their name and note stay", traffic.Printable(p.Author), traffic.Printable(p.Time))
	}
	_, err = fmt.Fprintf(f.io.Err, "%s; somebody else:  lane rules diff %s, and lane rules approve %s\n", said, p.ID, p.ID)
	return err
}

func runRulesWithdraw(ctx context.Context, f *factory, o *rulesProposeOptions) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	found, err := client.WithdrawRules(ctx, o.withdraw)
	if err != nil {
		return err
	}
	if o.json {
		return f.printJSON(&proposalRecord{Schema: "lane.proposal/v1", ID: o.withdraw, Withdrawn: true})
	}
	line := "withdrawn: " + o.withdraw
	if !found {
		line += " (it was not there)"
	}
	_, err = fmt.Fprintln(f.io.Out, line)
	return err
}
