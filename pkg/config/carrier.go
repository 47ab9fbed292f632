package config

import (
	"fmt"
	"slices"
	"strings"

	"lane/pkg/lane"
)

func checkPreset(v string) error {
	if slices.Contains(lane.PresetNames(), v) {
		return nil
	}
	if near := nearest(v, lane.PresetNames()); near != "" {
		return fmt.Errorf("no preset %q; did you mean %s?", v, near)
	}
	return fmt.Errorf("no preset %q; there are %s", v, strings.Join(lane.PresetNames(), ", "))
}

// checkCarrier reads one of accept: a preset's name, else a header's. A word
// that looks like a misspelled preset is no header: it would be read from a
// header that nobody sends.
func checkCarrier(v string) (string, error) {
	if slices.Contains(lane.PresetNames(), v) {
		return v, nil
	}
	if near := nearest(v, lane.PresetNames()); near != "" {
		return "", fmt.Errorf("no preset %q; did you mean %s?", v, near)
	}
	if !strings.Contains(v, "-") {
		return "", fmt.Errorf("%q is neither a preset (%s) nor a header with a hyphen", v, strings.Join(lane.PresetNames(), ", "))
	}
	return checkHeader(v)
}

// nearest returns the one of names that v is most likely a slip of, or "".
func nearest(v string, names []string) string {
	best, at := "", 1+min(2, len(v)/3)
	for _, n := range names {
		if d := distance(strings.ToLower(v), n); d < at {
			best, at = n, d
		}
	}
	return best
}

// distance counts the letters to add, drop, change or swap with their neighbor
// to get from a to b.
func distance(a, b string) int {
	prev2, prev := []int(nil), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], prev2[j-2]+1)
			}
		}
		prev2, prev = prev, row
	}
	return prev[len(b)]
}
