package lane

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRoutingPage holds docs/routing.md to the code: its example gives what it
// prints, and it names every reason, code, count and preset.
func TestRoutingPage(t *testing.T) {
	raw, err := os.ReadFile("../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	blocks := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of JSON, want the example and its result", len(blocks))
	}
	s, err := ParseSnapshots(strings.NewReader(blocks[0][1]))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(s[0].Decide())
	if err != nil || string(got) != blocks[1][1] {
		t.Errorf("the example gives %s, %v", got, err)
	}
	for _, file := range []string{"reason.go", "decision.go"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+(?:Reason|Code|Kind|Metric)\w+.*= "(\w+)"`).FindAllStringSubmatch(string(src), -1) {
			if !strings.Contains(page, m[1]) {
				t.Errorf("docs/routing.md does not name %s", m[1])
			}
		}
	}
	for _, n := range PresetNames() {
		if !strings.Contains(page, "`"+n+"`") {
			t.Errorf("docs/routing.md does not name the preset %s", n)
		}
		c := mustPreset(t, n)
		for _, e := range c.Extra {
			name := e.Header
			if e.Member != "" {
				name = e.Member
			}
			open := strings.NewReplacer("-featureenv", "-KEY", "-lane", "-KEY", "n-d-env", "n-d-PART").Replace(name)
			if !strings.Contains(page, "`"+name) && !strings.Contains(page, "`"+open) {
				t.Errorf("docs/routing.md does not name %s of preset %s", name, n)
			}
		}
	}
	for _, field := range inputFields {
		if !strings.Contains(page, "`"+field) {
			t.Errorf("docs/routing.md does not name the field %s", field)
		}
	}
}
