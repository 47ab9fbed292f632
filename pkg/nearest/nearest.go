// Package nearest finds the name that somebody has probably meant: the nearest one of
// those that there are, by the letters that would have to be changed. It knows no
// names of its own.
package nearest

import (
	"slices"
	"strings"
)

// longest is the length beyond which a word is no slip of a name.
const longest = 128

// Word is the one of names that v is most likely a slip of, or "". Letter case is no
// difference.
func Word(v string, names []string) string {
	best, at := "", 1+min(2, len(v)/3)
	if len(v) > longest {
		return ""
	}
	for _, n := range names {
		if d := distance(strings.ToLower(v), strings.ToLower(n)); d < at {
			best, at = n, d
		}
	}
	return best
}

// Words are at most three of names that v may have meant, the nearest first: those
// with few letters changed, and those that hold v or stand in it.
func Words(v string, names []string) []string {
	type near struct {
		name string
		d    int
	}
	if len(v) > longest {
		return nil
	}
	var found []near
	limit := max(2, len(v)/4)
	for _, n := range names {
		if len(n) > longest {
			continue
		}
		if d := distance(v, n); d <= limit || len(v) >= 4 && (strings.Contains(n, v) || strings.Contains(v, n) && len(n) >= 4) {
			found = append(found, near{n, d})
		}
	}
	slices.SortFunc(found, func(a, b near) int {
		if a.d != b.d {
			return a.d - b.d
		}
		return strings.Compare(a.name, b.name)
	})
	var out []string
	for _, f := range found[:min(3, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// distance counts the letters to add, drop, change or swap with their neighbor to
// get from a to b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)} // of i-2, i-1 and i
	for j := range rows[2] {
		rows[2][j] = j
	}
	for i := 1; i <= len(a); i++ {
		rows[0], rows[1], rows[2] = rows[1], rows[2], rows[0]
		rows[2][0] = i
		for j := 1; j <= len(b); j++ {
			d := rows[1][j-1]
			if a[i-1] != b[j-1] {
				d = 1 + min(d, rows[1][j], rows[2][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[0][j-2]+1)
			}
			rows[2][j] = d
		}
	}
	return rows[2][len(b)]
}
