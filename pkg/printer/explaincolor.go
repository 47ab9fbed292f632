package printer

import (
	"fmt"
	"strconv"

	"lane/pkg/iostreams"
	"lane/pkg/rules"
	"lane/pkg/traffic"
)

// ExplainedColor is how rules colored a request: part of an Explanation.
type ExplainedColor struct {
	Rules    string          `json:"rules"`    // a file, "revision 7", or "no rules"
	Entry    string          `json:"entry"`    // the service at which it enters
	Source   string          `json:"source"`   // header, whitelist, rule, percentage or none
	Rule     string          `json:"rule"`     // that gave the lane; empty: none
	Lane     string          `json:"lane"`     // a lane, baseline, or refused
	Rejected string          `json:"rejected"` // why the request's own tag does not count
	Asked    []ExplainedRule `json:"asked"`    // up to the one that gave the lane
	Warnings []string        `json:"warnings"`
}

// ExplainedRule is what became of one rule.
type ExplainedRule struct {
	Rule     string  `json:"rule"`
	Source   string  `json:"source"`
	Priority int     `json:"priority"`
	Line     int     `json:"line"` // in the document
	Lane     string  `json:"lane"`
	Hit      bool    `json:"hit"`
	Why      string  `json:"why"`       // it does not match; empty for a hit
	Percent  float64 `json:"percent"`   // of a percentage
	Bucket   *int    `json:"bucket"`    // the user's, of 10,000; null: none was worked out
	Listed   string  `json:"whitelist"` // yes, no, failed or "not asked"; empty: it has none
}

// NewExplainedColor converts a coloring by rules of a name, at an entry.
func NewExplainedColor(name, entry string, c *rules.Coloring) *ExplainedColor {
	out := &ExplainedColor{Rules: name, Entry: entry, Source: c.Source.String(), Rule: c.Rule, Lane: c.Lane(),
		Rejected: string(c.Rejected), Asked: []ExplainedRule{}, Warnings: append([]string{}, c.Warnings...)}
	for _, a := range c.Asked {
		r := ExplainedRule{Rule: a.ID, Source: a.Source.String(), Priority: a.Priority, Line: a.Line, Lane: string(a.Lane), Hit: a.Hit,
			Why: a.Why, Percent: a.Percent, Listed: string(a.Listed)}
		if a.Bucket >= 0 {
			r.Bucket = &a.Bucket
		}
		out.Asked = append(out.Asked, r)
	}
	return out
}

// words say in a sentence where the lane is from.
func (c *ExplainedColor) words() string {
	said := "no rule of " + c.Rules + " wants it at " + c.Entry + ": baseline"
	switch {
	case c.Lane == "refused":
		said = "refused at the gateway: " + c.Rules
	case c.Source == rules.SourceHeader.String():
		said = "the request's own tag counts, no rule is asked: " + c.Lane
	case c.Rule != "":
		said = "rule " + c.Rule + " of " + c.Rules + " (" + c.Source + ") gives it lane " + c.Lane
	}
	if c.Rejected != "" {
		said += "; its own tag does not count: " + c.Rejected
	}
	return said
}

// note says of a rule what there is to say beside why it does not match.
func (r *ExplainedRule) note() string {
	said := r.Why
	if r.Hit {
		said = "matches"
	}
	if r.Hit && r.Bucket != nil {
		said += ", the user's bucket is " + strconv.Itoa(*r.Bucket)
	}
	if r.Listed != "" {
		said += "; whitelist: " + r.Listed
	}
	return said
}

// rows adds a coloring to a table off a terminal: first field color, or rule.
func (c *ExplainedColor) rows(t *Table) {
	t.Row(Text("color"), As(Lane, c.Lane), Text(c.words()))
	for i := range c.Asked {
		t.Row(append([]Cell{Text("rule")}, c.Asked[i].cells()...)...)
	}
	for _, w := range c.Warnings {
		t.Row(Text("warning"), Text(w))
	}
}

func (r *ExplainedRule) cells() []Cell {
	hit := As(Dim, "-")
	if r.Hit {
		hit = As(Lane, r.Lane)
	}
	return []Cell{Text(r.Rule), Text(r.Source), Text(strconv.Itoa(r.Priority)), hit, Text(r.note())}
}

// print writes a coloring on a terminal: a sentence, then each rule.
func (c *ExplainedColor) print(s *iostreams.IOStreams) error {
	if _, err := fmt.Fprintln(s.Out, traffic.Printable(c.words())); err != nil {
		return err
	}
	if len(c.Asked) > 0 {
		if _, err := fmt.Fprintln(s.Out); err != nil {
			return err
		}
	}
	t := NewTable(s, "RULE", "SOURCE", "PRIORITY", "LANE", "").Whole()
	for i := range c.Asked {
		t.Row(c.Asked[i].cells()...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, w := range c.Warnings {
		if _, err := fmt.Fprintf(s.Out, "%s %s\n", paint(s.Color, Warn, "warning:"), traffic.Printable(w)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(s.Out)
	return err
}
