package config

import (
	"fmt"
	"slices"
	"strings"

	"lane/pkg/lane"
)

// Carriers are where a tag is written and read, by preset or header and accept.
func (s *Settings) Carriers() (lane.Carriers, error) {
	c := lane.DefaultCarriers()
	if s.Preset != "" {
		var err error
		if c, err = lane.Preset(s.Preset); err != nil {
			return lane.Carriers{}, err
		}
	}
	if s.Header != "" && s.Header != lane.HeaderTag {
		c.Header = s.Header
		c.Aliases = append(c.Aliases, lane.HeaderTag) // other lanes' callers write it
	}
	for _, a := range s.Accept {
		if !isPreset(a) {
			c.Aliases = append(c.Aliases, a)
			continue
		}
		p, err := lane.Preset(a)
		if err != nil {
			return lane.Carriers{}, err
		}
		for _, k := range p.Extra {
			k.ReadOnly = true
			if !slices.ContainsFunc(c.Extra, func(have lane.Carrier) bool {
				return have.Header == k.Header && have.Member == k.Member && have.Prefix == k.Prefix
			}) {
				c.Extra = append(c.Extra, k)
			}
		}
	}
	return c, nil
}

// Policy is how this machine's own proxy decides: as the shared gateway does,
// but a malformed tag is the developer's own mistake, and told.
func (s *Settings) Policy() lane.Policy {
	p := lane.DefaultPolicy()
	p.InvalidTag = lane.InvalidReject
	p.NoMatch = lane.NoMatch(s.NoMatch)
	p.MaxStale = s.MaxStale
	if s.Strict {
		p.Mode = lane.Strict
	}
	return p
}

func isPreset(v string) bool {
	base, _, _ := strings.Cut(v, ":")
	return slices.Contains(lane.PresetNames(), base)
}

func checkPreset(v string) error {
	_, err := lane.Preset(v)
	if near := nearest(v, lane.PresetNames()); err != nil && !isPreset(v) && near != "" {
		return fmt.Errorf("no preset %q; did you mean %s?", v, near)
	}
	return err
}

// checkCarrier reads one of accept: a preset's name, else a header's. A word
// that looks like a misspelled preset is no header: it would be read from a
// header that nobody sends.
func checkCarrier(v string) (string, error) {
	if isPreset(v) {
		return v, checkPreset(v)
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
