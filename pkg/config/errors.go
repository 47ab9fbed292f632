package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the settings.
type Problem struct {
	Source string // "lane.yaml:3", "LANE_DRAIN", "--drain"
	Key    string // empty when it is not about one key
	Why    string
	weight int // problems of one source, in the order of its lines
	layer  int // in which the value stands; layerNone: it was read, and does not fit another
}

func (p Problem) String() string {
	if p.Key == "" || p.Source == "--"+strings.ReplaceAll(p.Key, "_", "-") { // the flag is the key's name
		return p.Source + ": " + p.Why
	}
	return p.Source + ": " + p.Key + ": " + p.Why
}

// Invalid is everything that is wrong with the settings, in one go.
type Invalid struct {
	Problems []Problem
	// Entries are all settings as far as they could be read, and Files the files that
	// were; both are to be looked at, and never to be used.
	Entries []Entry
	Files   []string
}

func (e *Invalid) Error() string {
	if len(e.Problems) == 1 {
		return "settings: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "settings: %d problems", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// sorted puts the problems into the order in which a person reads the sources.
func sorted(p []Problem) []Problem {
	slices.SortStableFunc(p, func(a, b Problem) int { return a.weight - b.weight })
	return p
}
