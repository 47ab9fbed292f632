package cmd

import "testing"

func TestWellFormed(t *testing.T) {
	for raw, want := range map[string]string{
		"http://stl/%zz":        "http://stl/%25zz",
		"stl/a%2Fb/%/c%4":       "stl/a%2Fb/%25/c%254",
		"ws://stl/%zz?q=%zz#%z": "ws://stl/%25zz?q=%zz#%z",
		"http://stl/a%2Fb?%zz":  "http://stl/a%2Fb?%zz",
		"http://stl?a/%zz":      "http://stl?a/%zz",
		"https://stl/%zz":       "https://stl/%zz", // what is in TLS is read by net/http
		"ftp://stl/%zz":         "ftp://stl/%zz",
		"http://stl":            "http://stl",
	} {
		if got := wellFormed(raw); got != want {
			t.Errorf("%s is %s, want %s", raw, got, want)
		}
	}
}
