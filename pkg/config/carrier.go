package config

import (
	"fmt"
	"slices"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/nearest"
	"lane/pkg/rules"
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
	p.NoMatch, p.DegradeRatio = lane.NoMatch(s.NoMatch), s.DegradeRatio
	p.UnhealthyLane, p.Zone, p.Warmup = lane.UnhealthyLane(s.UnhealthyLane), lane.ZoneMode(s.ZoneMode), s.Warmup
	p.MinLocal, p.MaxCross, p.OnEmpty = s.MinLocal, s.MaxCross, lane.OnEmpty(s.OnEmpty)
	p.Curve, p.MaxStale = lane.Curve(s.WarmupCurve), s.MaxStale
	if s.Strict {
		p.Mode = lane.Strict
	}
	return p
}

// StickyKey is where a request says who its user is, who keeps his version by it.
func (s *Settings) StickyKey() rules.Key {
	k, _ := rules.ParseKey(s.Sticky) // it was read when it was set; none is none
	return k
}

func isPreset(v string) bool {
	base, _, _ := strings.Cut(v, ":")
	return slices.Contains(lane.PresetNames(), base)
}

// CheckPreset says why v is the name of no preset.
func CheckPreset(v string) error {
	_, err := lane.Preset(v)
	if near := nearest.Word(v, lane.PresetNames()); err != nil && !isPreset(v) && near != "" {
		return fmt.Errorf("no preset %q; did you mean %s?", v, near)
	}
	return err
}

// checkCarrier reads one of accept: a preset's name, else a header's. A word
// that looks like a misspelled preset is no header: it would be read from a
// header that nobody sends.
func checkCarrier(v string) (string, error) {
	if isPreset(v) {
		return v, CheckPreset(v)
	}
	if near := nearest.Word(v, lane.PresetNames()); near != "" {
		return "", fmt.Errorf("no preset %q; did you mean %s?", v, near)
	}
	if !strings.Contains(v, "-") {
		return "", fmt.Errorf("%q is neither a preset (%s) nor a header with a hyphen", v, strings.Join(lane.PresetNames(), ", "))
	}
	return checkHeader(v)
}
