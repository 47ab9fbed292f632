package rules

import (
	"fmt"
	"strings"
	"testing"
)

// lintCases is rules, one a line, and what is found: "RULE CODE words".
var lintCases = []struct {
	name  string
	head  string // of the document
	rules []string
	want  []string
}{
	{"nothing", "", []string{
		"id: a, priority: 1, lane: x, match: {path: {prefix: /a}}",
		"id: b, priority: 2, lane: y, match: {path: {prefix: /b}}",
	}, nil},
	{"a catch-all before a rule", "", []string{
		"id: all, priority: 1, lane: x, match: {path: {prefix: /}}",
		"id: gray, priority: 2, lane: y, match: {header: {name: a, exact: b}}",
	}, []string{"all MATCHES_EVERYTHING every request, and is asked before 1", "gray SHADOWED_RULE rule all in line 5"}},
	{"the catch-all last", "", []string{
		"id: all, priority: 2, lane: x, match: {path: {prefix: /}}",
		"id: gray, priority: 1, lane: y, match: {header: {name: a, exact: b}}",
	}, nil},
	{"at another entry", "", []string{
		"id: all, priority: 1, lane: x, entry: other, match: {path: {prefix: /}}",
		"id: gray, priority: 2, lane: y, match: {header: {name: a, exact: b}}",
	}, nil},
	{"at one of its entries only", "", []string{
		"id: all, priority: 1, lane: x, entry: shop, match: {path: {prefix: /api}}",
		"id: gray, priority: 2, lane: y, entry: [shop, other], match: {path: {prefix: /api/v1}}",
	}, nil},
	{"a wider path", "", []string{
		"id: wide, priority: 1, lane: x, match: {path: {prefix: /api}}",
		"id: narrow, priority: 2, lane: y, match: {path: {prefix: /api/v1}}",
		"id: one, priority: 3, lane: y, match: {path: {exact: /api/v2}}",
		"id: sibling, priority: 4, lane: y, match: {path: {prefix: /apis}}",
	}, []string{"narrow SHADOWED_RULE wide", "one SHADOWED_RULE wide"}},
	{"values among values", "", []string{
		"id: many, priority: 1, lane: x, match: {header: {name: a, exact: [u, v, w]}}",
		"id: few, priority: 2, lane: y, match: {header: {name: a, exact: [w, u]}}",
		"id: more, priority: 3, lane: y, match: {header: {name: a, exact: [w, z]}}",
		"id: elsewhere, priority: 4, lane: y, match: {cookie: {name: a, exact: u}}",
	}, []string{"few SHADOWED_RULE many"}},
	{"values of a pattern", "", []string{
		"id: pattern, priority: 1, lane: x, match: {header: {name: a, regex: 'dev[0-9]+'}}",
		"id: inside, priority: 2, lane: y, match: {header: {name: a, exact: [dev1, dev2]}}",
		"id: beside, priority: 3, lane: y, match: {header: {name: a, exact: [dev1, dev]}}",
		"id: same, priority: 4, lane: y, match: {header: {name: a, regex: 'dev[0-9]+'}}",
		"id: another, priority: 5, lane: y, match: {header: {name: a, regex: 'dev[1-9]+'}}",
	}, []string{"inside SHADOWED_RULE pattern", "same SHADOWED_RULE pattern"}},
	{"parts of a condition", "", []string{
		"id: loose, priority: 1, lane: x, match: {any: [{path: {prefix: /a}}, {header: {name: h, exact: u}}, {header: {name: h, exact: v}}]}",
		"id: both, priority: 2, lane: y, match: {path: {prefix: /a}, host: {exact: shop}}",
		"id: either, priority: 3, lane: y, match: {any: [{path: {exact: /a/b}}, {header: {name: h, exact: u}}]}",
		"id: spread, priority: 4, lane: y, match: {header: {name: h, exact: [v, u]}}",
		"id: free, priority: 5, lane: y, match: {any: [{path: {prefix: /a}}, {header: {name: h, exact: w}}]}",
	}, []string{"both SHADOWED_RULE loose", "either SHADOWED_RULE loose", "spread SHADOWED_RULE loose"}},
	{"narrower is no shadow", "", []string{
		"id: narrow, priority: 1, lane: x, match: {path: {prefix: /a}, host: {exact: shop}}",
		"id: wide, priority: 2, lane: y, match: {path: {prefix: /a}}",
	}, nil},
	{"a pattern for everything", "", []string{
		"id: present, priority: 1, lane: x, match: {header: {name: a, regex: '(.*)'}}",
		"id: one, priority: 2, lane: y, match: {header: {name: a, prefix: b}}",
		"id: nearly, priority: 3, lane: y, match: {any: [{cookie: {name: c, regex: '.+'}}, {path: {exact: /}}]}",
		"id: other, priority: 4, lane: y, match: {cookie: {name: c, prefix: d}}",
		"id: bounded, priority: 5, lane: y, match: {cookie: {name: e, regex: '.*'}, path: {prefix: /e}}",
		"id: last, priority: 6, lane: y, match: {cookie: {name: f, regex: '.*'}}",
	}, []string{
		"present MATCHES_EVERYTHING the regex (.*) matches every header a, and is asked before 5", "one SHADOWED_RULE present",
		"nearly MATCHES_EVERYTHING the regex .+ matches every cookie c",
	}},
	{"shares", "", []string{
		"id: none, priority: 1, lane: x, percent: 0, key: {cookie: u}",
		"id: half, priority: 2, lane: x, percent: 50, key: {cookie: u}",
		"id: full, priority: 3, lane: x, percent: 100, key: {cookie: u}",
		"id: after, priority: 4, lane: x, percent: 50, key: {cookie: u}",
		"id: by-other, priority: 5, lane: x, percent: 50, key: {cookie: v}",
	}, []string{"none UNREACHABLE_RULE nobody", "after SHADOWED_RULE full"}},
	{"a rule before shares", "", []string{
		"id: share, priority: 9, lane: x, percent: 50, key: {cookie: u}, match: {path: {prefix: /a/b}}",
		"id: rule, priority: 1, lane: x, match: {path: {prefix: /a}}",
	}, []string{"share SHADOWED_RULE rule"}},
	{"priorities across sources", "", []string{
		"id: share, priority: 1, lane: x, percent: 50, key: {cookie: u}",
		"id: rule, priority: 2, lane: x, match: {path: {prefix: /a}}",
		"id: elsewhere, priority: 3, lane: x, entry: other, match: {path: {prefix: /a}}",
	}, []string{"share SOURCE_ORDER before rule rule"}},
	{"whitelists", "", []string{
		"id: one, priority: 1, lane: x, whitelist: {route: r, cookie: u}",
		"id: again, priority: 2, lane: y, whitelist: {route: r, cookie: u}, match: {path: {prefix: /a}}",
		"id: list, priority: 3, lane: y, whitelist: {route: s, cookie: u}",
		"id: who, priority: 4, lane: y, whitelist: {route: r, cookie: v}",
		"id: rule, priority: 5, lane: y, match: {path: {prefix: /a}}",
	}, []string{"again SHADOWED_RULE one"}},
	{"an identity that anybody can claim", "", []string{
		"id: list, priority: 1, lane: x, whitelist: {route: r, header: X-User}",
		"id: share, priority: 2, lane: x, percent: 5, key: {header: X-User}",
	}, []string{"list UNPROTECTED_IDENTITY header x-user", "share UNPROTECTED_IDENTITY header x-user"}},
	{"an identity that nobody can have", "identity: {headers: x-user}", []string{
		"id: list, priority: 1, lane: x, whitelist: {route: r, header: X-User}",
		"id: rule, priority: 2, lane: x, match: {header: {name: X-User, exact: [u]}}",
		"id: other, priority: 3, lane: x, match: {header: {name: X-Users, exact: [u]}}",
	}, []string{"list UNREACHABLE_RULE identity.trust", "rule UNREACHABLE_RULE identity.trust"}},
	{"an identity that some can have", "identity: {headers: x-user, trust: [10.0.0.0/8]}", []string{
		"id: list, priority: 1, lane: x, whitelist: {route: r, header: X-User}",
		"id: rule, priority: 2, lane: x, match: {header: {name: X-User, exact: [u]}}",
	}, nil},
	{"unknown entries", "", []string{
		"id: a, priority: 1, lane: x, entry: [shop, shpo], match: {path: {prefix: /a}}",
		"id: b, priority: 2, lane: x, entry: zzz, match: {path: {prefix: /a}}",
	}, []string{"a UNKNOWN_ENTRY no service shpo; did you mean shop?", "b UNKNOWN_ENTRY no service zzz"}},
	{"what cannot be loaded", "", []string{
		"id: a, priority: 1, lane: all, match: {path: {prefix: /a}}",
		"id: a, priority: 2, lane: x, percent: 5, key: random",
	}, []string{"a RESERVED_LANE every lane", "a BAD_KEY chance", "a DUPLICATE_ID line 5"}},
	{"all that is wrong with a rule", "", []string{
		"id: a, priority: 1, lane: x, match: {path: {prefix: /a}}",
		"id: a, priority: 1, lane: x, percent: 101, key: {cookie: u}",
	}, []string{"a BAD_VALUE more than 100", "a DUPLICATE_ID line 5", "a DUPLICATE_PRIORITY rule a in line 5"}},
	{"what is wrong itself is no duplicate", "", []string{
		"id: a, priority: -1, lane: x, match: {path: {prefix: /a}}",
		"id: b, priority: -1, lane: x, match: {path: {prefix: /b}}",
		"id: c, lane: x, match: {path: {prefix: /b}}",
		"id: d, priority: 0, lane: x, match: {path: {prefix: /b}}",
	}, []string{"a BAD_VALUE -1", "b BAD_VALUE -1", "c MISSING priority"}},
}

