package main

import (
	"regexp"
	"strings"
	"testing"

	"lane/pkg/metrics"
)

// The page of the metrics has each name, with its type, labels and meaning, and no
// name that is not there.
func TestMetricsPageIsComplete(t *testing.T) {
	text := page(t, "docs/metrics.md")
	known := map[string]bool{}
	for _, e := range metrics.Names() {
		known[e.Name] = true
		labels := ""
		if len(e.Labels) > 0 {
			labels = "`" + strings.Join(e.Labels, "`, `") + "`"
		}
		want := "| `" + e.Name + "` | " + e.Type + " | " + labels + " | " + e.Help + " |"
		if got := row(t, text, "`"+e.Name+"`"); got != want {
			t.Errorf("docs/metrics.md has\n%s\nwant\n%s", got, want)
		}
		for _, l := range e.Labels {
			row(t, text, "`"+l+"`")
		}
	}
	if len(known) < 20 {
		t.Errorf("only %d metrics", len(known))
	}
	for _, m := range regexp.MustCompile("(?:lane|gray)_[a-z_]+").FindAllString(text, -1) {
		if !known[m] && !known[strings.TrimSuffix(m, "_bucket")] {
			t.Errorf("docs/metrics.md has %s, which nothing counts", m)
		}
	}
}
