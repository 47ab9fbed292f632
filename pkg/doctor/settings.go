package doctor

import "fmt"

// Setting is one setting in effect, or one that is wrong.
type Setting struct{ Key, Value, Source string }

// Settings is every setting that somebody has given, and what is wrong with them.
type Settings struct {
	Given []Setting
	Files []string
	Wrong []Setting // Value says why
	Err   error     // they could not be read at all
	Idle  []string  // what is set and does nothing
}

// Findings of the settings.
func (s Settings) Findings() []Finding {
	const check = "settings"
	var out []Finding
	if s.Err != nil {
		out = append(out, Finding{check, Wrong, s.Err.Error(), "", "the other checks go on with Consul's own variables"})
	}
	for _, w := range s.Wrong {
		what := w.Value
		if w.Key != "" {
			what = w.Key + ": " + what
		}
		out = append(out, Finding{check, Wrong, what, w.Source, "correct it: the other checks go on with Consul's own variables"})
	}
	if out != nil {
		return out
	}
	for _, g := range s.Given {
		out = append(out, Finding{Check: check, Level: Well, What: fmt.Sprintf("%s is %s", g.Key, g.Value), Where: g.Source})
	}
	for _, w := range s.Idle {
		out = append(out, Finding{Check: check, Level: Note, What: w})
	}
	if out == nil {
		out = []Finding{{Check: check, Level: Well, What: "all settings are defaults"}}
	}
	return out
}