func TestLint(t *testing.T) {
	mistakes := map[Code]bool{CodeShadowedRule: true, CodeUnknownEntry: true, CodeReservedLane: true, CodeBadKey: true,
		CodeDuplicateID: true, CodeDuplicatePriority: true, CodeBadValue: true, CodeMissing: true}
	for _, tc := range lintCases {
		t.Run(tc.name, func(t *testing.T) {
			doc := "entry: shop\n" + tc.head + "\n\nrules:\n"
			for _, r := range tc.rules {
				doc += "  - {" + r + "}\n"
			}
			got := Lint([]byte(doc), LintOptions{Services: []string{"shop", "other"}})
			if len(got) != len(tc.want) {
				t.Fatalf("%v", got)
			}
			for i, f := range got {
				rule, words, _ := strings.Cut(tc.want[i], " ")
				code, words, _ := strings.Cut(words, " ")
				if f.Rule != rule || string(f.Code) != code || !strings.Contains(f.Words, words) {
					t.Errorf("%v, want %s", f, tc.want[i])
				}
				if line := strings.Split(doc, "\n")[f.Line-1]; !strings.Contains(line, "id: "+rule+",") {
					t.Errorf("%v is about line %q", f, line)
				}
				if f.Warning == mistakes[f.Code] {
					t.Errorf("%v: warning %v", f, f.Warning)
				}
			}
		})
	}
}

