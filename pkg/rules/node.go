package rules

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"lane/pkg/nearest"
	"lane/pkg/yamlline"

	"go.yaml.in/yaml/v3"
)

// MaxDocument bounds a document, in bytes: more does not fit into one of the
// registry's transactions, with what is said about it.
const MaxDocument = 256 << 10

// loader reads one document, and collects what is wrong with it.
type loader struct {
	found []Finding
	rule  string // the rule that is being read
	ranks []ranked
}

func (l *loader) fail(n *yaml.Node, code Code, format string, args ...any) {
	l.found = append(l.found, Finding{Code: code, Rule: l.rule, Line: n.Line, Words: fmt.Sprintf(format, args...)})
}

func (l *loader) syntax(line int, words string) {
	l.found = append(l.found, Finding{Code: CodeSyntax, Line: line, Words: words})
}

// root reads the text into its mapping; nil with a finding if there is none.
func (l *loader) root(b []byte) *yaml.Node {
	if len(b) > MaxDocument {
		l.syntax(0, fmt.Sprintf("the document has %d bytes, and %d KiB are the most; long lists of users belong on a whitelist", len(b), MaxDocument>>10))
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		l.syntax(1, "the document is empty; one without rules says rules: []")
		return nil
	case err != nil:
		l.syntax(yamlline.Of(b, err))
		return nil
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		l.syntax(yamlline.Second(b), "more than one document; the rules are one")
		return nil
	}
	return doc.Content[0]
}

// field is one key of a mapping, and how its value is read.
type field struct {
	name string
	read func(*yaml.Node)
}

// hints are keys that are not there, and what is meant: a key, and what else is to be
// said of it.
var hints = map[string]struct{ key, why string }{
	"weight": {"percent", "a share of users is percent; weights belong to instances"}, "ratio": {"percent", ""}, "share": {"percent", ""},
	"percentage": {"percent", ""}, "target": {"lane", ""}, "when": {"match", ""}, "conditions": {"match", ""}, "and": {"all", ""}, "or": {"any", ""},
	"<<": {"", "what stands elsewhere is not merged in here"},
}

// mapping reads a mapping whose keys are known, and returns those that are there, with
// their lines; nil if it is none. what is how messages call it. A key that an unknown one
// is a slip of is there with a negative line: that it is missing, and what else follows
// from that, is nothing that the author has to mend.
func (l *loader) mapping(n *yaml.Node, what string, fields ...field) (have map[string]int) {
	if n.Kind != yaml.MappingNode {
		l.fail(n, CodeBadValue, "%s has to be a mapping (name: value), not %s", what, kindOf(n))
		return nil
	}
	have = map[string]int{}
	slips := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value := n.Content[i], n.Content[i+1]
		if at.Kind != yaml.ScalarNode {
			l.fail(at, CodeBadValue, "%s: a key has to be a word, not %s", what, kindOf(at))
			continue
		}
		if first, twice := have[at.Value]; twice {
			l.fail(at, CodeDuplicateKey, "%s: %s is there twice, first in line %d", what, at.Value, first)
			continue
		}
		have[at.Value] = at.Line
		k := slices.IndexFunc(fields, func(f field) bool { return f.name == at.Value })
		switch {
		case k < 0:
			if means := l.unknown(at, what, fields); means != "" {
				slips[means] = at.Line
			}
		case isNull(value):
			l.fail(at, CodeBadValue, "%s: %s has no value; remove the line, or give one", what, at.Value)
		default:
			fields[k].read(value)
		}
	}
	for means, line := range slips { // now: one that is there as well is not there twice
		if have[means] == 0 {
			have[means] = -line
		}
	}
	return have
}

// unknown reports a key that does not exist, and returns the one that is meant, or "".
func (l *loader) unknown(at *yaml.Node, what string, fields []field) (means string) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if hint, ok := hints[at.Value]; ok {
		l.fail(at, CodeUnknownKey, "%s: unknown key %q: %s", what, at.Value, cmp.Or(hint.why, "say "+hint.key))
		return hint.key
	}
	near := nearest.Word(at.Value, names)
	if near != "" {
		l.fail(at, CodeUnknownKey, "%s: unknown key %q; did you mean %s?", what, at.Value, near)
		return near
	}
	l.fail(at, CodeUnknownKey, "%s: unknown key %q; there are %s", what, at.Value, strings.Join(names, ", "))
	return ""
}

// list reads each value of a list; one value alone is a list of one.
func (l *loader) list(n *yaml.Node, read func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		read(n)
		return
	}
	for _, e := range n.Content {
		read(e)
	}
}

// text reads one value, as it is written: exact: true is no truth value.
func (l *loader) text(n *yaml.Node, what string) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n):
		l.fail(n, CodeBadValue, "%s has to be one value, not %s", what, kindOf(n))
	case n.Value == "" || strings.TrimSpace(n.Value) != n.Value:
		l.fail(n, CodeBadValue, "%s: %q is empty, or begins or ends with white space", what, n.Value)
	case !printable(n.Value):
		l.fail(n, CodeBadValue, "%s: %q holds characters that cannot be printed", what, n.Value)
	default:
		return n.Value, true
	}
	return "", false
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.AliasNode:
		return "a reference to another place (*" + n.Value + ")"
	case isNull(n):
		return "nothing"
	}
	return "one value"
}
