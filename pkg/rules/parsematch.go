package rules

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth is how deep conditions may be nested: a request is never compared on
// a stack that a document can make grow.
const maxDepth = 16

// cond reads a condition. Several keys of one mapping all have to hold.
func (l *loader) cond(s *Set, n *yaml.Node, depth int) *cond {
	if depth > maxDepth {
		l.fail(n, CodeBadValue, "match is nested deeper than %d", maxDepth)
		return nil
	}
	var subs []cond
	add := func(c *cond) {
		if c != nil {
			subs = append(subs, *c)
		}
	}
	many := func(op op) func(*yaml.Node) {
		return func(n *yaml.Node) { add(l.many(s, n, op, depth)) }
	}
	one := func(k kind) func(*yaml.Node) {
		return func(n *yaml.Node) { add(l.leaf(s, n, k)) }
	}
	before := len(l.found)
	if l.mapping(n, "match", field{"header", one(kindHeader)}, field{"cookie", one(kindCookie)}, field{"query", one(kindQuery)},
		field{"path", one(kindPath)}, field{"host", one(kindHost)}, field{"all", many(opAll)}, field{"any", many(opAny)}) == nil {
		return nil
	}
	switch {
	case len(l.found) > before:
		return nil
	case len(subs) == 0:
		l.fail(n, CodeMissing, "match has no condition")
		return nil
	case len(subs) == 1:
		return &subs[0]
	}
	return &cond{op: opAll, subs: subs}
}

// many reads a list of conditions.
func (l *loader) many(s *Set, n *yaml.Node, op op, depth int) *cond {
	word := "all"
	if op == opAny {
		word = "any"
	}
	if n.Kind != yaml.SequenceNode || len(n.Content) == 0 {
		l.fail(n, CodeBadValue, "%s has to be a list of conditions, not %s", word, kindOf(n))
		return nil
	}
	c := &cond{op: op}
	for _, e := range n.Content {
		if sub := l.cond(s, e, depth+1); sub != nil {
			c.subs = append(c.subs, *sub)
		}
	}
	return c
}

// leaf reads one comparison.
func (l *loader) leaf(s *Set, n *yaml.Node, k kind) *cond {
	lf := leaf{place: place{kind: k}}
	fields := []field{
		{"exact", func(n *yaml.Node) { l.exact(&lf, n) }},
		{"prefix", func(n *yaml.Node) { l.prefix(&lf, n) }},
		{"regex", func(n *yaml.Node) { l.regex(&lf, n) }},
	}
	if k.named() {
		fields = append(fields, field{"name", func(n *yaml.Node) { lf.name = l.name(s, n, k) }})
	}
	have := l.mapping(n, k.String(), fields...)
	if have == nil {
		return nil
	}
	if k.named() && have["name"] == 0 {
		l.fail(n, CodeMissing, "%s: name is missing", k)
	}
	said, slips := 0, 0
	for _, name := range []string{"exact", "prefix", "regex"} {
		switch line := have[name]; {
		case line > 0:
			said++
		case line < 0:
			slips++
		}
	}
	if said > 1 || said+slips == 0 {
		l.fail(n, CodeMissing, "%s: say one of exact, prefix, regex", k)
	}
	lf.guarded = k == kindHeader && slices.Contains(s.guarded, lf.name)
	return &cond{leaf: lf}
}

// name reads the name of a header, a cookie or a parameter.
func (l *loader) name(s *Set, n *yaml.Node, k kind) string {
	if k == kindHeader {
		h, ok := l.header(n, "match")
		if ok && h == s.canary {
			l.fail(n, CodeBadValue, "match: header %q is what emitCanaryHeader writes, and nobody else may", h)
		}
		return h
	}
	v, ok := l.text(n, k.String())
	if ok && k == kindCookie && !isToken(v) {
		l.fail(n, CodeBadValue, "cookie: %q is no cookie's name", v)
	}
	if strings.HasPrefix(strings.ToLower(v), "x-lane-") { // a browser's way to send a tag
		l.fail(n, CodeBadValue, "%s: %q is lane's own: whether a tag counts is up to trustHeader", k, v)
	}
	return v
}

