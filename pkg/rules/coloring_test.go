package rules

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"lane/pkg/lane"
)

func mustParse(tb testing.TB, doc string) *Set {
	tb.Helper()
	s, err := Parse([]byte(doc))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

type coloringCase struct {
	Name     string
	Tag      string
	Headers  map[string]Lines
	Remote   string
	Percent  string // of rule-5pct
	Invalid  string
	Listed   bool // on the whitelist
	Down     bool // which cannot be read
	Lane     string
	Source   string
	Rule     string
	Rejected Rejected
	Failed   int
	Asked    *int
	Strip    []string
}

func TestColoringCases(t *testing.T) {
	doc := readFile(t, "testdata/coloring.yaml")
	var cases []coloringCase
	dec := json.NewDecoder(strings.NewReader(readFile(t, "testdata/coloring.json")))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			doc := doc
			if tc.Percent != "" {
				doc = strings.Replace(doc, "percent: 5", "percent: "+tc.Percent, 1)
			}
			if tc.Invalid != "" {
				doc += "invalid: " + tc.Invalid + "\n"
			}
			if tc.Remote == "" {
				tc.Remote = "10.1.2.3"
			}
			h := Map{}
			for k, v := range tc.Headers {
				h[k] = v
			}
			asked := 0
			got := mustParse(t, doc).Color(&Request{Entry: "shop", Target: "/", Headers: h, Tag: lane.ParseTag(tc.Tag), Remote: netip.MustParseAddr(tc.Remote)},
				func(route, id string) (bool, error) {
					if asked++; tc.Down {
						return true, errors.New("refused")
					}
					return tc.Listed && route == "buyer-api" && id == "buyer-123", nil
				})
			if got.Lane() != tc.Lane || got.Source.String() != tc.Source || got.Rule != tc.Rule || got.Rejected != tc.Rejected {
				t.Errorf("lane %s by %s %q, rejected %q", got.Lane(), got.Source, got.Rule, got.Rejected)
			}
			if len(got.Failed) != tc.Failed || len(got.Warnings) != tc.Failed {
				t.Errorf("failed %v, warnings %v", got.Failed, got.Warnings)
			}
			if tc.Asked != nil && asked != *tc.Asked {
				t.Errorf("the whitelist was asked %d times", asked)
			}
			if tc.Strip != nil && !slices.Equal(got.Strip, tc.Strip) || tc.Strip == nil && tc.Remote == "10.1.2.3" && len(got.Strip) > 0 {
				t.Errorf("strips %v", got.Strip)
			}
		})
	}
}

// C11: which of two rules is first has to be said.
func TestEqualPrioritiesAreRefused(t *testing.T) {
	doc := readFile(t, "testdata/coloring.yaml")
	_, err := Parse([]byte(strings.Replace(doc, "priority: 20", "priority: 30", 1)))
	var bad *InvalidError
	if !errors.As(err, &bad) || len(bad.Findings) != 1 || bad.Findings[0].Code != CodeDuplicatePriority || bad.Findings[0].Rule != "pressure" {
		t.Errorf("%v", err)
	}
	mustParse(t, strings.Replace(doc, "priority: 20", "priority: 31", 1))
}

// One rule of several that match counts: the one with the lower number, within
// one source.
func TestLowerPriorityIsFirst(t *testing.T) {
	doc := `
entry: shop
rules:
  - {id: a, priority: 2, lane: lane-a, match: {path: {prefix: /}}}
  - {id: b, priority: 1, lane: lane-b, match: {path: {prefix: /}}}
`
	if got := mustParse(t, doc).Color(&Request{Entry: "shop", Target: "/"}, nil); got.Rule != "b" {
		t.Errorf("rule %s", got.Rule)
	}
	doc = strings.Replace(doc, "priority: 1,", "priority: 3,", 1)
	if got := mustParse(t, doc).Color(&Request{Entry: "shop", Target: "/"}, nil); got.Rule != "a" {
		t.Errorf("rule %s", got.Rule)
	}
}

// Another service's rules are not asked.
func TestRulesActAtTheirEntry(t *testing.T) {
	s := mustParse(t, "rules: [{id: a, priority: 2, entry: [shop, app], lane: gray, match: {path: {prefix: /}}}]")
	for entry, want := range map[string]string{"shop": "gray", "app": "gray", "orders": "baseline", "": "baseline"} {
		if got := s.Color(&Request{Entry: entry, Target: "/"}, nil); got.Lane() != want {
			t.Errorf("%q: %s", entry, got.Lane())
		}
	}
}

