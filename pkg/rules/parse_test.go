package rules

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseReadsAll(t *testing.T) {
	s := mustParse(t, `
revision: {rev: 42, author: alice, time: 2026-01-31T15:04:05Z, note: the buyers' list}
entry: shop
invalid: drop
rules:
  - {id: low, priority: 9, percent: 0.25, key: {header: X-User}, lane: gray}
  - {id: list, priority: 7, entry: [b, a], whitelist: {route: "shop:buyers", cookie: uid}, lane: gray}
  - id: both
    priority: 8
    lane: gray
    match:
      path: {prefix: /api}
      any:
        - host: {regex: "dev.*"}
        - header: {name: X-A, exact: [x, y]}
`)
	want := []Info{
		{ID: "list", Priority: 7, Source: SourceWhitelist, Entries: []string{"b", "a"}, Lane: "gray", Key: "cookie uid", Route: "shop:buyers", Line: 7},
		{ID: "both", Priority: 8, Source: SourceRule, Entries: []string{"shop"}, Lane: "gray", Line: 8,
			Match: `path begins with "/api" and (host ~ dev.* or header x-a is one of 2)`},
		{ID: "low", Priority: 9, Source: SourcePercentage, Entries: []string{"shop"}, Lane: "gray", Percent: 0.25, Key: "header x-user", Line: 6},
	}
	if diff := cmp.Diff(want, s.Rules()); diff != "" {
		t.Error(diff)
	}
	rev := Revision{Rev: "42", Author: "alice", Time: time.Date(2026, 1, 31, 15, 4, 5, 0, time.UTC), Note: "the buyers' list"}
	if diff := cmp.Diff(rev, s.Revision()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "shop"}, s.Entries()); diff != "" {
		t.Error(diff)
	}
	if w := s.WithRevision(Revision{Rev: "43"}); w.Revision().Rev != "43" || s.Revision().Rev != "42" || len(w.Rules()) != 3 {
		t.Error("another revision has changed the first")
	}
	s.Rules()[0].Entries[0] = "changed"
	if s.Rules()[0].Entries[0] != "b" {
		t.Error("a Set has been changed from outside")
	}
}

func TestTheLongestDocument(t *testing.T) {
	if _, err := Parse([]byte("rules: [] #" + strings.Repeat("x", MaxDocument-11))); err != nil {
		t.Error(err)
	}
}

// badDocuments are documents that are not loaded: the line and code of each
// finding, and a part of its words.
var badDocuments = []struct {
	name, doc string
	want      []string
}{
	{"empty", "", []string{"1 SYNTAX empty"}},
	{"comments", "# nothing\n", []string{"1 SYNTAX empty"}},
	{"null", "~\n", []string{"1 BAD_VALUE mapping"}},
	{"a list", "- a\n", []string{"1 BAD_VALUE not a list"}},
	{"no YAML", "rules: [\n", []string{"1 SYNTAX did not find"}},
	{"no YAML in the first line", "a: b: c\nrules: []\n", []string{"1 SYNTAX mapping values"}},
	{"an alias of nothing", "entry: shop\nrules: *none\n", []string{"2 SYNTAX unknown anchor 'none'"}},
	{"a tab", "rules:\n\t- a\n", []string{"2 SYNTAX"}},
	{"two documents", "rules: []\n---\nrules: []\n", []string{"2 SYNTAX more than one"}},
	{"no rules", "entry: shop\n", []string{"1 MISSING rules: []"}},
	{"rules of nothing", "rules:\n", []string{"1 BAD_VALUE has no value"}},
	{"rules in a mapping", "rules: {a: b}\n", []string{"1 BAD_VALUE list"}},
	{"too long", "rules: [] #" + strings.Repeat("x", MaxDocument-10), []string{"0 SYNTAX the document has 262145 bytes, and 256 KiB are the most"}},
	{"unknown key", "rules: []\ntrustheader: true\n", []string{`2 UNKNOWN_KEY did you mean trustHeader?`}},
	{"an unknown key far from all", "rules: []\nzzzzzzzz: 1\n", []string{`2 UNKNOWN_KEY there are revision, entry`}},
	{"a key twice", "rules: []\nentry: a\nentry: b\n", []string{"3 DUPLICATE_KEY first in line 2"}},
	{"a key that is a list", "rules: []\n[a]: b\n", []string{"2 BAD_VALUE word"}},
	{"a reference", "rules: []\nentry: &x shop\nrevision: {author: *x}\n", []string{"3 BAD_VALUE reference"}},
	{"a merge", "rules: []\nrevision:\n  <<: {author: a}\n", []string{"3 UNKNOWN_KEY merged"}},
	{"trust of a word", "rules: []\ntrustHeader: yes please\n", []string{"2 BAD_VALUE list of networks"}},
	{"trust of an address in a network", "rules: []\ntrustHeader: [10.1.2.3/8]\n", []string{"2 BAD_VALUE say 10.0.0.0/8"}},
	{"trust of a name", "rules: []\ntrustHeader: [localhost]\n", []string{"2 BAD_VALUE no network"}},
	{"invalid", "rules: []\ninvalid: error\n", []string{"2 BAD_VALUE drop or reject"}},
	{"canary", "rules: []\nemitCanaryHeader: true\n", []string{"2 BAD_VALUE X-Canary"}},
	{"identity of lane's own", "rules: []\nidentity: {headers: [X-Lane-Tag]}\n", []string{"2 BAD_VALUE lane's own"}},
	{"a time", "rules: []\nrevision: {time: yesterday}\n", []string{"2 BAD_VALUE 2026-01-31"}},
	{"a revision", "rules: []\nrevision: {rev: a b}\n", []string{"2 BAD_VALUE header"}},
	{"no services", "rules: []\nentry: []\n", []string{"2 MISSING no service"}},
	{"rules misspelled", "ruls: []\n", []string{"1 UNKNOWN_KEY did you mean rules?"}},
	{"entry misspelled", "entri: shop\nrules: [{id: r, priority: 1, lane: gray, match: {path: {exact: /}}}]\n", []string{"1 UNKNOWN_KEY did you mean entry?"}},
	{"a bad entry", "entry: a b\nrules: [{id: r, priority: 1, lane: gray, match: {path: {exact: /}}}]\n", []string{"1 BAD_VALUE no service's name"}},
	{"a service twice", "rules: []\nentry: [a, a]\n", []string{"2 BAD_VALUE twice"}},
}

