package rules

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lane/pkg/lane"
)

// Parse reads a document. Whatever is wrong with it is in one *InvalidError, and
// then nothing of it is loaded.
func Parse(b []byte) (*Set, error) {
	l := &loader{}
	s := &Set{}
	if root := l.root(b); root != nil {
		l.document(s, root)
	}
	if len(l.found) > 0 {
		return nil, &InvalidError{Findings: byLine(l.found)}
	}
	s.compile()
	return s, nil
}

func (l *loader) document(s *Set, root *yaml.Node) {
	var entries []string
	var list []*yaml.Node
	have := l.mapping(root, "the document",
		field{"revision", func(n *yaml.Node) { l.revision(s, n) }},
		field{"entry", func(n *yaml.Node) { entries = l.entries(n) }},
		field{"trustHeader", func(n *yaml.Node) { s.header = l.trust(n, "trustHeader") }},
		field{"invalid", func(n *yaml.Node) { s.reject = l.invalid(n) }},
		field{"identity", func(n *yaml.Node) { l.identity(s, n) }},
		field{"emitCanaryHeader", func(n *yaml.Node) { s.canary = l.canary(n) }},
		field{"rules", func(n *yaml.Node) {
			if n.Kind != yaml.SequenceNode {
				l.fail(n, CodeBadValue, "rules has to be a list, not %s", kindOf(n))
				return
			}
			list = n.Content
		}},
	)
	if have != nil && have["rules"] == 0 {
		l.fail(root, CodeMissing, "the document has no rules; one without any says rules: []")
	}
	for _, n := range list { // when the keys that they refer to have been read
		if r := l.readRule(s, n, entries, have["entry"] != 0); r != nil {
			s.rules = append(s.rules, r)
		}
	}
	l.rule = ""
	l.unique()
}

func (l *loader) revision(s *Set, n *yaml.Node) {
	l.mapping(n, "revision",
		field{"rev", func(n *yaml.Node) {
			v, ok := l.text(n, "rev")
			if ok && !isWord(v, "._-") {
				l.fail(n, CodeBadValue, "rev %q: letters, digits and inner . _ - only, it stands in a header", v)
			}
			s.rev.Rev = v
		}},
		field{"author", func(n *yaml.Node) { s.rev.Author, _ = l.text(n, "author") }},
		field{"note", func(n *yaml.Node) { s.rev.Note, _ = l.text(n, "note") }},
		field{"time", func(n *yaml.Node) {
			v, ok := l.text(n, "time")
			if !ok {
				return
			}
			at, err := time.Parse(time.RFC3339, v)
			if err != nil {
				l.fail(n, CodeBadValue, "time %q is not written as 2026-01-31T15:04:05Z", v)
			}
			s.rev.Time = at
		}},
	)
}

// entries reads the service, or services, at which requests enter.
func (l *loader) entries(n *yaml.Node) []string {
	var out []string
	l.list(n, func(n *yaml.Node) {
		v, ok := l.text(n, "entry")
		switch {
		case !ok:
		case !isWord(v, "-_."):
			l.fail(n, CodeBadValue, "entry %q is no service's name", v)
		case slices.Contains(out, v):
			l.fail(n, CodeBadValue, "entry %q is there twice", v)
		default:
			out = append(out, v)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		l.fail(n, CodeMissing, "entry names no service")
	}
	return out
}

// trust reads true, false or networks.
func (l *loader) trust(n *yaml.Node, what string) trust {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		return trust{all: strings.EqualFold(n.Value, "true")}
	}
	var t trust
	if n.Kind != yaml.SequenceNode {
		l.fail(n, CodeBadValue, "%s has to be true, false or a list of networks", what)
		return t
	}
	l.list(n, func(n *yaml.Node) {
		v, ok := l.text(n, what)
		if !ok {
			return
		}
		p, err := parsePrefix(v)
		if err != nil {
			l.fail(n, CodeBadValue, "%s: %v", what, err)
			return
		}
		t.nets = append(t.nets, p)
	})
	return t
}

func (l *loader) invalid(n *yaml.Node) (reject bool) {
	v, ok := l.text(n, "invalid")
	if ok && v != "drop" && v != "reject" {
		l.fail(n, CodeBadValue, "invalid has to be drop or reject, not %q", v)
	}
	return v == "reject"
}

func (l *loader) identity(s *Set, n *yaml.Node) {
	l.mapping(n, "identity",
		field{"headers", func(n *yaml.Node) {
			l.list(n, func(n *yaml.Node) {
				if h, ok := l.header(n, "identity"); ok && !slices.Contains(s.guarded, h) {
					s.guarded = append(s.guarded, h)
				}
			})
		}},
		field{"trust", func(n *yaml.Node) { s.identity = l.trust(n, "trust") }},
	)
}

func (l *loader) canary(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!bool" {
		l.fail(n, CodeBadValue, "emitCanaryHeader has to be a header's name, as X-Canary; without it none is sent")
		return ""
	}
	h, _ := l.header(n, "emitCanaryHeader")
	return h
}

