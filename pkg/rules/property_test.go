package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lane/pkg/lane"
)

var values3 = []string{"1", "2", "12"}

// genCond is a condition over few places and values, so that they often meet.
func genCond(t *rapid.T, depth int) string {
	pick := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
	if depth > 0 && rapid.IntRange(0, 2).Draw(t, "nest") == 0 {
		subs := make([]string, rapid.IntRange(1, 3).Draw(t, "subs"))
		for i := range subs {
			subs[i] = genCond(t, depth-1)
		}
		return fmt.Sprintf("{%s: [%s]}", pick("op", "all", "any"), strings.Join(subs, ", "))
	}
	way := pick("way", `exact: "1"`, `exact: ["1", "2"]`, `prefix: "1"`, `regex: "[12]"`, `regex: ".*"`)
	switch k := pick("kind", "header", "header", "cookie", "query", "path", "host"); k {
	case "path":
		return "{path: {" + pick("path", "exact: /1", "prefix: /", "prefix: /1", `regex: "/.*"`, `regex: ".*"`) + "}}"
	case "host":
		return "{host: {" + way + "}}"
	default:
		return fmt.Sprintf("{%s: {name: %s, %s}}", k, pick("name", "a", "b"), way)
	}
}

func genDocument(t *rapid.T) string {
	n := rapid.IntRange(0, 8).Draw(t, "rules")
	priorities := rapid.Permutation([]int{0, 1, 2, 3, 4, 5, 6, 7}).Draw(t, "priorities")
	var b strings.Builder
	fmt.Fprintf(&b, "trustHeader: %s\ninvalid: %s\nidentity: {headers: [b], trust: %s}\nrules:\n",
		rapid.SampledFrom([]string{"true", "false"}).Draw(t, "trust"), rapid.SampledFrom([]string{"drop", "reject"}).Draw(t, "invalid"),
		rapid.SampledFrom([]string{"true", "false"}).Draw(t, "identity"))
	if n == 0 {
		return strings.TrimSuffix(b.String(), "\n") + " []\n"
	}
	for i := range n {
		fmt.Fprintf(&b, "  - {id: r%d, priority: %d, lane: lane-%d, entry: %s", i, priorities[i], i, rapid.SampledFrom([]string{"shop", "[shop, app]", "app"}).Draw(t, "entry"))
		key := rapid.SampledFrom([]string{"header: a", "header: b", "cookie: a"}).Draw(t, "key")
		sort := rapid.IntRange(0, 3).Draw(t, "sort")
		switch sort {
		case 0:
			fmt.Fprintf(&b, ", whitelist: {route: %s, %s}", rapid.SampledFrom(values3).Draw(t, "route"), key)
		case 1:
			fmt.Fprintf(&b, ", key: {%s}, percent: %d", key, rapid.SampledFrom([]int{0, 30, 60, 100}).Draw(t, "percent"))
		}
		if sort > 1 || rapid.Bool().Draw(t, "match") {
			b.WriteString(", match: " + genCond(t, 2))
		}
		b.WriteString("}\n")
	}
	return b.String()
}

func genRequest(t *rapid.T) *Request {
	one := func(label string) string { return rapid.SampledFrom(values3).Draw(t, label) }
	maybe := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) > 0 }
	h := Map{}
	for _, name := range []string{"A", "B"} {
		for range rapid.IntRange(0, 2).Draw(t, "lines") {
			h[name] = append(h[name], one("header"))
		}
	}
	if maybe("cookie") {
		h["Cookie"] = []string{"a=" + one("a") + "; b=" + one("b")}
	}
	r := &Request{Entry: rapid.SampledFrom([]string{"shop", "app", "none"}).Draw(t, "entry"), Host: one("host"), Target: "/" + one("path"), Headers: h,
		Tag: lane.ParseTag(rapid.SampledFrom([]string{"", "", "", "gray", "baseline", "No!"}).Draw(t, "tag"))}
	if maybe("query") {
		r.Target += "?a=" + one("a") + "&b=" + one("b")
	}
	return r
}

// member is a whitelist without memory, which fails for one route.
func member(route, id string) (bool, error) {
	if route == "12" {
		return true, fmt.Errorf("no answer for %s", id)
	}
	return route == id, nil
}

