package printer

import (
	"lane/pkg/config"
	"lane/pkg/iostreams"
)

// ConfigSchema names the JSON form of the settings.
const ConfigSchema = "lane.config/v1"

// Settings is every setting in effect: `lane config`.
type Settings struct {
	Schema   string    `json:"schema"`
	Settings []Setting `json:"settings"`
	Problems []Problem `json:"problems,omitempty"` // with one of these nothing is in effect
	Warnings []string  `json:"warnings,omitempty"` // what is set and does nothing
}

// Setting is one setting. No value is a secret: those are never read into one.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
	Wrong  bool   `json:"wrong,omitempty"` // what stands there cannot be read
}

// Problem is one mistake.
type Problem struct {
	Source string `json:"source"`
	Key    string `json:"key,omitempty"`
	Why    string `json:"why"`
}

// NewSettings converts settings.
func NewSettings(entries []config.Entry) Settings {
	out := Settings{Schema: ConfigSchema, Settings: make([]Setting, len(entries))}
	for i, e := range entries {
		out.Settings[i] = Setting(e)
	}
	return out
}

// PrintSettings writes key, value and source of each setting.
func PrintSettings(s *iostreams.IOStreams, all Settings) error {
	t := NewTable(s, "SETTING", "VALUE", "FROM").Whole()
	for _, e := range all.Settings {
		value, role := e.Value, Plain
		if value == "" && s.IsStdoutTTY {
			value, role = "-", Dim
		}
		source := As(Good, e.Source)
		if e.Source == "default" {
			source.Role = Dim
		}
		if e.Wrong {
			value, role, source = "?", Bad, As(Bad, e.Source)
		}
		t.Row(Text(e.Key), As(role, value), source)
	}
	return t.Flush()
}