// header reads a header's name, in lower case.
func (l *loader) header(n *yaml.Node, what string) (string, bool) {
	v, ok := l.text(n, what)
	if !ok {
		return "", false
	}
	h := strings.ToLower(v)
	if why := checkHeader(h); why != "" {
		l.fail(n, CodeBadValue, "%s: header %q: %s", what, v, why)
		return "", false
	}
	return h, true
}

// ranked is what the rules of a document may not share. A rule with another mistake
// takes its part as well: all that is wrong is found at once.
type ranked struct {
	line     int
	name     string // for messages; empty if it cannot be read
	id       string
	priority int
	// hasID and hasPriority say that it has one that can be read.
	hasID, hasPriority bool
}

// unique looks for rules that have the same ID, or the same priority.
func (l *loader) unique() {
	ids, priorities := map[string]ranked{}, map[int]ranked{}
	for _, r := range l.ranks {
		at := &yaml.Node{Line: r.line}
		l.rule = r.name
		if r.hasID {
			if first, twice := ids[r.id]; twice {
				l.fail(at, CodeDuplicateID, "there is a rule of this name in line %d", first.line)
			}
			ids[r.id] = r
		}
		if r.hasPriority {
			if first, twice := priorities[r.priority]; twice {
				l.fail(at, CodeDuplicatePriority, "%s in line %d has the priority %d too; which is first has to be said", strings.TrimSpace("rule "+first.name), first.line, r.priority)
			}
			priorities[r.priority] = r
		}
	}
	l.rule = ""
}

// compile puts the rules in order, and makes the tables.
func (s *Set) compile() {
	slices.SortFunc(s.rules, func(a, b *rule) int {
		return cmp.Or(cmp.Compare(a.source, b.source), cmp.Compare(a.priority, b.priority))
	})
	byEntry := map[string][]*rule{}
	s.lanes = map[lane.Name]bool{}
	for _, r := range s.rules {
		s.lanes[r.lane] = true
		for _, e := range r.entries {
			byEntry[e] = append(byEntry[e], r)
		}
	}
	s.tables = map[string]*table{}
	for e, list := range byEntry {
		s.tables[e] = newTable(list)
	}
	if s.canary != "" {
		s.strip.trusted = []string{s.canary}
	}
	s.strip.other = slices.Concat(s.guarded, s.strip.trusted)
}

