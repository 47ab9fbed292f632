package rules

import (
	"regexp/syntax"
	"slices"
)

// proofSteps bounds how long two conditions are compared: nested ones can be
// taken apart in very many orders.
const proofSteps = 2000

// implies reports whether each request for which b holds is one for which a
// holds. It errs towards no: two patterns are compared by their text alone.
func implies(b, a *cond) bool {
	p := proof{left: proofSteps}
	return p.implies(b, a)
}

type proof struct{ left int }

func (p *proof) implies(b, a *cond) bool {
	if p.left--; p.left < 0 {
		return false
	}
	switch {
	case a == nil || a.everything():
		return true
	case b == nil:
		return false
	case a.op == opAll:
		return every(a.subs, func(sub *cond) bool { return p.implies(b, sub) })
	case b.op == opAny:
		return every(b.subs, func(sub *cond) bool { return p.implies(sub, a) })
	case a.op == opAny && some(a.subs, func(sub *cond) bool { return p.implies(b, sub) }):
		return true
	case b.op == opAll:
		return some(b.subs, func(sub *cond) bool { return p.implies(sub, a) })
	case a.op == opAny: // b's values may be spread over the parts of a
		return every(values(b), func(v *cond) bool {
			return some(a.subs, func(sub *cond) bool { return p.implies(v, sub) })
		})
	}
	return a.leaf.covers(&b.leaf)
}

// values are one condition for each value of an exact one.
func values(c *cond) []cond {
	if len(c.exact) < 2 { // it would be itself, for ever
		return nil
	}
	out := make([]cond, len(c.exact))
	for i, v := range c.exact {
		out[i] = cond{leaf: leaf{place: c.place, exact: []string{v}}}
	}
	return out
}

func every(list []cond, ok func(*cond) bool) bool {
	return len(list) > 0 && !some(list, func(c *cond) bool { return !ok(c) })
}

func some(list []cond, ok func(*cond) bool) bool {
	for i := range list {
		if ok(&list[i]) {
			return true
		}
	}
	return false
}

// covers reports whether a value that b wants is one that l wants.
func (l *leaf) covers(b *leaf) bool {
	if l.place != b.place {
		return false
	}
	switch {
	case l.whole || l.re != nil && b.text == l.text:
		return true
	case len(b.exact) > 0:
		return !slices.ContainsFunc(b.exact, func(v string) bool { return !l.wants(v) })
	case l.prefix != "" && b.prefix != "":
		return l.begins(b.prefix)
	}
	return false
}

// everything reports whether a condition holds for each request.
func (c *cond) everything() bool {
	switch c.op {
	case opAll:
		return every(c.subs, (*cond).everything)
	case opAny:
		return some(c.subs, (*cond).everything)
	}
	if c.kind.named() { // not each request has it
		return false
	}
	return c.kind == kindPath && c.prefix == "/" || c.whole
}

// matchesAll reports whether a pattern matches whatever is there, as .*, (.*)
// and a.*|.* do. almost also takes .+, which wants something to be there.
func matchesAll(pattern string, almost bool) bool {
	re, err := syntax.Parse(pattern, syntax.Perl|syntax.DotNL)
	return err == nil && allOf(re, almost)
}

func allOf(re *syntax.Regexp, almost bool) bool {
	switch re.Op {
	case syntax.OpStar:
		return re.Sub[0].Op == syntax.OpAnyChar || allOf(re.Sub[0], almost)
	case syntax.OpPlus:
		return almost && re.Sub[0].Op == syntax.OpAnyChar || allOf(re.Sub[0], almost)
	case syntax.OpCapture, syntax.OpQuest:
		return allOf(re.Sub[0], almost)
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return allOf(sub, almost) })
	case syntax.OpConcat:
		found := false
		for _, sub := range re.Sub {
			all := allOf(sub, almost)
			found = found || all
			if !all && !neutral(sub) {
				return false
			}
		}
		return found
	}
	return false
}

// neutral parts of a pattern take nothing away from a .* beside them.
func neutral(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText, syntax.OpEndText, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpCapture:
		return neutral(re.Sub[0])
	}
	return false
}

// shadows reports whether each request that b could color has been colored by a,
// which is asked first.
func (r *rule) shadows(b *rule) bool {
	if !implies(b.cond, r.cond) {
		return false
	}
	switch r.source {
	case SourceWhitelist:
		return b.source == SourceWhitelist && r.route == b.route && r.key == b.key
	case SourcePercentage:
		return r.share == 10000 && b.source == SourcePercentage && r.key == b.key
	}
	return true
}

// coversEntries reports whether a rule acts wherever b does.
func (r *rule) coversEntries(b *rule) bool {
	return !slices.ContainsFunc(b.entries, func(e string) bool { return !slices.Contains(r.entries, e) })
}