// plain colors a request by reading the list of rules from its beginning.
func plain(s *Set, r *Request, members Members) Result {
	res := s.Color(&Request{Entry: "\x00", Tag: r.Tag, Remote: r.Remote, Trusted: r.Trusted}, nil)
	if res.Refuse || res.Source == SourceHeader {
		return res
	}
	v := newView(r, !s.identity.holds(r))
	for _, x := range s.rules {
		if !slices.Contains(x.entries, r.Entry) || x.cond != nil && !x.cond.holds(&v) {
			continue
		}
		hit := x.source == SourceRule
		id, twice := "", false
		if x.keyed {
			if id, twice = v.one(x.key); id == "" || twice {
				continue
			}
		}
		switch x.source {
		case SourceWhitelist:
			on, err := members(x.route, id)
			if err != nil {
				res.Failed = append(res.Failed, err)
			}
			hit = on && err == nil
		case SourcePercentage:
			hit = lane.InShare(x.id, id, float64(x.share)/10000)
		}
		if hit {
			res.Tag, res.Source, res.Rule = lane.Tag{Kind: lane.TagLane, Lane: x.lane, Raw: string(x.lane)}, x.source, x.id
			return res
		}
	}
	return res
}

// The look-up finds what reading all rules in their order finds: by source, then
// by priority, the first that matches.
func TestColorIsTheFirstOfTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := genDocument(t)
		s, err := Parse([]byte(doc))
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if !slices.IsSortedFunc(s.rules, func(a, b *rule) int {
			return (int(a.source)-int(b.source))*100 + a.priority - b.priority
		}) {
			t.Fatalf("not in order:\n%s", doc)
		}
		r := genRequest(t)
		want, got := plain(s, r, member), s.Color(r, member)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Result{}, "Warnings"), cmp.Comparer(func(a, b error) bool { return a.Error() == b.Error() })); diff != "" {
			t.Fatalf("(-list +look-up):\n%s\n%s\n%+v", diff, doc, r)
		}
	})
}

// Whoever is in a share is in each larger one.
func TestRaisingKeepsEverybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.IntRange(0, 10000).Draw(t, "low")
		high := rapid.IntRange(low, 10000).Draw(t, "high")
		user := rapid.StringMatching(`[a-z0-9-]{1,12}`).Draw(t, "user")
		in := func(share int) bool {
			doc := fmt.Sprintf("rules: [{id: r, priority: 1, entry: shop, lane: gray, percent: %d.%02d, key: {cookie: u}}]", share/100, share%100)
			s, err := Parse([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			return s.Color(&Request{Entry: "shop", Headers: Map{"cookie": {"u=" + user}}}, nil).Rule != ""
		}
		if in(low) && !in(high) {
			t.Fatalf("%s is in %d and not in %d", user, low, high)
		}
		if in(0) || !in(10000) {
			t.Fatalf("%s is in nothing, or not in all", user)
		}
	})
}

// A rule that lint calls shadowed decides for no request; and what one condition
// implies another by, each request shows.
func TestShadowsAreTrue(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		doc := genDocument(t)
		s, err := Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		shadowed := map[string]bool{}
		for _, f := range s.Lint(LintOptions{}) {
			if f.Code == CodeShadowedRule {
				shadowed[f.Rule] = true
				found++
			}
		}
		for range 20 {
			r := genRequest(t)
			if got := s.Color(r, member); shadowed[got.Rule] {
				t.Fatalf("%s is called shadowed, and decides\n%s\n%+v", got.Rule, doc, r)
			}
		}
	})
	if found == 0 {
		t.Error("nothing was ever shadowed")
	}
}

// Whatever a request looks like, it is colored.
func TestColorIsTotal(t *testing.T) {
	s := mustParse(t, readFile(t, "testdata/coloring.yaml"))
	wide := mustParse(t, `
entry: shop
rules:
  - {id: h, priority: 1, lane: a, match: {host: {exact: never.test}}}
  - {id: p, priority: 2, lane: a, match: {path: {exact: /never}}}
  - {id: q, priority: 3, lane: a, match: {query: {name: never, regex: never}}}
  - {id: c, priority: 4, lane: a, percent: 100, key: {cookie: never}}
`)
	rapid.Check(t, func(t *rapid.T) {
		h := Map(rapid.MapOf(rapid.SampledFrom([]string{"cookie", "Cookie", "x-user-id", "X-User-Id", ""}), rapid.SliceOfN(rapid.String(), 0, 3)).Draw(t, "headers"))
		r := &Request{Entry: "shop", Host: rapid.String().Draw(t, "host"), Target: rapid.String().Draw(t, "target"), Headers: h,
			Tag: lane.ParseTag(rapid.String().Draw(t, "tag"))}
		s.Color(r, nil)
		wide.Color(r, nil)
	})
}
