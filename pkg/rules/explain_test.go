package rules

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lane/pkg/lane"
)

// What is said of the rules is what coloring does: the one that it hit is the last,
// and each before it has a reason.
func TestAnExplanationIsTheColoring(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := genDocument(t)
		s, err := Parse([]byte(doc))
		if err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		r := genRequest(t)
		got := s.Explain(r, member)
		if diff := cmp.Diff(s.Color(r, member), got.Result, cmpopts.IgnoreFields(Result{}, "Failed")); diff != "" {
			t.Fatalf("(-color +explain):\n%s", diff)
		}
		hit := ""
		for i, a := range got.Asked {
			if a.Hit != (a.Why == "") || a.Hit && i != len(got.Asked)-1 {
				t.Fatalf("rule %d of %d: %+v\n%s", i, len(got.Asked), a, doc)
			}
			if a.Hit {
				hit = a.ID
			}
		}
		if hit != got.Rule {
			t.Fatalf("it says %q, and coloring %q\n%s\n%+v", hit, got.Rule, doc, r)
		}
	})
}

const explained = `
entry: shop
trustHeader: [10.0.0.0/8]
identity: { headers: [X-User], trust: [10.0.0.0/8] }
rules:
  - { id: listed, priority: 1, lane: one, whitelist: { route: buyers, header: X-User } }
  - { id: both, priority: 2, lane: two, match: { all: [ { path: { prefix: /cart } }, { cookie: { name: tester, exact: "1" } } ] } }
  - { id: either, priority: 3, lane: three, match: { any: [ { host: { exact: beta.test } }, { query: { name: beta, exact: "1" } } ] } }
  - { id: elsewhere, priority: 4, entry: api, lane: four, match: { path: { prefix: / } } }
  - { id: share, priority: 5, lane: five, percent: 5, key: { cookie: uid } }
`

func TestWhyARuleDoesNotMatch(t *testing.T) {
	s := mustParse(t, explained)
	bucket := func(hit bool) string { // a user inside of the share, or outside
		for _, u := range strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp qq rr ss tt uu") {
			if (lane.Bucket("share", u) < 500) == hit {
				return u
			}
		}
		t.Fatal("no such user")
		return ""
	}
	on := func(_, id string) (bool, error) { return id == "ann", nil }
	for _, c := range []struct {
		what    string
		r       string // the headers of a request from 10.0.0.1, one a line
		target  string
		members Members
		want    []string // of each rule asked
		source  Source
	}{
		{"nothing of it", "", "/", on, []string{
			"listed: header x-user: it is not there; not asked", `both: path begins with "/cart": it is another one`,
			`either: none of: host = "beta.test" or query beta = "1"`, "share: cookie uid: it is not there"}, SourceNone},
		{"on the list", "X-User: ann", "/", on, []string{"listed: hit; yes"}, SourceWhitelist},
		{"not on the list, but a tester", "X-User: bob\nCookie: tester=1", "/cart/7", on, []string{
			"listed: the user is not on the whitelist buyers; no", "both: hit"}, SourceRule},
		{"a list without an answer", "X-User: bob\nCookie: tester=0", "/cart?beta=1", func(string, string) (bool, error) { return true, errors.New("away") }, []string{
			"listed: the whitelist buyers gives no answer; failed", `both: cookie tester = "1": it is another one`, "either: hit"}, SourceRule},
		{"a list that nobody knows", "X-User: bob\nX-User: eve", "/?beta=1", nil, []string{
			"listed: header x-user: there are two that differ; not asked", `both: path begins with "/cart": it is another one`, "either: hit"}, SourceRule},
		{"no list at all", "X-User: bob", "/?beta=1", nil, []string{
			"listed: nobody knows the whitelist buyers; not asked", `both: path begins with "/cart": it is another one`, "either: hit"}, SourceRule},
		{"in the share", "Cookie: uid=" + bucket(true), "/", on, []string{"listed", "both", "either", "share: hit; bucket"}, SourcePercentage},
		{"not in the share", "Cookie: uid=" + bucket(false), "/", on, []string{"listed", "both", "either", "share: the user's bucket"}, SourceNone},
	} {
		r := requestFrom(c.r, c.target, "10.0.0.1")
		got := s.Explain(r, c.members)
		if got.Source != c.source || len(got.Asked) != len(c.want) {
			t.Errorf("%s: %v, %+v", c.what, got.Source, got.Asked)
			continue
		}
		for i, a := range got.Asked {
			said := a.ID + ": " + a.Why
			if a.Hit {
				said = a.ID + ": hit"
			}
			if a.Listed != "" {
				said += "; " + string(a.Listed)
			}
			if a.Bucket >= 0 {
				said += "; bucket"
			}
			if !strings.HasPrefix(said, c.want[i]) {
				t.Errorf("%s: %q, want %q", c.what, said, c.want[i])
			}
		}
	}
}