// readRule reads one rule; nil with a finding if it cannot be one. entered says that the
// document names an entry, in whatever way.
func (l *loader) readRule(s *Set, n *yaml.Node, entries []string, entered bool) *rule {
	l.rule = nameOf(n)
	before := len(l.found)
	rank := ranked{line: n.Line, name: l.rule}
	r := &rule{entries: entries, line: n.Line, source: SourceRule}
	have := l.mapping(n, "a rule",
		field{"id", func(n *yaml.Node) {
			found := len(l.found)
			r.id = l.id(n)
			rank.id, rank.hasID = r.id, len(l.found) == found
		}},
		field{"priority", func(n *yaml.Node) {
			found := len(l.found)
			r.priority = l.priority(n)
			rank.priority, rank.hasPriority = r.priority, len(l.found) == found
		}},
		field{"entry", func(n *yaml.Node) { r.entries = l.entries(n) }},
		field{"match", func(n *yaml.Node) { r.cond = l.cond(s, n, 0) }},
		field{"whitelist", func(n *yaml.Node) { l.whitelist(s, r, n) }},
		field{"percent", func(n *yaml.Node) { r.share = l.percent(n) }},
		field{"key", func(n *yaml.Node) { l.key(s, r, n) }},
		field{"lane", func(n *yaml.Node) { r.lane = l.lane(n) }},
	)
	if have == nil {
		return nil
	}
	l.ranks = append(l.ranks, rank)
	missing := func(name, why string) {
		if have[name] == 0 {
			l.fail(n, CodeMissing, "%s is missing: %s", name, why)
		}
	}
	missing("id", "logs and metrics name the rule by it")
	missing("priority", "the lower number is asked first")
	missing("lane", "where its requests belong")
	if !entered {
		missing("entry", "the service at which the requests enter, here or once at the top")
	}
	l.sort(r, n, have, missing)
	if len(l.found) > before {
		return nil
	}
	return r
}

// sort says of which source a rule is, by what it has.
func (l *loader) sort(r *rule, n *yaml.Node, have map[string]int, missing func(name, why string)) {
	if have["whitelist"] < 0 || have["percent"] < 0 {
		return // one of them is misspelled, which is said
	}
	whitelist, percent := have["whitelist"] > 0, have["percent"] > 0
	switch {
	case whitelist && percent:
		l.fail(n, CodeBadValue, "a whitelist and a percentage in one rule; make it two")
	case whitelist:
		r.source = SourceWhitelist
	case percent:
		r.source = SourcePercentage
		missing("key", "a percentage is one of users; say by which header or cookie they are known")
	default:
		missing("match", "a rule has a match, a whitelist or a percentage")
	}
	if have["key"] > 0 && !percent {
		l.fail(n, CodeBadValue, "a key without a percent")
	}
}

// nameOf is a rule's ID, for messages, as far as there is one.
func nameOf(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		return ""
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if v := n.Content[i+1]; n.Content[i].Value == "id" && v.Kind == yaml.ScalarNode && isWord(v.Value, "._-") {
			return v.Value
		}
	}
	return ""
}

func (l *loader) id(n *yaml.Node) string {
	v, ok := l.text(n, "id")
	if ok && !isWord(v, "._-") {
		l.fail(n, CodeBadValue, "id %q: letters, digits and inner . _ - only, 63 at most", v)
	}
	return v
}

func (l *loader) priority(n *yaml.Node) int {
	v, ok := l.text(n, "priority")
	if !ok {
		return 0
	}
	p, err := strconv.Atoi(v)
	if err != nil || v[0] == '+' || p < 0 || p > 1_000_000 {
		l.fail(n, CodeBadValue, "priority %q is no whole number from 0 to 1000000", v)
	}
	return p
}

func (l *loader) percent(n *yaml.Node) int {
	v, ok := l.text(n, "percent")
	if !ok {
		return 0
	}
	p, err := parsePercent(v)
	if err != nil {
		l.fail(n, CodeBadValue, "percent: %v", err)
	}
	return p
}

func (l *loader) lane(n *yaml.Node) lane.Name {
	v, ok := l.text(n, "lane")
	if !ok {
		return ""
	}
	name, err := lane.ParseName(v)
	var bad *lane.NameError
	if errors.As(err, &bad) {
		code := CodeBadValue
		if strings.HasPrefix(bad.Why, "reserved") {
			code = CodeReservedLane
		}
		l.fail(n, code, "%v", err)
	}
	return name
}
