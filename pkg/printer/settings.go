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
}

// Setting is one setting and where it comes from.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// NewSettings is the settings in their JSON form.
func NewSettings(entries []config.Entry) Settings {
	out := Settings{Schema: ConfigSchema, Settings: make([]Setting, 0, len(entries))}
	for _, e := range entries {
		out.Settings = append(out.Settings, Setting{Key: e.Key, Value: e.Value, Source: e.Source})
	}
	return out
}

// PrintSettings writes the settings as a table: key, value, source.
func PrintSettings(s *iostreams.IOStreams, c Settings) error {
	t := NewTable(s, "KEY", "VALUE", "FROM").Whole()
	for _, e := range c.Settings {
		t.Row(Text(e.Key), Text(e.Value), As(Dim, e.Source))
	}
	return t.Flush()
}
