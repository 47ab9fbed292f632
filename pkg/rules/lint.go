package rules

import (
	"errors"
	"fmt"
	"slices"

	"lane/pkg/nearest"
)

// LintOptions is what a document can be held to beyond itself.
type LintOptions struct {
	// Services are those that there are; nil: not known.
	Services []string
	// BaselineNames are the environment's further names of the baseline.
	BaselineNames []string
}

// Lint finds what is wrong with a document: all that keeps it from being loaded,
// or, if it can be, rules that never match, or match more than is likely meant.
func Lint(b []byte, o LintOptions) []Finding {
	s, err := Parse(b)
	var bad *InvalidError
	if errors.As(err, &bad) {
		return bad.Findings
	}
	return s.Lint(o)
}

// Lint finds what is odd in a Set.
func (s *Set) Lint(o LintOptions) []Finding {
	if s == nil {
		return nil
	}
	var out []Finding
	for i, r := range s.rules {
		say := func(code Code, warning bool, format string, args ...any) {
			out = append(out, Finding{Code: code, Warning: warning, Rule: r.id, Line: r.line, Words: fmt.Sprintf(format, args...)})
		}
		for _, e := range r.entries {
			if o.Services != nil && !slices.Contains(o.Services, e) {
				say(CodeUnknownEntry, false, "there is no service %s%s", e, didYouMean(e, o.Services))
			}
		}
		if slices.Contains(o.BaselineNames, string(r.lane)) {
			say(CodeReservedLane, false, "%s is a name of the baseline here", r.lane)
		}
		s.unreachable(r, say)
		s.identityOf(r, say)
		for _, first := range s.rules[:i] {
			if first.coversEntries(r) && first.shadows(r) {
				say(CodeShadowedRule, false, "it never matches: rule %s in line %d is asked first and takes all of its requests", first.id, first.line)
				break
			}
		}
		later := s.after(i)
		if p := r.matchesAny(); p != "" && later > 0 {
			say(CodeMatchesEverything, true, "%s, and is asked before %d other rules", p, later)
		}
		if j := slices.IndexFunc(s.rules[:i], func(f *rule) bool {
			return f.source < r.source && f.priority > r.priority && meet(f, r)
		}); j >= 0 {
			f := s.rules[j]
			say(CodeSourceOrder, true, "priority %d does not put it before rule %s: each %s rule is asked before each %s one", r.priority, f.id, f.source, r.source)
		}
	}
	return byLine(out)
}

func didYouMean(name string, names []string) string {
	if near := nearest.Word(name, names); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// meet reports whether one request can be seen by both rules.
func meet(a, b *rule) bool {
	return slices.ContainsFunc(a.entries, func(e string) bool { return slices.Contains(b.entries, e) })
}

// after counts the rules that are asked after the one at i, for its requests.
func (s *Set) after(i int) int {
	n := 0
	for _, r := range s.rules[i+1:] {
		if meet(s.rules[i], r) {
			n++
		}
	}
	return n
}

// matchesAny says which part of a rule's condition every value meets.
func (r *rule) matchesAny() string {
	if r.cond == nil || r.source != SourceRule {
		return ""
	}
	if r.cond.everything() {
		return "it matches every request"
	}
	return r.cond.broad()
}

// broad finds a comparison that alone lets everything through.
func (c *cond) broad() string {
	switch c.op {
	case opAll:
		return "" // its other parts narrow it down
	case opAny:
		for i := range c.subs {
			if words := c.subs[i].broad(); words != "" {
				return words
			}
		}
		return ""
	}
	if c.re == nil || !matchesAll(c.text, true) {
		return ""
	}
	return fmt.Sprintf("the regex %s matches every %s", c.text, c.place)
}

type say = func(code Code, warning bool, format string, args ...any)

// unreachable finds rules that match nobody.
func (s *Set) unreachable(r *rule, say say) {
	if r.source == SourcePercentage && r.share == 0 {
		say(CodeUnreachableRule, true, "a percentage of 0 matches nobody")
	}
	if !s.identity.nobody() {
		return
	}
	told := ""
	tell := func(p place) {
		if p.guarded && told != p.name {
			told = p.name
			say(CodeUnreachableRule, true, "%s is an identity header, and identity.trust names nobody who may send it", p)
		}
	}
	if r.keyed {
		tell(r.key)
	}
	if r.cond != nil {
		r.cond.leaves(func(l *leaf) { tell(l.place) })
	}
}

// identityOf finds users that anybody can claim to be.
func (s *Set) identityOf(r *rule, say say) {
	if r.keyed && r.key.kind == kindHeader && !r.key.guarded {
		say(CodeUnprotectedIdentity, true, "every client can send %s and be whom it likes; list it under identity", r.key)
	}
}
