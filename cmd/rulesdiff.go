package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"lane/pkg/consul"
	"lane/pkg/printer"
	"lane/pkg/rules"

	"github.com/spf13/cobra"
)

type rulesDiffOptions struct {
	to, from string
	sample   string
	json     bool
}

// rulesDiff is the JSON form of `lane rules diff`.
type rulesDiff struct {
	Schema string `json:"schema"`
	From   string `json:"from"` // "revision 7", a file, or "no rules"
	To     string `json:"to"`
	// Added, Removed and Changed are the IDs of rules.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`
	// Samples are how many requests were compared, and Requests those that change lane.
	Samples  int             `json:"samples"`
	Requests []requestChange `json:"requests"`
}

type requestChange struct {
	Name     string `json:"name"`
	From     string `json:"from"` // a lane, baseline, or refused
	To       string `json:"to"`
	FromRule string `json:"from_rule"` // empty: none, or the request's own tag
	ToRule   string `json:"to_rule"`
}

func newRulesDiffCmd(f *factory) *cobra.Command {
	o := &rulesDiffOptions{}
	c := &cobra.Command{
		Use:   "diff NEW --sample FILE",
		Short: "Show which sample requests would change their lane",
		Long: `Compare a document of rules with the active one: which rules are new, gone or other,
and, with --sample, which requests of a file would change their lane. NEW is a file, -,
a revision's number or a proposal's ID; so is --from, for another one than the active
one. Nothing is sent, and nothing is changed.

The samples are a JSON list; of each request, say what matters:
  [{"name": "a buyer", "entry": "storefront", "path": "/cart?x=1", "host": "shop.example",
    "headers": {"X-User-Id": "u-1"}, "remote": "10.1.2.3", "whitelisted": ["buyer-api"]}]`,
		Example: `  lane rules diff rules.yaml --sample requests.json
  lane rules diff 8 --from 7`,
		Args: takes("NEW"),
		RunE: func(c *cobra.Command, args []string) error {
			o.to = args[0]
			return runRulesDiff(c.Context(), f, o)
		},
	}
	addFlag(c, &o.sample, "sample", "", aFile, "file with the requests to compare by")
	addFlag(c, &o.from, "from", "", checked("DOCUMENT", checkDocument), "compare with this one instead of the active one")
	jsonFlag(c, &o.json)
	return c
}

func runRulesDiff(ctx context.Context, f *factory, o *rulesDiffOptions) error {
	samples, err := readSamples(o.sample)
	if err != nil {
		return err
	}
	client, err := f.registry()
	if err != nil {
		return err
	}
	defer client.Close()
	to, err := f.parseDocument(ctx, client, o.to)
	if err != nil {
		return err
	}
	res := &rulesDiff{Schema: "lane.rulesdiff/v1", From: o.from, To: o.to, Requests: []requestChange{}}
	var from *rules.Set
	if o.from != "" {
		from, err = f.parseDocument(ctx, client, o.from)
	} else {
		from, res.From, err = activeSet(ctx, client)
	}
	if err != nil {
		return err
	}
	res.Added, res.Removed, res.Changed = compareRules(from, to)
	if o.sample != "" {
		if err := f.compareSamples(samples, from, to, res); err != nil {
			return err
		}
	}
	if o.json {
		return f.printJSON(res)
	}
	return f.printDiff(res)
}

func (f *factory) parseDocument(ctx context.Context, client *consul.Client, word string) (*rules.Set, error) {
	b, err := f.document(ctx, client, word)
	if err != nil {
		return nil, err
	}
	set, err := rules.Parse(b)
	if err != nil {
		return nil, &rulesError{name: word, err: err}
	}
	return set, nil
}

// activeSet is the active rules, and what to call them; none is no error.
func activeSet(ctx context.Context, client *consul.Client) (*rules.Set, string, error) {
	r, err := client.ActiveRules(ctx)
	var none *consul.NoRevisionError
	if errors.As(err, &none) && none.Revision == 0 {
		return nil, "no rules", nil
	}
	if err != nil {
		return nil, "", err
	}
	name := fmt.Sprintf("revision %d", r.Revision)
	set, err := rules.Parse(r.Document)
	if err != nil {
		return nil, "", &rulesError{name: name, err: err}
	}
	return set, name, nil
}

// compareRules finds the rules that are new, gone, or not as they were. Where
// one stands in the document is no difference.
func compareRules(from, to *rules.Set) (added, removed, changed []string) {
	added, removed, changed = []string{}, []string{}, []string{}
	old := map[string]rules.Info{}
	for _, r := range from.Rules() {
		r.Line = 0
		old[r.ID] = r
	}
	for _, r := range to.Rules() {
		r.Line = 0
		was, known := old[r.ID]
		delete(old, r.ID)
		switch {
		case !known:
			added = append(added, r.ID)
		case !reflect.DeepEqual(was, r):
			changed = append(changed, r.ID)
		}
	}
	for id := range old {
		removed = append(removed, id)
	}
	slices.Sort(added)
	slices.Sort(removed)
	slices.Sort(changed)
	return added, removed, changed
}

// readSamples reads the requests of a file; without a file there are none.
func readSamples(name string) ([]rules.Sample, error) {
	if name == "" {
		return nil, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	samples, err := rules.ParseSamples(file)
	if err != nil {
		return nil, usagef("`lane rules diff --help` shows their form", "--sample: %q: %v", name, err)
	}
	return samples, nil
}

func (f *factory) compareSamples(samples []rules.Sample, from, to *rules.Set, res *rulesDiff) error {
	s, err := f.settings(given{})
	if err != nil {
		return err
	}
	carriers, err := s.Carriers()
	if err != nil {
		return err
	}
	changes, err := rules.Diff(from, to, samples, carriers)
	if err != nil {
		return usagef("`lane rules diff --help` shows their form", "--sample: %v", err)
	}
	res.Samples = len(samples)
	for _, c := range changes {
		res.Requests = append(res.Requests, requestChange{Name: c.Sample.Name, From: c.From.Lane(), To: c.To.Lane(),
			FromRule: c.From.Rule, ToRule: c.To.Rule})
	}
	return nil
}

func (f *factory) printDiff(res *rulesDiff) error {
	t := printer.NewTable(f.io).Whole()
	for _, x := range []struct {
		sign printer.Cell
		ids  []string
	}{{printer.As(printer.Good, "+"), res.Added}, {printer.As(printer.Bad, "-"), res.Removed}, {printer.As(printer.Warn, "~"), res.Changed}} {
		for _, id := range x.ids {
			t.Row(x.sign, printer.Text("rule"), printer.Text(id))
		}
	}
	for _, c := range res.Requests {
		t.Row(printer.As(printer.Warn, "~"), printer.Text("request"), printer.Text(c.Name), printer.As(printer.Lane, c.From),
			printer.As(printer.Lane, c.To), printer.As(printer.Dim, because(c)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	line := fmt.Sprintf("%s to %s: %s", res.From, res.To, differences(res))
	_, err := fmt.Fprintln(f.io.Err, line)
	return err
}

func because(c requestChange) string {
	return "rule " + cmp.Or(c.FromRule, "none") + " -> " + cmp.Or(c.ToRule, "none")
}

func differences(res *rulesDiff) string {
	parts := []string{fmt.Sprintf("%s added, %d removed, %d changed", count(len(res.Added), "rule"), len(res.Removed), len(res.Changed))}
	if res.Samples > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d requests change lane", len(res.Requests), res.Samples))
	}
	return strings.Join(parts, "; ")
}
