package proxy

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
)

// FuzzTarget: what net/http accepts as a target goes on as it came, but that an
// authority in front of it goes, and that bytes which no path may have are
// escaped behind a double slash.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a%2Fb;c?d=e&f", "//a//b", "/a|b", "/?", "/#", "*", "http://h", "http://h?x", "http://h/a?b?c", "//a|b", "/a\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + uri + " HTTP/1.1\r\nHost: svc\r\n\r\n")))
		if err != nil || r.RequestURI != uri || r.Host == "" {
			return
		}
		tg := targetOf(r)
		if tg == "" && !strings.Contains(uri, "://") {
			return
		}
		got := tg.url("http", "10.0.0.1:80", r.Host, false).RequestURI()
		if strings.HasPrefix(got, "http:") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
		if uri[0] == '/' && got != uri && !strings.HasPrefix(uri, "//") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
		if got != "*" && !strings.HasPrefix(got, "/") {
			t.Errorf("%q is no origin form: %q", uri, got)
		}
		if strings.ContainsAny(got, " \r\n\x00") {
			t.Errorf("%q would be sent as %q", uri, got)
		}
	})
}
