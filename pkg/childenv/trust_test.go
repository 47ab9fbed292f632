package childenv

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRootsOf(t *testing.T) {
	ours := func(ssl, requests, curl, node string) []RootsVar {
		return []RootsVar{{Name: SSLVar, File: ssl}, {Name: RequestsVar, File: requests}, {Name: CurlVar, File: curl}, {Name: NodeVar, File: node, Extra: true}}
	}
	for _, c := range []struct {
		name string
		base []string
		want []RootsVar
	}{
		{"nothing", nil, ours("", "", "", "")},
		{"empty is not set", []string{"SSL_CERT_FILE="}, ours("", "", "", "")},
		{"each its own", []string{"SSL_CERT_FILE=a", "REQUESTS_CA_BUNDLE=b", "CURL_CA_BUNDLE=c", "NODE_EXTRA_CA_CERTS=d"}, ours("a", "b", "c", "d")},
		{"curl reads OpenSSL's", []string{"SSL_CERT_FILE=a"}, ours("a", "", "a", "")},
		{"requests reads curl's", []string{"CURL_CA_BUNDLE=c"}, ours("", "c", "c", "")},
		{"the last of two", []string{"SSL_CERT_FILE=x", "SSL_CERT_FILE=y"}, ours("y", "", "y", "")},
	} {
		if d := cmp.Diff(c.want, RootsOf(c.base, false)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
	if got := RootsOf([]string{"ssl_cert_file=a"}, true)[0].File; got != "a" {
		t.Errorf("on Windows: %q", got)
	}
}

func TestBuildWithTrust(t *testing.T) {
	s := session
	s.Trust = []Var{{SSLVar, "/state/ca/bundle.pem"}, {NodeVar, "/state/ca/ca.pem"}}
	base := []string{"SSL_CERT_FILE=/mine", "OTHER=x", "REQUESTS_CA_BUNDLE=/dir"}
	got := Build(base, s)
	for _, want := range []string{"SSL_CERT_FILE=/state/ca/bundle.pem", "NODE_EXTRA_CA_CERTS=/state/ca/ca.pem", "OTHER=x", "REQUESTS_CA_BUNDLE=/dir"} {
		name, _, _ := cutVar(want)
		n := 0
		for _, kv := range got {
			if have, _, _ := cutVar(kv); have == name {
				n++
			}
		}
		if !slices.Contains(got, want) || n != 1 {
			t.Errorf("%s: %v", want, got)
		}
	}
	if again := Build(got, s); !slices.Equal(again, got) {
		t.Errorf("a second time: %s", cmp.Diff(got, again))
	}
	for _, kv := range Build(base, session) {
		if strings.Contains(kv, "/state") || strings.Contains(kv, "trustStore") {
			t.Errorf("a session that opens nothing sets %s", kv)
		}
	}
}

func TestJavaStoreOption(t *testing.T) {
	dir := filepath.FromSlash("/state dir/ca")
	s := Session{Proxy: "http://127.0.0.1:1", JavaStore: filepath.Join(dir, "java-1.p12"), JavaPassword: "changeit"}
	ours := ` -Djavax.net.ssl.trustStore="` + s.JavaStore + `" -Djavax.net.ssl.trustStoreType=PKCS12 -Djavax.net.ssl.trustStorePassword=changeit`
	older := strings.ReplaceAll(ours, "java-1", "java-0")
	mine := `-Xmx1g -Djavax.net.ssl.trustStore=/mine.jks -Djavax.net.ssl.trustStorePassword=s3cret`
	for _, c := range []struct {
		name, given string
		begins      string
		has         bool
	}{
		{"nothing", "", "-Dhttp.proxyHost", true},
		{"other options", "-Xmx1g", "-Xmx1g -Dhttp.proxyHost", true},
		{"one of an earlier session", "-Xmx1g" + older, "-Xmx1g -Dhttp.proxyHost", true},
		{"the user's own", mine, mine + " -Dhttp.proxyHost", false},
		{"a quote that never ends", `-Da="x`, `-Da="x`, false},
	} {
		got := mergeJava(c.given, s, "localhost")
		if !strings.HasPrefix(got, c.begins) || strings.HasSuffix(got, ours) != c.has || strings.Contains(got, "java-0") {
			t.Errorf("%s: %s", c.name, got)
		}
		if again := mergeJava(got, s, "localhost"); again != got {
			t.Errorf("%s, a second time: %s", c.name, again)
		}
	}
	for given, want := range map[string]bool{"": false, "-Xmx1g": false, mine: true, ours: false, older: false} {
		if got := OwnJavaStore([]string{javaVar + "=" + given}, false, dir); got != want {
			t.Errorf("%q is the user's own: %v", given, got)
		}
	}
	for in, want := range map[string]string{"/a/b": "/a/b", "/a b": `"/a b"`, `/a"b`: `'/a"b'`, "/a'b": `"/a'b"`} {
		got := javaQuote(in)
		if got != want || bareWord(got) != in {
			t.Errorf("%s: %s, which is %s", in, got, bareWord(got))
		}
	}
}
