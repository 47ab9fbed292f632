package rules

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// op is how a condition is put together.
type op uint8

const (
	opLeaf op = iota
	opAll     // all of its parts hold
	opAny     // one of its parts holds
)

// cond is a condition on a request: one comparison, or several. It is one type,
// and no interface with three, so that a request stays on the stack while it is
// compared.
type cond struct {
	op   op
	subs []cond // of opAll and opAny: at least one
	leaf
}

// leaf holds if one of the values of its place is what it wants. Exactly one of
// exact, prefix and re is set.
type leaf struct {
	place
	exact  []string // any of them
	prefix string
	re     *regexp.Regexp
	text   string // of re, as the document has it
	whole  bool   // re matches whatever is there
}

func (c *cond) holds(v *view) bool {
	if c.op == opLeaf {
		return c.leaf.holds(v)
	}
	for i := range c.subs {
		if c.subs[i].holds(v) != (c.op == opAll) {
			return c.op == opAny
		}
	}
	return c.op == opAll
}

func (c *cond) String() string {
	word := " and "
	switch c.op {
	case opLeaf:
		return c.leaf.String()
	case opAny:
		word = " or "
	}
	parts := make([]string, len(c.subs))
	for i := range c.subs {
		parts[i] = c.subs[i].String()
		if c.subs[i].op != opLeaf {
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return strings.Join(parts, word)
}

// leaves visits every comparison of a condition.
func (c *cond) leaves(visit func(*leaf)) {
	if c.op == opLeaf {
		visit(&c.leaf)
	}
	for i := range c.subs {
		c.subs[i].leaves(visit)
	}
}

func (l *leaf) holds(v *view) bool {
	for c := v.at(l.place); ; {
		s, ok := c.next(v)
		if !ok {
			return false
		}
		if l.wants(s) {
			return true
		}
	}
}

func (l *leaf) wants(s string) bool {
	switch {
	case l.re != nil:
		return l.re.MatchString(s)
	case l.prefix != "":
		return l.begins(s)
	}
	return slices.Contains(l.exact, s)
}

// begins reports whether a value begins with the prefix. A path does so in whole
// segments: /order is the beginning of /order/7, and not of /orders.
func (l *leaf) begins(s string) bool {
	if !strings.HasPrefix(s, l.prefix) {
		return false
	}
	return l.kind != kindPath || len(s) == len(l.prefix) || l.prefix[len(l.prefix)-1] == '/' || s[len(l.prefix)] == '/'
}

func (l *leaf) String() string {
	switch {
	case l.re != nil:
		return l.place.String() + " ~ " + l.text
	case l.prefix != "":
		return l.place.String() + " begins with " + strconv.Quote(l.prefix)
	case len(l.exact) == 1:
		return l.place.String() + " = " + strconv.Quote(l.exact[0])
	}
	return l.place.String() + " is one of " + strconv.Itoa(len(l.exact))
}
