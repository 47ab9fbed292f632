package printer

import (
	"fmt"
	"reflect"
	"strings"

	"lane/pkg/chain"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// CheckSchema names the JSON form of the checks.
const CheckSchema = "lane.check/v1"

// Chain is the result of a check of the chain.
type Chain struct {
	Schema   string        `json:"schema"`
	Check    string        `json:"check"`
	URL      string        `json:"url"`
	Lane     lane.Name     `json:"lane"`
	OK       bool          `json:"ok"`
	Samples  int           `json:"samples"`
	Entered  int           `json:"entered"`  // which a gateway or a sidecar has seen
	Complete int           `json:"complete"` // with the tag at every hop
	Failed   int           `json:"failed"`   // that had no answer, or an error, 400 and above
	Traces   []chain.Trace `json:"traces"`
}

// NewChain adds up what was found of each request.
func NewChain(url string, name lane.Name, traces []chain.Trace, failed int) Chain {
	c := Chain{Schema: CheckSchema, Check: "chain", URL: traffic.MaskURL(url), Lane: name, Samples: len(traces), Failed: failed, Traces: traces}
	c.OK = len(traces) > 0 && failed == 0
	for i := range traces {
		t := &traces[i]
		if t.Verdict != chain.NoData {
			c.Entered++
		}
		if t.Verdict == chain.Complete {
			c.Complete++
		}
		c.OK = c.OK && t.Verdict == chain.Complete && len(t.Missing) == 0
	}
	return c
}

// NewTrace is what was found of one request that somebody else has sent. Without a lane
// there was no tag that could have been lost: that is no pass.
func NewTrace(name lane.Name, t chain.Trace) Chain {
	c := NewChain("", name, []chain.Trace{t}, 0)
	c.Check, c.OK = "trace", c.OK && name != ""
	return c
}

// PrintTrace prints the chain of one request.
func PrintTrace(s *iostreams.IOStreams, c *Chain) error {
	t := &c.Traces[0]
	which := "of no lane"
	if c.Lane != "" {
		which = "of lane " + string(c.Lane)
	}
	if _, err := fmt.Fprintf(s.Out, "trace %s, %s\n", Line(t.ID), Line(which)); err != nil {
		return err
	}
	if err := printLinks(s, t); err != nil {
		return err
	}
	lines := verdictLines(t)
	if c.Lane == "" && t.Break == nil {
		lines[0] = "NO LANE: no hop of it had a tag; the baseline has served it"
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(s.Out, Line(l)); err != nil {
			return err
		}
	}
	return nil
}

// PrintChain prints each chain that is unlike the others once, and what was found.
func PrintChain(s *iostreams.IOStreams, c *Chain) error {
	done := make([]bool, len(c.Traces))
	for i := range c.Traces {
		t := &c.Traces[i]
		if done[i] || t.Verdict == chain.NoData {
			continue
		}
		n := 0
		for k := i; k < len(c.Traces); k++ {
			if !done[k] && alike(t, &c.Traces[k]) {
				done[k] = true
				n++
			}
		}
		if _, err := fmt.Fprintf(s.Out, "%d of %d requests, e.g. of trace %s\n", n, c.Samples, Line(t.ID)); err != nil {
			return err
		}
		if err := printLinks(s, t); err != nil {
			return err
		}
		for _, l := range verdictLines(t) {
			if _, err := fmt.Fprintln(s.Out, Line(l)); err != nil {
				return err
			}
		}
	}
	if n := c.Samples - c.Entered; n > 0 {
		if _, err := fmt.Fprintf(s.Out, "%d of %d requests were seen by no gateway and no sidecar\n", n, c.Samples); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.Out, "coverage %d/%d\n", c.Complete, c.Entered)
	return err
}

// alike says whether two chains differ in nothing but the instances that served.
func alike(a, b *chain.Trace) bool {
	if a.Verdict != b.Verdict || len(a.Links) != len(b.Links) || !reflect.DeepEqual(a.Break, b.Break) ||
		!reflect.DeepEqual(a.Missing, b.Missing) {
		return false
	}
	for i := range a.Links {
		x, y := a.Links[i], b.Links[i]
		x.Instance, y.Instance = "", ""
		if x != y {
			return false
		}
	}
	return true
}

func printLinks(s *iostreams.IOStreams, t *chain.Trace) error {
	table := NewTable(s, "CALL", "TAG", "SERVED BY", "DECISION", "WHY").Whole()
	for _, l := range t.Links {
		from := l.From
		if from == "" {
			from = "?"
		}
		served := Text(l.Served + " " + l.Instance)
		if l.State == chain.Outside {
			served = Text("")
		}
		table.Row(Text(strings.Repeat("  ", l.Depth)+from+" -> "+l.To), stateCell(l.State), served, Text(string(l.Decision)), Text(l.Why))
	}
	return table.Flush()
}

func stateCell(s chain.State) Cell {
	switch s {
	case chain.Equal:
		return As(Good, "ok")
	case chain.Missed, chain.Different:
		return As(Bad, string(s))
	case chain.Outside:
		return As(Dim, string(s))
	}
	return As(Warn, string(s))
}

// verdictLines say what a chain is found to be.
func verdictLines(t *chain.Trace) []string {
	var out []string
	switch {
	case t.Break != nil:
		out = append(out, t.Break.String())
	case t.Verdict == chain.Unknown && len(t.Unseen) > 0:
		out = append(out, "UNKNOWN: no sidecar was seen of "+strings.Join(t.Unseen, ", "))
	case t.Verdict == chain.Unknown:
		out = append(out, "UNKNOWN: not everything was seen")
	default:
		out = append(out, "COMPLETE: the tag is at every hop")
	}
	for _, m := range t.Missing {
		out = append(out, "EXPECTED and not in the chain: "+m)
	}
	return out
}