// badRules are rules that are not loaded, each beside what is good.
var badRules = []struct{ rule, want string }{
	{"", "MISSING id is missing|MISSING priority is missing|MISSING lane is missing|MISSING match is missing"},
	{"id: r, priority: 1, lane: gray", "MISSING match is missing"},
	{"id: a b, priority: 1, lane: gray, match: M", "BAD_VALUE inner"},
	{"id: a|b, priority: 1, lane: gray, match: M", "BAD_VALUE inner"},
	{"id: r, priority: 1.5, lane: gray, match: M", "BAD_VALUE whole number"},
	{"id: r, priority: -1, lane: gray, match: M", "BAD_VALUE whole number"},
	{"id: r, priority: +1, lane: gray, match: M", "BAD_VALUE whole number"},
	{"id: r, priority: 1, lane: Gray, match: M", `BAD_VALUE try "gray"`},
	{"id: r, priority: 1, lane: baseline, match: M", "RESERVED_LANE baseline's name"},
	{"id: r, priority: 1, lane: stable, match: M", "RESERVED_LANE alias"},
	{"id: r, priority: 1, lane: prod, match: M", "RESERVED_LANE environment"},
	{"id: r, priority: 1, lane: gray, match: M, weight: 3", "UNKNOWN_KEY a share of users is percent"},
	{"id: r, priority: 1, lane: gray, match: M, prioritty: 3", "UNKNOWN_KEY did you mean priority?"},
	{"id: r, priority: 1, lane: gray, match: M, key: {header: x}", "BAD_VALUE key without a percent"},
	// What only follows from a slip is not said; what is wrong besides is.
	{"id: r, priority: 1, lane: gray, percnt: 50, key: {header: x}", "UNKNOWN_KEY did you mean percent?"},
	{"id: r, priority: 1, lane: gray, share: 50, key: {header: x}", "UNKNOWN_KEY say percent"},
	{"id: r, priority: 1, lane: gray, percnt: 50, percent: 50, key: {header: x}", "UNKNOWN_KEY did you mean percent?"},
	{"id: r, priority: 1, lane: gray, percent: 50, kye: {header: x}", "UNKNOWN_KEY did you mean key?"},
	{"id: r, priority: 1, lane: gray, when: {path: {exact: /}}", "UNKNOWN_KEY say match"},
	{"id: r, priority: 1, lane: gray, mtch: {path: {exact: /}}, key: {header: x}", "UNKNOWN_KEY did you mean match?|BAD_VALUE key without a percent"},
	{"idd: r, prioritty: 1, target: gray, match: M", "UNKNOWN_KEY did you mean id?|UNKNOWN_KEY did you mean priority?|UNKNOWN_KEY say lane"},
	{"id: r, priority: 1, lane: gray, zzzz: 50", "UNKNOWN_KEY there are id|MISSING match is missing"},
	{"id: r, priority: 1, lane: gray, whitelist: {rout: a, header: b}", "UNKNOWN_KEY did you mean route?"},
	{"id: r, priority: 1, lane: gray, whitelist: {route: a, heder: b}", "UNKNOWN_KEY did you mean header?"},
	{"id: r, priority: 1, lane: gray, whitelist: {route: , header: b}", "BAD_VALUE no value"},
	{"id: r, priority: 1, lane: gray, whitlist: {route: a, header: b}", "UNKNOWN_KEY did you mean whitelist?"},
	{"id: r, priority: 1, lane: gray, match: {header: {nam: a, exact: b}}", "UNKNOWN_KEY did you mean name?"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exakt: b}}", "UNKNOWN_KEY did you mean exact?"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exakt: b, prefix: c, regex: d}}", "UNKNOWN_KEY did you mean exact?|MISSING one of exact"},
	{"id: r, priority: 1, lane: gray, percent: 5", "MISSING key is missing"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: client_ip", "BAD_KEY address"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: random", "BAD_KEY chance"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: x-user", "BAD_KEY header: NAME"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {header: X-Forwarded-For}", "BAD_KEY address"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {header: X-Request-Id}", "BAD_KEY each request"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {header: a, cookie: b}", "BAD_KEY not both"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {}", "MISSING by which"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {header: Cookie}", "BAD_VALUE say cookie"},
	{"id: r, priority: 1, lane: gray, percent: 101, key: {header: a}", "BAD_VALUE more than 100"},
	{"id: r, priority: 1, lane: gray, percent: 0.001, key: {header: a}", "BAD_VALUE finer"},
	{"id: r, priority: 1, lane: gray, percent: -1, key: {header: a}", "BAD_VALUE no percentage"},
	{"id: r, priority: 1, lane: gray, percent: 1e1, key: {header: a}", "BAD_VALUE no percentage"},
	{"id: r, priority: 1, lane: gray, percent: 5, key: {header: a}, whitelist: {route: a, header: b}", "BAD_VALUE make it two"},
	{"id: r, priority: 1, lane: gray, whitelist: {header: b}", "MISSING route"},
	{"id: r, priority: 1, lane: gray, whitelist: {route: b}", "MISSING by which"},
	{"id: r, priority: 1, lane: gray, whitelist: {route: a b, header: b}", "BAD_VALUE route"},
	{"id: r, priority: 1, lane: gray, whitelist: {route: a, header: X-Real-IP}", "BAD_KEY address"},
	{"id: r, priority: 1, lane: gray, match: {}", "MISSING no condition"},
	{"id: r, priority: 1, lane: gray, match: [a]", "BAD_VALUE mapping"},
	{"id: r, priority: 1, lane: gray, match: {all: []}", "BAD_VALUE list of conditions"},
	{"id: r, priority: 1, lane: gray, match: {any: {path: {exact: /}}}", "BAD_VALUE list of conditions"},
	{"id: r, priority: 1, lane: gray, match: {header: {exact: a}}", "MISSING name is missing"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a}}", "MISSING one of exact"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exact: b, prefix: c}}", "MISSING one of exact"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a b, exact: b}}", "BAD_VALUE no header name"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: x-lane-tag, exact: b}}", "BAD_VALUE trustHeader"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: Host, exact: b}}", "BAD_VALUE say host"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: X-Canary, exact: b}}", "BAD_VALUE emitCanaryHeader"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exact: ''}}", "BAD_VALUE empty"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exact: ' b'}}", "BAD_VALUE white space"},
	{`id: r, priority: 1, lane: gray, match: {header: {name: a, exact: "a\x00b"}}`, "BAD_VALUE printed"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exact: []}}", "BAD_VALUE no value"},
	{"id: r, priority: 1, lane: gray, match: {header: {name: a, exact: [[b]]}}", "BAD_VALUE one value"},
	{"id: r, priority: 1, lane: gray, match: {cookie: {name: a;b, exact: b}}", "BAD_VALUE cookie's name"},
	{"id: r, priority: 1, lane: gray, match: {cookie: {name: X-Lane-Tag, exact: b}}", "BAD_VALUE trustHeader"},
	{"id: r, priority: 1, lane: gray, match: {query: {name: x-lane-tag, exact: b}}", "BAD_VALUE trustHeader"},
	{"id: r, priority: 1, lane: gray, match: {path: {exact: api}}", "BAD_VALUE begins with /"},
	{"id: r, priority: 1, lane: gray, match: {path: {prefix: '/a?b=c'}}", "BAD_VALUE no query"},
	{"id: r, priority: 1, lane: gray, match: {path: {name: x, prefix: /a}}", "UNKNOWN_KEY"},
	{"id: r, priority: 1, lane: gray, match: {host: {exact: 'a:80'}}", "BAD_VALUE without a port"},
	{"id: r, priority: 1, lane: gray, match: {host: {exact: '*.a'}}", "BAD_VALUE prefix or regex"},
	{"id: r, priority: 1, lane: gray, match: {path: {regex: '/(a'}}", "BAD_VALUE missing closing"},
	{"id: r, priority: 1, lane: gray, match: {path: {regex: '/a)|(b'}}", "BAD_VALUE regex"},
	{`id: r, priority: 1, lane: gray, match: {path: {regex: '(a)\1'}}`, "BAD_VALUE escape"},
	{"id: r, priority: 1, lane: gray, match: " + strings.Repeat("{any: [", maxDepth+1) + "{path: {exact: /}}" + strings.Repeat("]}", maxDepth+1), "BAD_VALUE deeper"},
	{"id: good, priority: 1, lane: gray, match: M", "DUPLICATE_ID line 4"},
	{"id: r, priority: 5, lane: gray, match: M", "DUPLICATE_PRIORITY rule good in line 4"},
}

