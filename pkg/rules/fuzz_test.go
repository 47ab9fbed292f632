package rules

import (
	"errors"
	"os"
	"strings"
	"testing"

	"lane/pkg/lane"
)

// FuzzParse: a document is loaded or refused with its reasons, and one that is
// loaded colors and is linted.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/coloring.yaml", "../../docs/rules.md"} {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, tc := range badDocuments {
		if len(tc.doc) < 1000 {
			f.Add(tc.doc)
		}
	}
	for _, tc := range badRules {
		f.Add("entry: shop\nrules: [{" + tc.rule + "}]")
	}
	for _, tc := range lintCases {
		f.Add("entry: shop\n" + tc.head + "\nrules: [{" + strings.Join(tc.rules, "}, {") + "}]")
	}
	f.Fuzz(func(t *testing.T, doc string) {
		s, err := Parse([]byte(doc))
		if err != nil {
			var bad *InvalidError
			if s != nil || !errors.As(err, &bad) || len(bad.Findings) == 0 || err.Error() == "" {
				t.Fatalf("refused as %v", err)
			}
			return
		}
		for _, f := range s.Lint(LintOptions{Services: []string{"shop"}}) {
			if f.Code == "" || f.Line < 1 || f.Words == "" {
				t.Fatalf("%+v", f)
			}
		}
		for _, e := range append(s.Entries(), "") {
			got := s.Color(&Request{Entry: e, Host: "shop", Target: "/api?a=b", Headers: Map{"X-User-Id": {"u-1"}, "Cookie": {"a=b"}}}, func(string, string) (bool, error) { return true, nil })
			if got.Rule != "" && (got.Tag.Kind != lane.TagLane || lane.ParseTag(string(got.Tag.Lane)).Kind != lane.TagLane || e == "") {
				t.Fatalf("%+v", got)
			}
		}
	})
}
