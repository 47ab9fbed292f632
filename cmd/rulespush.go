package cmd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

// publishOptions are those of every command that makes a revision active.
type publishOptions struct {
	note string
	wait time.Duration
	json bool
}

func (o *publishOptions) flags(c *cobra.Command) {
	addFlag(c, &o.note, "note", "", anyText("TEXT"), "why, for the history")
	addFlag(c, &o.wait, "wait", "", duration(0, longest), "wait so long until every gateway has applied it, else exit 1")
	jsonFlag(c, &o.json)
}

type rulesPushOptions struct {
	publishOptions
	file  string
	force bool
	base  int
	based bool // base was given
}

func newRulesPushCmd(f *factory) *cobra.Command {
	o := &rulesPushOptions{}
	c := &cobra.Command{
		Use:   "push FILE",
		Short: "Make a document the active rules, as a new revision",
		Long: `Check a document as 'lane rules lint --registry' does, and make it the active rules: a new revision
with your name, the time and --note. - is standard input. A document that is active
already makes no revision. If somebody else's revision comes in between, nothing is
written; with --base N, also if another revision than N is active when it begins.

With --wait it shows which revision each gateway has applied, and exits 1 if one of
them does not apply the new one in that time. A sidecar without --rules has none.
A gateway that was started with --rules FILE does not follow them, and is not waited for.`,
		Example: `  lane rules push rules.yaml --note 'buyers of the new checkout'
  lane rules push rules.yaml --wait 10s`,
		Args: takes("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			o.file = args[0]
			o.based = c.Flags().Changed("base")
			return runRulesPush(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.force, "force", false, "push a document with mistakes that do not keep it from being loaded")
	addFlag(c, &o.base, "base", "", number(0, math.MaxInt32), "push only if this `REVISION` is the active one; 0 is none")
	o.flags(c)
	return c
}

func runRulesPush(ctx context.Context, f *factory, o *rulesPushOptions) error {
	document, err := f.readDocument(o.file)
	if err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	active, err := activeRevision(ctx, client)
	switch {
	case err != nil:
		return err
	case !o.based:
		o.base = active
	case active > 0 && o.base != active:
		// Also if it holds this very document: its author has not seen what is active.
		return &consul.RulesMovedError{Base: o.base, Active: active}
	}
	if err := f.fit(ctx, client, o.file, document, o.force); err != nil {
		return err
	}
	d, err := f.draft(document, o.note, o.base)
	if err != nil {
		return err
	}
	r, changed, err := client.PushRules(ctx, d)
	if err != nil {
		return err
	}
	return f.published(ctx, client, &o.publishOptions, &r, changed)
}

// activeRevision is the number of the active revision, 0 if there is none, or
// none that can be read: a push mends that.
func activeRevision(ctx context.Context, client *consul.Client) (int, error) {
	r, err := client.ActiveRules(ctx)
	var none *consul.NoRevisionError
	var broken *consul.BrokenRevisionError
	if errors.As(err, &none) || errors.As(err, &broken) {
		return r.Revision, nil
	}
	return r.Revision, err
}

// published says what is active now, and waits for those who are to apply it.
func (f *factory) published(ctx context.Context, client *consul.Client, o *publishOptions, r *consul.RuleRevision, changed bool) error {
	rec := newRevisionRecord(r)
	rec.Schema, rec.Active, rec.Changed = revisionSchema, true, changed
	if !o.json {
		line := fmt.Sprintf("revision %d of the rules is active", r.Revision)
		if from := origin(r); from != "" && changed {
			line += ", " + traffic.Printable(from)
		}
		if !changed {
			line += " already, with this document"
		}
		if _, err := fmt.Fprintln(f.io.Out, line); err != nil {
			return err
		}
	}
	var failed error
	if o.wait > 0 {
		rec.Routers, failed = waitForRules(ctx, client, r.Revision, o.wait)
		if failed != nil && rec.Routers == nil {
			return failed
		}
	}
	own := 0
	for _, s := range rec.Routers {
		if s.State == routerOwn {
			own++
		}
	}
	if own > 0 {
		fmt.Fprintf(f.io.Err, "lane: %d of %d routers have the rules of a file: they do not follow these, and were not waited for\n", own, len(rec.Routers))
	}
	if o.json {
		if err := f.printJSON(rec); err != nil {
			return err
		}
		return failed
	}
	if err := f.printRouters(rec.Routers); err != nil {
		return err
	}
	return failed
}

// routerState is what a gateway or a sidecar has applied.
type routerState struct {
	ID       string `json:"id"`
	Service  string `json:"service"`
	Admin    string `json:"admin"`
	State    string `json:"state"`    // applied | waiting | refused | silent | dead | none | own
	Revision int    `json:"revision"` // that holds there
	Why      string `json:"why,omitempty"`
}

// The states of a router.
const (
	routerApplied = "applied"
	routerWaiting = "waiting" // it answers, and has an older revision
	routerRefused = "refused" // it says that the revision cannot hold there
	routerSilent  = "silent"  // it does not answer
	routerDead    = "dead"    // nor does the registry think that it lives
	routerNone    = "none"    // a sidecar that colors nothing: no rules to apply
	routerOwn     = "own"     // a gateway with a file's rules: it follows none in the registry
)

// rulesEvery is how often the routers are asked.
const rulesEvery = 200 * time.Millisecond

// waitForRules asks the routers until all have applied a revision, or it is known
// that they will not, limit at most. A dead one is not waited for.
func waitForRules(ctx context.Context, client *consul.Client, revision int, limit time.Duration) ([]routerState, error) {
	a, until := newAdmin(), time.Now().Add(limit)
	for {
		all, err := routers(ctx, client) // each time: one that starts now counts, too
		if err != nil {
			return nil, err
		}
		states := each(all, func(r consul.Router) routerState { return a.stateOf(ctx, r, revision) })
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		open, missing := 0, 0
		for _, s := range states {
			switch s.State {
			case routerWaiting, routerSilent:
				open++
				missing++
			case routerRefused:
				missing++
			}
		}
		if open == 0 || !time.Now().Before(until) {
			return states, verdictOf(revision, len(states), missing)
		}
		if err := sleep(ctx, min(rulesEvery, time.Until(until))); err != nil {
			return nil, err
		}
	}
}

func verdictOf(revision, all, missing int) error {
	if missing == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d routers have not applied revision %d of the rules", missing, all, revision)
}

func (a *admin) stateOf(ctx context.Context, r consul.Router, revision int) routerState {
	s := routerState{ID: r.ID, Service: r.Service, Admin: r.Admin, State: routerWaiting}
	rev, err := a.rev(ctx, r)
	s.Revision, s.Why = rev.Revision, rev.Why
	switch {
	case err != nil && dead(r):
		s.State, s.Why = routerDead, err.Error()
	case err != nil:
		s.State, s.Why = routerSilent, err.Error()
	case rev.Own:
		s.State, s.Why = routerOwn, "it has the rules of a file (--rules), and does not follow these"
	case r.Service == consul.SidecarService && !rev.Follows && rev.Revision == 0 && rev.Refused == 0:
		s.State = routerNone
	case rev.Revision >= revision: // a newer one may have come in between
		s.State = routerApplied
	case rev.Refused >= revision:
		s.State = routerRefused
	}
	return s
}

func (f *factory) printRouters(all []routerState) error {
	roles := map[string]printer.Role{routerApplied: printer.Good, routerWaiting: printer.Warn, routerDead: printer.Dim, routerNone: printer.Dim, routerOwn: printer.Dim}
	t := printer.NewTable(f.io, "ROUTER", "STATE", "REVISION", "ADMIN", "WHY").Whole()
	for _, s := range all {
		role, known := roles[s.State]
		if !known {
			role = printer.Bad
		}
		rev := "-"
		if s.Revision > 0 {
			rev = strconv.Itoa(s.Revision)
		}
		t.Row(printer.Text(s.ID), printer.As(role, s.State), printer.Text(rev), printer.Text(s.Admin),
			printer.Text(strings.ReplaceAll(s.Why, "\n", "; ")))
	}
	return t.Flush()
}
