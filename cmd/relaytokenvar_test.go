package cmd

import (
	"errors"
	"strings"
	"testing"

	"lane/pkg/config"
)

// `export LANE_RELAY_TOKEN="$(cat token; echo)"` and the like bear a line end.
func TestATokenInTheEnvironment(t *testing.T) {
	for held, want := range map[string]string{
		"abc.def.ghi":         "abc.def.ghi",
		"abc.def.ghi\n":       "abc.def.ghi",
		" abc.def.ghi\r\n":    "abc.def.ghi",
		"abc.def\nghi":        "",
		"Bearer abc.def.ghi":  "",
		"\n":                  "",
		"abc.def.ghi\x00\n":   "",
		"abc.def.ghi\x7f.jkl": "",
	} {
		f := &factory{getenv: func(name string) string { return map[string]string{relayTokenVar: held}[name] }}
		got, err := f.relayToken(&config.Settings{})(t.Context())
		if want != "" && (err != nil || got != want) {
			t.Errorf("%q: %q, %v", held, got, err)
		}
		var no *noTokenError
		if want == "" && (!errors.As(err, &no) || !strings.Contains(err.Error(), relayTokenVar+" holds no token: it is to be one line")) {
			t.Errorf("%q: %q, %v", held, got, err)
		}
		if code, _, _ := ladder(err); want == "" && code != exitUsage {
			t.Errorf("%q: exit %d", held, code)
		}
	}
}
