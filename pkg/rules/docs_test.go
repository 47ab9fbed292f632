package rules

import (
	"regexp"
	"strings"
	"testing"

	"lane/pkg/lane"
)

// block is the first block of a kind in a page.
func block(t *testing.T, page, kind string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no %s in the page", kind)
	}
	return m[1]
}

// TestRulesPage holds docs/rules.md to the code: its document is loaded and found
// good, colors as it says, and the page names every key, source and code.
func TestRulesPage(t *testing.T) {
	page := readFile(t, "../../docs/rules.md")
	doc := block(t, page, "yaml")
	s := mustParse(t, doc)
	if got := s.Lint(LintOptions{Services: []string{"storefront", "api"}}); len(got) > 0 {
		t.Errorf("lint says %v", got)
	}
	for line, want := range map[string]string{
		"/ X-Pressure-Test:true":         "pressure-test",
		"/ X-User-Id:u-2":                "alice",
		"/ cookie:user=dev22":            "developer",
		"/?preview=checkout":             "preview-link",
		"/ @beta.shop.test":              "beta-host",
		"/v2/orders/7":                   "", // at another service
		"/shop/1 X-Tenant:qa":            "testers-in-the-shop",
		"/shops X-Tenant:qa":             "",
		"/ X-Buyer-Id:b-7":               "buyers",
		"/ X-Buyer-Id:b-8":               "",
		"/ X-User-Id:" + inShare(t, 500): "five-percent",
	} {
		r := requestOf(line)
		r.Entry, r.Trusted = "storefront", true
		got := s.Color(r, func(route, id string) (bool, error) { return route == "buyer-api" && id == "b-7", nil })
		if got.Rule != want {
			t.Errorf("%s: rule %q, want %q", line, got.Rule, want)
		}
	}
	if got := s.Color(&Request{Entry: "api", Target: "/v2/orders/7"}, nil); got.Rule != "new-api" {
		t.Errorf("at its service: %+v", got)
	}
	for _, c := range Codes() {
		if !strings.Contains(page, "\n| `"+string(c)+"` |") {
			t.Errorf("the page lacks %s", c)
		}
	}
	for src := SourceHeader; src <= SourcePercentage; src++ {
		if !strings.Contains(page, "\n| `"+src.String()+"` |") {
			t.Errorf("the page lacks the source %s", src)
		}
	}
}

func inShare(t *testing.T, share int) string {
	t.Helper()
	for i := range 1000 {
		if key := "user-" + strings.Repeat("a", i%9) + string(rune('a'+i/9%26)); lane.Bucket("five-percent", key) < share {
			return key
		}
	}
	t.Fatal("nobody")
	return ""
}

// The page names every key that is read: what an unknown one is answered with.
func TestRulesPageNamesEveryKey(t *testing.T) {
	page := readFile(t, "../../docs/rules.md")
	n := 0
	for _, doc := range []string{
		"rules: []\nzzzzzzzzz: 1",
		"rules: []\nrevision: {zzzzzzzzz: 1}",
		"rules: []\nidentity: {zzzzzzzzz: 1}",
		"rules: [{zzzzzzzzz: 1}]",
		"rules: [{match: {zzzzzzzzz: 1}}]",
		"rules: [{match: {header: {zzzzzzzzz: 1}}}]",
		"rules: [{whitelist: {zzzzzzzzz: 1}}]",
		"rules: [{percent: 1, key: {zzzzzzzzz: 1}}]",
	} {
		for _, f := range findings(t, doc) {
			_, keys, ok := strings.Cut(f.Words, "there are ")
			if !ok {
				continue
			}
			for k := range strings.SplitSeq(keys, ", ") {
				n++
				if !strings.Contains(page, "`"+k+"`") {
					t.Errorf("the page lacks %s", k)
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d keys", n)
	}
}

func TestSamplesOfThePage(t *testing.T) {
	page := readFile(t, "../../docs/rules.md")
	list, err := ParseSamples(strings.NewReader(block(t, page, "json")))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := Diff(nil, mustParse(t, block(t, page, "yaml")), list, lane.DefaultCarriers())
	if err != nil || len(changes) != 2 || changes[0].To.Rule != "alice" || changes[1].To.Rule != "buyers" {
		t.Errorf("%+v, %v", changes, err)
	}
}
