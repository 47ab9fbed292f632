package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"lane/pkg/consul"
	"lane/pkg/rules"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

func newRulesCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "rules",
		Short: "Check, publish and take back the rules that color requests at the entry",
		Long: `The rules of an environment are one document (docs/rules.md). It is kept in Consul's
key-value store as revisions that never change; each says who made it, when and why.
Gateways and sidecars follow the active one, and swap it as a whole. A document that
cannot be loaded never replaces a good one.

Where one person alone is not to change them, give tokens by 'lane rules policies':
one may propose, another may approve.`,
		Example: `  lane rules lint rules.yaml
  lane rules diff rules.yaml --sample requests.json
  lane rules push rules.yaml --note 'buyers of the new checkout' --wait 10s
  lane rules history
  lane rules rollback 7`,
		Args: subcommands,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRulesLintCmd(f), newRulesDiffCmd(f), newRulesPushCmd(f), newRulesGetCmd(f), newRulesHistoryCmd(f),
		newRulesRollbackCmd(f), newRulesProposeCmd(f), newRulesApproveCmd(f), newRulesWhitelistCmd(f), newRulesPoliciesCmd(f))
	return c
}

// revisionRecord is the JSON form of a revision of the rules.
type revisionRecord struct {
	Schema     string `json:"schema,omitempty"` // not within a history
	Revision   int    `json:"revision"`
	Active     bool   `json:"active"`
	Changed    bool   `json:"changed"` // by this command
	Author     string `json:"author"`
	Time       string `json:"time"` // by the author's own clock
	Note       string `json:"note"`
	SHA256     string `json:"sha256"`
	RollbackOf int    `json:"rollback_of,omitempty"`
	Proposal   string `json:"proposal,omitempty"`
	ProposedBy string `json:"proposed_by,omitempty"`
	Document   string `json:"document,omitempty"`
	// Routers are what the gateways and sidecars said, with --wait.
	Routers []routerState `json:"routers,omitempty"`
}

const revisionSchema = "lane.revision/v1"

func newRevisionRecord(r *consul.RuleRevision) *revisionRecord {
	return &revisionRecord{Revision: r.Revision, Author: r.Author, Time: r.Time, Note: r.Note, SHA256: r.SHA256,
		RollbackOf: r.RollbackOf, Proposal: r.Proposal, ProposedBy: r.ProposedBy}
}

// origin says in words where a revision's document is from, if not from a push.
func origin(r *consul.RuleRevision) string {
	switch {
	case r.RollbackOf > 0:
		return "rollback to " + strconv.Itoa(r.RollbackOf)
	case r.Proposal != "":
		return "proposed by " + r.ProposedBy
	}
	return ""
}

// draft is a document as it goes into the registry: who, when, why.
func (f *factory) draft(document []byte, note string, base int) (consul.RuleDraft, error) {
	s, err := f.settings(given{})
	if err != nil {
		return consul.RuleDraft{}, err
	}
	return consul.RuleDraft{Document: document, Author: s.Owner, Time: f.now().UTC().Format(time.RFC3339), Note: note, Base: base}, nil
}

// readDocument reads a document from a file; - is standard input.
func (f *factory) readDocument(name string) ([]byte, error) {
	in := f.io.In
	if name != "-" {
		if err := checkFile(name); err != nil {
			return nil, usagef("name the file with the rules; - is standard input", "%v", err)
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // only read
		in = file
	}
	b, err := io.ReadAll(io.LimitReader(in, 4<<20)) // what is longer is refused, with its place
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}

// checkDocument says why a word names no document.
func checkDocument(word string) error {
	if n, err := strconv.Atoi(word); exists(word) || word == "-" || err == nil && n > 0 || consul.IsProposalID(word) {
		return nil
	}
	return fmt.Errorf("%q is no file, no revision and no proposal's ID", word)
}

// document finds what a word on the command line means: a file, a revision's
// number, or a proposal's ID.
func (f *factory) document(ctx context.Context, client *consul.Client, word string) ([]byte, error) {
	if exists(word) || word == "-" {
		return f.readDocument(word)
	}
	if n, err := strconv.Atoi(word); err == nil && n > 0 {
		r, err := client.Rules(ctx, n)
		return r.Document, err
	}
	if consul.IsProposalID(word) {
		p, err := client.RuleProposal(ctx, word)
		return p.Document, err
	}
	return nil, usagef("`lane rules history` and `lane rules approve` list them", "%v", checkDocument(word))
}

// fit parses and lints a document on its way into the registry. Warnings are
// said; what is a mistake keeps it out, if force does not let it in: what cannot
// be loaded never gets in. The services at which requests enter are held to the
// registry's, if it shows all of them.
func (f *factory) fit(ctx context.Context, client *consul.Client, name string, document []byte, force bool) error {
	set, err := rules.Parse(document)
	if err != nil {
		return &rulesError{name: name, err: err}
	}
	services, err := client.EveryService(ctx)
	var denied *consul.DeniedError
	switch {
	case errors.As(err, &denied) || err == nil && services == nil:
		if _, err := fmt.Fprintf(f.io.Err, "note: this token does not see every service: whether each entry of %s is one was not checked\n", name); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	mistakes := 0
	for _, x := range set.Lint(rules.LintOptions{Services: services}) {
		kind := "warning"
		if !x.Warning {
			kind = "mistake"
			mistakes++
		}
		if _, err := fmt.Fprintf(f.io.Err, "%s: %s: %s\n", name, kind, traffic.Printable(x.String())); err != nil {
			return err
		}
	}
	if mistakes > 0 && !force {
		return &rulesError{name: name, err: fmt.Errorf("%d to mend (--force takes it all the same)", mistakes)}
	}
	return nil
}

// rulesError says that a document is not fit to be published.
type rulesError struct {
	name string
	err  error
}

func (e *rulesError) Error() string {
	lines := strings.Split(e.err.Error(), "\n")
	for i, l := range lines {
		lines[i] = traffic.Printable(l)
	}
	return e.name + ": " + strings.Join(lines, "\n")
}

func (e *rulesError) Unwrap() error { return e.err }
