package printer

import (
	"strings"
	"testing"

	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/rules"
)

func TestHowAColoringIsShown(t *testing.T) {
	set, err := rules.Parse([]byte(`
entry: shop
rules:
  - { id: one, priority: 1, lane: gray, match: { path: { prefix: /cart } } }
  - { id: all, priority: 2, lane: five, percent: 100, key: { cookie: uid } }
`))
	if err != nil {
		t.Fatal(err)
	}
	c := set.Explain(&rules.Request{Entry: "shop", Target: "/", Tag: lane.ParseTag("gray"), Headers: rules.Map{"Cookie": {"uid=secret-7"}}}, nil)
	e := Explanation{Header: "BASELINE", Message: "m", Kind: "BASELINE", Color: NewExplainedColor("a\x1b[31m", "shop", &c)}
	for _, tty := range []bool{false, true} {
		s, _, out, _ := iostreams.Test()
		s.IsStdoutTTY = tty
		if err := PrintExplanation(s, e); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`rule all of a\x1b[31m (percentage) gives it lane five; its own tag does not count: untrusted`,
			`path begins with "/cart": it is another one`, "matches, the user's bucket is "} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("terminal %v: no %q in\n%s", tty, want, out)
			}
		}
		if strings.Contains(out.String(), "secret-7") {
			t.Errorf("a value of the request:\n%s", out)
		}
	}
	if len(e.Color.Asked) != 2 || e.Color.Asked[0].Bucket != nil || e.Color.Asked[1].Bucket == nil || e.Color.Lane != "five" {
		t.Errorf("%+v", e.Color)
	}
}
