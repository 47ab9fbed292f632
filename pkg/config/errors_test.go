package config

import "testing"

func TestAProblemSaysItsKeyOnce(t *testing.T) {
	for want, p := range map[string]Problem{
		`--drain: "x" is no duration`:            {Source: "--drain", Key: "drain", Why: `"x" is no duration`},
		`--no-match: "x" is none`:                {Source: "--no-match", Key: "no_match", Why: `"x" is none`},
		`--app-version: version: longer`:         {Source: "--app-version", Key: "version", Why: "longer"},
		`lane.yaml:3: drain: "x" is no duration`: {Source: "lane.yaml:3", Key: "drain", Why: `"x" is no duration`},
		`LANE_DRAIN: drain: "x" is no duration`:  {Source: "LANE_DRAIN", Key: "drain", Why: `"x" is no duration`},
		"-s: orders is given twice":              {Source: "-s", Why: "orders is given twice"},
	} {
		if got := p.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