func findings(t *testing.T, doc string) []Finding {
	t.Helper()
	s, err := Parse([]byte(doc))
	var bad *InvalidError
	if s != nil || !errors.As(err, &bad) || len(bad.Findings) == 0 {
		t.Fatalf("it is loaded: %v", err)
	}
	for _, f := range bad.Findings {
		if f.Warning || !strings.Contains(err.Error(), f.String()) {
			t.Errorf("%v is not in %v", f, err)
		}
	}
	return bad.Findings
}

func TestBadDocuments(t *testing.T) {
	for _, tc := range badDocuments {
		t.Run(tc.name, func(t *testing.T) {
			got := findings(t, tc.doc)
			if len(got) != len(tc.want) {
				t.Fatalf("%v", got)
			}
			for i, f := range got {
				where, words, _ := strings.Cut(tc.want[i], " ")
				code, words, _ := strings.Cut(words, " ")
				if fmt.Sprint(f.Line) != where || string(f.Code) != code || !strings.Contains(f.Words, words) {
					t.Errorf("%d %s %s, want %s", f.Line, f.Code, f.Words, tc.want[i])
				}
			}
		})
	}
}

func TestBadRules(t *testing.T) {
	doc := func(rule string) string {
		return "entry: shop\nemitCanaryHeader: X-Canary\nrules:\n  - {id: good, priority: 5, lane: blue, match: {path: {exact: /}}}\n  - {" +
			strings.ReplaceAll(rule, "match: M", "match: {path: {exact: /a}}") + "}\n"
	}
	mustParse(t, doc("id: r, priority: 6, lane: gray, match: M"))
	for _, tc := range badRules {
		t.Run(tc.rule, func(t *testing.T) {
			got := findings(t, doc(tc.rule))
			want := strings.Split(tc.want, "|")
			if len(got) != len(want) {
				t.Fatalf("%v, want %s", got, tc.want)
			}
			for i, f := range got {
				code, words, _ := strings.Cut(want[i], " ")
				if f.Line != 5 || string(f.Code) != code || !strings.Contains(f.Words, words) {
					t.Errorf("%v, want line 5, %s", f, want[i])
				}
				if strings.HasPrefix(tc.rule, "id: r,") && f.Rule != "r" {
					t.Errorf("%v does not name its rule", f)
				}
			}
		})
	}
}

// A rule needs its entry, from the document or its own.
func TestEntryIsNeeded(t *testing.T) {
	rule := "rules: [{id: r, priority: 1, lane: gray, match: {path: {exact: /}}}]"
	if got := findings(t, rule); len(got) != 1 || got[0].Code != CodeMissing || !strings.Contains(got[0].Words, "entry") {
		t.Errorf("%v", got)
	}
	mustParse(t, "entry: shop\n"+rule)
}

func TestPercent(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "5": 500, "0.01": 1, "0.1": 10, "99.5%": 9950, "100": 10000, "100.00": 10000, "007": 700} {
		if got, err := parsePercent(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "%", ".5", "5.", "100.01", "1000", "5%%", "0x5", "5,5", "0.005", "٥"} {
		if got, err := parsePercent(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}