func TestNoSetColorsNothing(t *testing.T) {
	var s *Set
	got := s.Color(&Request{Entry: "shop", Target: "/", Tag: lane.ParseTag("gray")}, nil)
	if got.Lane() != "baseline" || got.Rejected != RejectedUntrusted || s.Rules() != nil || s.Entries() != nil || s.Revision().Rev != "" || s.Lint(LintOptions{}) != nil {
		t.Errorf("%+v", got)
	}
	if w := s.WithRevision(Revision{Rev: "7"}); w.Revision().Rev != "7" {
		t.Errorf("%+v", w.Revision())
	}
}

func TestTrust(t *testing.T) {
	for _, tc := range []struct {
		trust, remote string
		vouched       bool
		want          string
	}{
		{"true", "203.0.113.7", false, "gray"},
		{"true", "", false, "gray"},
		{"false", "127.0.0.1", false, "baseline"},
		{"false", "127.0.0.1", true, "gray"},
		{"[]", "127.0.0.1", false, "baseline"},
		{"[10.0.0.0/8, 192.0.2.1]", "192.0.2.1", false, "gray"},
		{"[10.0.0.0/8, 192.0.2.1]", "192.0.2.2", false, "baseline"},
		{"[10.0.0.0/8]", "", false, "baseline"},
		{"['fe80::/10']", "fe80::1%eth0", false, "gray"},
	} {
		s := mustParse(t, "trustHeader: "+tc.trust+"\nrules: []")
		r := Request{Tag: lane.ParseTag("gray"), Trusted: tc.vouched}
		if tc.remote != "" {
			r.Remote = netip.MustParseAddr(tc.remote)
		}
		if got := s.Color(&r, nil); got.Lane() != tc.want {
			t.Errorf("%+v: %s", tc, got.Lane())
		}
	}
}

func TestCanaryHeader(t *testing.T) {
	s := mustParse(t, `
emitCanaryHeader: X-Canary
trustHeader: true
identity: {headers: X-User, trust: [10.0.0.0/8]}
rules: []
`)
	in, out := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("203.0.113.7")
	for _, tc := range []struct {
		tag    string
		remote netip.Addr
		canary string
		strip  string
	}{
		{"gray", in, "x-canary", "x-canary"},
		{"gray", out, "x-canary", "x-user,x-canary"},
		{"baseline", in, "", "x-canary"},
		{"", out, "", "x-user,x-canary"},
	} {
		got := s.Color(&Request{Tag: lane.ParseTag(tc.tag), Remote: tc.remote}, nil)
		if got.Canary != tc.canary || strings.Join(got.Strip, ",") != tc.strip {
			t.Errorf("%+v: canary %q, strips %v", tc, got.Canary, got.Strip)
		}
	}
	if got := mustParse(t, "trustHeader: true\nrules: []").Color(&Request{Tag: lane.ParseTag("gray")}, nil); got.Canary != "" || len(got.Strip) > 0 {
		t.Errorf("nobody asked for %q, %v", got.Canary, got.Strip)
	}
}

// A share of users, times the weights of the instances behind it.
func TestShareTimesWeight(t *testing.T) {
	s := mustParse(t, "rules: [{id: ten, priority: 1, entry: shop, percent: 10, key: {header: x-user}, lane: gray}]")
	const users = 20000
	router, err := lane.NewRouter(lane.DefaultPolicy())
	if err != nil {
		t.Fatal(err)
	}
	c := lane.NewCatalog(lane.Trust{}, nil, lane.Switches{}, lane.NewService("shop", []lane.Instance{
		{ID: "b", Addr: "10.0.0.1:80", Weight: 1},
		{ID: "g3", Addr: "10.0.0.2:80", MetaLane: "gray", Weight: 3},
		{ID: "g1", Addr: "10.0.0.3:80", MetaLane: "gray", Weight: 1},
	}, nil))
	share := map[string]float64{}
	h := Map{"X-User": {""}}
	for i := range users {
		h["X-User"][0] = "user-" + string(rune('a'+i%26)) + strings.Repeat("x", i/26%7) + lane.BaselineTag + string(rune(0x4e00+i))
		got := s.Color(&Request{Entry: "shop", Target: "/", Headers: h}, nil)
		d := router.Decide(c, lane.Request{Service: "shop", Tag: got.Tag})
		for _, x := range d.Chosen {
			share[x.Instance.ID] += x.Weight / users
		}
	}
	for id, want := range map[string]float64{"b": 0.9, "g3": 0.075, "g1": 0.025} {
		if got := share[id]; got < want-0.01 || got > want+0.01 {
			t.Errorf("%s: %.4f of all, want %.4f", id, got, want)
		}
	}
}