func TestWhenNoRuleIsAsked(t *testing.T) {
	s := mustParse(t, explained)
	tagged := requestFrom("X-User: ann", "/", "10.0.0.1")
	tagged.Tag = lane.ParseTag("gray")
	if got := s.Explain(tagged, nil); got.Source != SourceHeader || got.Tag.Lane != "gray" || len(got.Asked) != 0 {
		t.Errorf("%+v", got)
	}
	// Of a stranger neither the tag counts nor who he says that he is.
	tagged = requestFrom("X-User: ann", "/", "192.0.2.1")
	tagged.Tag = lane.ParseTag("gray")
	got := s.Explain(tagged, func(string, string) (bool, error) { return true, nil })
	if got.Rejected != RejectedUntrusted || len(got.Asked) != 4 || got.Asked[0].Why != "header x-user: it does not count from this sender" {
		t.Errorf("%+v", got)
	}
	other := requestFrom("", "/", "10.0.0.1")
	other.Entry = "nobody"
	if got := s.Explain(other, nil); got.Source != SourceNone || got.Asked != nil {
		t.Errorf("%+v", got)
	}
	var none *Set
	if got := none.Explain(other, nil); got.Source != SourceNone || got.Asked != nil {
		t.Errorf("%+v", got)
	}
}

func TestAWhitelistIsAskedOnce(t *testing.T) {
	asked := 0
	mustParse(t, explained).Explain(requestFrom("X-User: bob", "/", "10.0.0.1"), func(string, string) (bool, error) {
		asked++
		return false, nil
	})
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// requestFrom is a request to shop with headers, one a line.
func requestFrom(headers, target, remote string) *Request {
	h := Map{}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		h[name] = append(h[name], value)
	}
	return &Request{Entry: "shop", Host: "shop.test", Target: target, Headers: h, Remote: netip.MustParseAddr(remote)}
}

// Of a path that two servers could read in two ways it is said which rule each of
// them would let have it.
func TestWhoseAnAmbiguousPathIs(t *testing.T) {
	set, err := Parse([]byte(`
entry: shop
rules:
  - { id: admin, priority: 1, lane: dev-alice, match: { path: { prefix: /shop/admin } } }
  - { id: shop, priority: 2, lane: dev-bob, match: { path: { prefix: /shop } } }
`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		ambiguous bool
		readings  [2]string
	}{
		"/shop/admin":      {false, [2]string{}},
		"/shop/a%2Fb":      {false, [2]string{}}, // both are the same rule's
		"/shop//admin":     {true, [2]string{"shop", "admin"}},
		`/shop\admin`:      {true, [2]string{"", "admin"}},
		"/shop%2Fadmin":    {true, [2]string{"", "admin"}},
		"/shop/../admin":   {true, [2]string{}},
		"/other/%2e%2e/hi": {true, [2]string{}},
	} {
		c := set.Explain(&Request{Entry: "shop", Target: path, Headers: Map{}}, nil)
		if c.Ambiguous != want.ambiguous || c.Readings != want.readings {
			t.Errorf("%s: ambiguous %v, %q", path, c.Ambiguous, c.Readings)
		}
	}
}
