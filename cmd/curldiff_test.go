package cmd

import (
	"strings"
	"testing"
)

func TestMethodOfCurlsArguments(t *testing.T) {
	for args, want := range map[string]string{
		"http://a/":                      "GET",
		"-s -i http://a/":                "GET",
		"-I http://a/":                   "HEAD",
		"-X POST http://a/":              "POST",
		"-XPUT http://a/":                "PUT",
		"-sXDELETE http://a/":            "DELETE",
		"-sX PATCH http://a/":            "PATCH",
		"--request PUT http://a/":        "PUT",
		"--request=PUT http://a/":        "PUT",
		"-d x http://a/":                 "POST",
		"-sd x http://a/":                "POST",
		"--data-binary @- http://a/":     "POST",
		"--json {} http://a/":            "POST",
		"-F a=b http://a/":               "POST",
		"-T file http://a/":              "PUT",
		"-G -d x http://a/":              "GET",
		"-X GET -d x http://a/":          "GET",
		"-H X-Data:-d http://a/":         "GET",
		"-o -d http://a/":                "GET", // the value of another one
		"-u d:F http://a/ -A TdF":        "GET",
		"http://a/ -X":                   "GET",
		"-":                              "GET",
		"--max-time 5 http://a/ -X POST": "POST",
	} {
		if got := methodOf(strings.Fields(args)); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}