// Without a list of services none is unknown.
func TestLintWithoutServices(t *testing.T) {
	doc := "rules: [{id: a, priority: 1, entry: zzz, lane: x, match: {path: {prefix: /a}}}]"
	if got := Lint([]byte(doc), LintOptions{}); got != nil {
		t.Errorf("%v", got)
	}
	if got := Lint([]byte(doc), LintOptions{Services: []string{}}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// What the baseline is called besides is no lane either.
func TestLintKnowsNamesOfTheBaseline(t *testing.T) {
	doc := "rules: [{id: a, priority: 1, entry: zzz, lane: main, match: {path: {prefix: /a}}}]"
	if got := Lint([]byte(doc), LintOptions{BaselineNames: []string{"main"}}); len(got) != 1 || got[0].Code != CodeReservedLane || got[0].Warning {
		t.Errorf("%v", got)
	}
	if got := Lint([]byte(doc), LintOptions{BaselineNames: []string{"mai"}}); got != nil {
		t.Errorf("%v", got)
	}
}

func TestMatchesAll(t *testing.T) {
	for pattern, want := range map[string]string{
		".*": "all", "(.*)": "all", "^.*$": "all", "a|.*": "all", "(?s).*": "all", ".*.*": "all", "a*.*b?": "all", "(.*)?": "all", "((.*))*": "all",
		".+": "almost", "(.+)": "almost", ".*.+": "almost",
		"a.*": "no", ".*a": "no", ".": "no", "": "no", "[a-z]*": "no", "(?-s:.*)": "no", "a+": "no", "(": "no",
	} {
		got := "no"
		switch {
		case matchesAll(pattern, false):
			got = "all"
		case matchesAll(pattern, true):
			got = "almost"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", pattern, got, want)
		}
	}
}

// Conditions that can be taken apart in very many orders are compared in time,
// and not called shadows for want of it.
func TestLintEnds(t *testing.T) {
	nest := func(value string) string {
		s := fmt.Sprintf("{path: {exact: /%s}}", value)
		for i := range maxDepth {
			s = fmt.Sprintf("{%s: [%s, {header: {name: h%d, exact: %s}}, {cookie: {name: c%d, exact: %s}}]}", []string{"any", "all"}[i%2], s, i, value, i, value)
		}
		return s
	}
	doc := "entry: shop\nrules:\n  - {id: a, priority: 1, lane: x, match: " + nest("a") + "}\n  - {id: b, priority: 2, lane: x, match: " + nest("b") + "}\n"
	if got := Lint([]byte(doc), LintOptions{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
