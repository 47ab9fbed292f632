package cmd

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// someOptions are lines of curl's own help.
const someOptions = `Usage: curl [options...] <url>
 -d, --data <data>        HTTP POST data
     --data-binary <data> HTTP POST binary data
 -D, --dump-header <filename> Write the received headers to <filename>
 -F, --form <name=content> Specify multipart MIME data
     --form-escape        Escape multipart form field/file names using backslash
 -G, --get                Put the post data in the URL and use GET
 -g, --globoff            Disable URL sequences and ranges using {} and []
 -I, --head               Show document info only
 -H, --header <header/@file> Pass custom header(s) to server
 -0, --http1.0            Use HTTP 1.0
 -i, --include            Include protocol response headers in the output
     --json <data>        HTTP POST JSON
 -m, --max-time <fractional seconds> Maximum time allowed for transfer
 -:, --next               Make next URL use its separate set of options
 -o, --output <file>      Write to file instead of stdout
 -O, --remote-name        Write output to a file named as the remote file
 -X, --request <method>   Specify request method to use
     --request-target <path> Specify the target for this request
 -s, --silent             Silent mode
 -S, --show-error         Show error even when -s is used
 -T, --upload-file <file> Transfer local FILE to destination
     --url <url>          URL to work with
 -u, --user <user:password> Server user and password
 -A, --user-agent <name>  Send User-Agent <name> to server
 -w, --write-out <format> Use output FORMAT after completion
`

func TestMethodOfCurlsArguments(t *testing.T) {
	table := curlTableOf(someOptions)
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
		"--data=x http://a/":             "POST",
		"-dx http://a/":                  "POST",
		"--form-escape http://a/":        "GET",
		"--request-target -d http://a/":  "GET",
		"-- http://a/ -d":                "GET",
		"-":                              "GET",
		"--max-time 5 http://a/ -X POST": "POST",
	} {
		read := table.read(strings.Fields(args))
		if got := read.method(); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

func TestCurlsArgumentsThatAreNotCompared(t *testing.T) {
	table := curlTableOf(someOptions)
	for args, want := range map[string]string{
		"-sS http://a/":                    "",
		"-dx --url http://a/":              "",
		"--data=o http://a/":               "",
		"-d -o http://a/":                  "", // the value of another one
		"-H -w http://a/":                  "",
		"-m 5 --max-time 5 -i http://a/":   "",
		"--max 5 http://a/":                "", // older curls take a beginning
		"-X DELETE http://a/ -0":           "",
		"http://[::1]/":                    "",
		"http://a/{b}?c=[x]":               "",
		"-g http://a/{b,c}":                "",
		"-o x http://a/":                   "-o: ",
		"-sox http://a/":                   "-o: ",
		"--output x http://a/":             "--output: ",
		"--output=x http://a/":             "--output: ",
		"--out x http://a/":                "--output: ",
		"-sO http://a/":                    "-O: ",
		"http://a/ -D -":                   "-D: ",
		"-w %{http_code} http://a/":        "-w: ",
		"--write-out x http://a/":          "--write-out: ",
		"http://a/ --next http://b/":       "--next: ",
		"http://a/ -: http://b/":           "-:: ",
		"http://a/ http://b/":              "2 URLs: ",
		"--url http://a/ http://b/ -s c":   "3 URLs: ",
		"--url=http://a/ --url http://b/":  "2 URLs: ",
		"-s -- http://a/ -o":               "2 URLs: ",
		"--max-time http://a/ http://b/ c": "2 URLs: ",
		"http://a/{b,c}":                   "several URLs",
		"http://a/[1-3]":                   "several URLs",
		"http://a/[a-e:2]":                 "several URLs",
		"--url @list":                      "from a file",
	} {
		read := table.read(strings.Fields(args))
		err := read.notDiffed()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if read := table.read([]string{"-s", "--", "http://a/"}); read.end != 1 || !slices.Equal(read.urls, []string{"http://a/"}) {
		t.Errorf("behind --: %+v", read)
	}
}

// The curl that is there says what its options are.
func TestOptionsOfTheInstalledCurl(t *testing.T) {
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	table, err := installedCurl(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"output": true, "write-out": true, "url": true, "data": true, "silent": false, "next": false, "http1.0": false} {
		if got, ok := table.value[name]; !ok || got != want {
			t.Errorf("--%s: has a value: %v, is known: %v", name, got, ok)
		}
	}
	for letter, want := range map[string]string{"o": "output", "w": "write-out", "d": "data", "O": "remote-name", "#": "progress-bar"} {
		if got := table.long[letter]; got != want {
			t.Errorf("-%s: %q", letter, got)
		}
	}
}
