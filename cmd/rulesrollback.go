package cmd

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
)

type rulesRollbackOptions struct {
	publishOptions
	revision int
}

func newRulesRollbackCmd(f *factory) *cobra.Command {
	o := &rulesRollbackOptions{}
	c := &cobra.Command{
		Use:   "rollback REVISION",
		Short: "Make the document of an old revision the active rules again",
		Long: `Make a new revision that holds the document of an old one. The revisions in between stay
in the history. --wait is that of 'lane rules push'.`,
		Example: `  lane rules rollback 7 --note 'buyers saw the old prices' --wait 10s`,
		Args:    takes("REVISION"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 1 {
				return usagef("`lane rules history` lists the revisions", "%q is no revision", args[0])
			}
			o.revision = n
			return runRulesRollback(c.Context(), f, o)
		},
		ValidArgsFunction: f.completeRevisions,
	}
	o.flags(c)
	return c
}

func runRulesRollback(ctx context.Context, f *factory, o *rulesRollbackOptions) error {
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	base, err := activeRevision(ctx, client)
	if err != nil {
		return err
	}
	old, err := client.Rules(ctx, o.revision)
	if err != nil {
		return err
	}
	// It was active once, but what loads it now may be a newer lane.
	if err := f.fit(ctx, client, "revision "+strconv.Itoa(o.revision), old.Document, true); err != nil {
		return err
	}
	d, err := f.draft(nil, o.note, base)
	if err != nil {
		return err
	}
	r, changed, err := client.RollbackRules(ctx, o.revision, d)
	if err != nil {
		return err
	}
	return f.published(ctx, client, &o.publishOptions, &r, changed)
}
