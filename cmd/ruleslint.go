package cmd

import (
	"context"
	"fmt"
	"strconv"

	"lane/pkg/printer"
	"lane/pkg/rules"

	"github.com/spf13/cobra"
)

type rulesLintOptions struct {
	file     string
	registry bool
	json     bool
}

// lintResult is the JSON form of `lane rules lint`.
type lintResult struct {
	Schema   string        `json:"schema"`
	File     string        `json:"file"`
	OK       bool          `json:"ok"` // no mistake; warnings may be there
	Findings []lintFinding `json:"findings"`
}

type lintFinding struct {
	Code    string `json:"code"`
	Warning bool   `json:"warning"`
	Rule    string `json:"rule"`
	Line    int    `json:"line"`
	Words   string `json:"words"`
}

func newRulesLintCmd(f *factory) *cobra.Command {
	o := &rulesLintOptions{}
	c := &cobra.Command{
		Use:   "lint FILE",
		Short: "Find what is wrong with a document of rules",
		Long: `Find all that keeps a document from being loaded, and rules that never match, or match
more than is likely meant (docs/rules.md lists what is found). It exits 1 if there is
a mistake; warnings alone are no failure. - is standard input. It asks no registry,
except with --registry, for the names of the services at which requests enter.`,
		Args: takes("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			o.file = args[0]
			return runRulesLint(c.Context(), f, o)
		},
	}
	c.Flags().BoolVar(&o.registry, "registry", false, "check the entry services against those of the registry")
	jsonFlag(c, &o.json)
	return c
}

func runRulesLint(ctx context.Context, f *factory, o *rulesLintOptions) error {
	document, err := f.readDocument(o.file)
	if err != nil {
		return err
	}
	var opts rules.LintOptions
	if o.registry {
		client, err := f.registry()
		if err != nil {
			return err
		}
		defer client.Close()
		if opts.Services, err = client.Services(ctx); err != nil {
			return err
		}
	}
	res := &lintResult{Schema: "lane.lint/v1", File: o.file, OK: true, Findings: []lintFinding{}}
	for _, x := range rules.Lint(document, opts) {
		res.OK = res.OK && x.Warning
		res.Findings = append(res.Findings, lintFinding{Code: string(x.Code), Warning: x.Warning, Rule: x.Rule, Line: x.Line, Words: x.Words})
	}
	if err := f.printLint(o.json, res); err != nil {
		return err
	}
	if !res.OK {
		return &exitError{code: exitFailed}
	}
	return nil
}

func (f *factory) printLint(asJSON bool, res *lintResult) error {
	if asJSON {
		return f.printJSON(res)
	}
	if len(res.Findings) == 0 {
		_, err := fmt.Fprintf(f.io.Err, "%s: nothing found\n", res.File)
		return err
	}
	t := printer.NewTable(f.io, "LINE", "", "CODE", "RULE", "WHAT").Whole()
	for _, x := range res.Findings {
		kind, rule, line := printer.As(printer.Bad, "mistake"), x.Rule, "-"
		if x.Warning {
			kind = printer.As(printer.Warn, "warning")
		}
		if rule == "" {
			rule = "-"
		}
		if x.Line > 0 {
			line = strconv.Itoa(x.Line)
		}
		t.Row(printer.Text(line), kind, printer.Text(x.Code), printer.Text(rule), printer.Text(x.Words))
	}
	return t.Flush()
}