// value reads a text that is compared with, in the form that a request's has.
func (l *loader) value(n *yaml.Node, k kind) (string, bool) {
	v, ok := l.text(n, k.String())
	if !ok {
		return "", false
	}
	switch k {
	case kindPath:
		if v[0] != '/' || strings.ContainsAny(v, "?#") {
			l.fail(n, CodeBadValue, "path: %q is no path: it begins with / and has no query", v)
			return "", false
		}
	case kindHost:
		if strings.ContainsAny(v, "/*") || v[0] != '[' && strings.Contains(v, ":") {
			l.fail(n, CodeBadValue, "host: %q: a host without a port; for many, say prefix or regex", v)
			return "", false
		}
		v = strings.ToLower(strings.TrimSuffix(v, "."))
	}
	return v, true
}

func (l *loader) exact(lf *leaf, n *yaml.Node) {
	l.list(n, func(n *yaml.Node) {
		if v, ok := l.value(n, lf.kind); ok && !slices.Contains(lf.exact, v) {
			lf.exact = append(lf.exact, v)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		l.fail(n, CodeBadValue, "%s: exact lists no value", lf.kind)
	}
}

func (l *loader) prefix(lf *leaf, n *yaml.Node) {
	if v, ok := l.value(n, lf.kind); ok {
		lf.prefix = v
	}
}

// regex reads a pattern that has to match a whole value: one that matches a part
// would let user-2 in where somebody has written user-22.
func (l *loader) regex(lf *leaf, n *yaml.Node) {
	v, ok := l.text(n, "regex")
	if !ok {
		return
	}
	re, err := regexp.Compile(`(?s)\A(?:` + v + `)\z`)
	if _, alone := syntax.Parse(v, syntax.Perl); err != nil || alone != nil {
		var why *syntax.Error
		if !errors.As(alone, &why) && !errors.As(err, &why) {
			why = &syntax.Error{Code: "no pattern", Expr: v}
		}
		l.fail(n, CodeBadValue, "regex %q: %s: %s", v, why.Code, why.Expr)
		return
	}
	lf.re, lf.text, lf.whole = re, v, matchesAll(v, false)
}

// userPlace reads the header, or the cookie, by which a user is known.
func (l *loader) userPlace(s *Set, n *yaml.Node, what string, more ...field) (p place, found bool, have map[string]int) {
	set := func(k kind) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if found {
				l.fail(n, CodeBadKey, "%s: a header or a cookie, not both", what)
			}
			found = true
			if k == kindCookie {
				p = place{kind: k, name: l.name(s, n, k)}
				return
			}
			h, _ := l.header(n, what)
			if why := badKeys[h]; why != "" {
				l.fail(n, CodeBadKey, "%s: header %s %s; take one that names a user or a tenant", what, h, why)
			}
			p = place{kind: k, name: h, guarded: slices.Contains(s.guarded, h)}
		}
	}
	fields := slices.Concat([]field{{"header", set(kindHeader)}, {"cookie", set(kindCookie)}}, more)
	if have = l.mapping(n, what, fields...); have != nil && have["header"] == 0 && have["cookie"] == 0 {
		l.fail(n, CodeMissing, "%s: say by which header or cookie users are known", what)
	}
	return p, found, have
}

func (l *loader) key(s *Set, r *rule, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		if why := noKeys[strings.ToLower(strings.ReplaceAll(n.Value, "-", "_"))]; why != "" {
			l.fail(n, CodeBadKey, "key: %s %s; take a header or a cookie that names a user or a tenant", n.Value, why)
			return
		}
		l.fail(n, CodeBadKey, "key: %q: say { header: NAME } or { cookie: NAME }", n.Value)
		return
	}
	r.key, r.keyed, _ = l.userPlace(s, n, "key")
}

func (l *loader) whitelist(s *Set, r *rule, n *yaml.Node) {
	var have map[string]int
	r.key, r.keyed, have = l.userPlace(s, n, "whitelist", field{"route", func(n *yaml.Node) {
		v, ok := l.text(n, "route")
		if ok && !isWord(v, ":/._-") {
			l.fail(n, CodeBadValue, "whitelist: route %q: letters, digits and inner : / . _ - only", v)
		}
		r.route = v
	}})
	if have != nil && have["route"] == 0 {
		l.fail(n, CodeMissing, "whitelist: route is missing: the list's name")
	}
}
