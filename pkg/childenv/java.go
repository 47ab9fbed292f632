package childenv

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// javaKeys are the system properties that a session owns.
var javaKeys = []string{"http.proxyHost", "http.proxyPort", "https.proxyHost", "https.proxyPort", nonProxy}

// nonProxy is the property that lists hosts; it is merged, the others replaced.
const nonProxy = "http.nonProxyHosts"

// mergeJava appends the proxy's properties to the user's own options; what an
// earlier session appended goes, as a JVM takes the last of two.
func mergeJava(given string, s Session, noProxy string) string {
	u, err := url.Parse(s.Proxy)
	if err != nil || u.Hostname() == "" {
		return given
	}
	stores := storeOf(given)
	ours := s.JavaStore != "" && stores != "" && filepath.Dir(stores) == filepath.Dir(s.JavaStore)
	kept, hosts, ok := javaWithout(given, func(name string) bool {
		return slices.Contains(javaKeys, name) || ours && strings.HasPrefix(name, trustStore)
	})
	if !ok {
		return given // no JVM starts with it; what is appended would be in the quote
	}
	for _, h := range javaHosts(noProxy) {
		if !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	values := []string{u.Hostname(), u.Port(), u.Hostname(), u.Port(), strings.Join(hosts, "|")}
	out := kept
	for i, k := range javaKeys {
		if out != "" {
			out += " "
		}
		out += "-D" + k + "=" + values[i]
	}
	if s.JavaStore != "" && (stores == "" || ours) {
		out += " -D" + trustStore + "=" + javaQuote(s.JavaStore) + " -D" + trustStore + "Type=PKCS12 -D" + trustStore + "Password=" + s.JavaPassword
	}
	return out
}

// trustStore is the property that names a JVM's trust store; others that begin so
// say how it is read.
const trustStore = "javax.net.ssl.trustStore"

// storeOf is the trust store that a JVM's options name, or "".
func storeOf(given string) (path string) {
	words, _ := javaWords(given)
	for _, w := range words {
		if v, ok := strings.CutPrefix(bareWord(given[w.start:w.end]), "-D"+trustStore+"="); ok {
			path = v
		}
	}
	return path
}

// OwnJavaStore reports whether an environment's Java options name a trust store of
// the user's own, which dir does not hold: it stays, and is not added to.
func OwnJavaStore(base []string, windows bool, dir string) bool {
	store := storeOf(lookup(base, windows)(javaVar))
	return store != "" && filepath.Dir(store) != dir
}

func javaQuote(s string) string {
	switch {
	case !strings.ContainsAny(s, " \t\"'"):
		return s
	case strings.Contains(s, `"`):
		return "'" + s + "'"
	}
	return `"` + s + `"`
}

// bareWord is a word of a JVM's options as the JVM takes it: quotes may stand
// anywhere in it.
func bareWord(s string) string {
	var b strings.Builder
	quote := byte(0)
	for i := range len(s) {
		switch c := s[i]; {
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// javaWithout removes our properties from a JVM's options, each with one blank
// before it, and returns the hosts that one of them excluded from any proxy. All
// else stays, byte for byte. ok is false for a quote that never ends.
func javaWithout(given string, owned func(name string) bool) (rest string, hosts []string, ok bool) {
	words, ok := javaWords(given)
	if !ok {
		return given, nil, false
	}
	var kept strings.Builder
	from := 0
	for _, w := range words {
		bare := bareWord(given[w.start:w.end])
		name, value, _ := strings.Cut(strings.TrimPrefix(bare, "-D"), "=")
		if !strings.HasPrefix(bare, "-D") || !owned(name) {
			continue
		}
		if name == nonProxy {
			for h := range strings.SplitSeq(value, "|") {
				if h != "" && h != "*" && !slices.Contains(hosts, h) && len(strings.Fields(h)) == 1 {
					hosts = append(hosts, strings.TrimSpace(h))
				}
			}
		}
		kept.WriteString(given[from:max(from, w.start-1)])
		from = w.end
	}
	kept.WriteString(given[from:])
	return kept.String(), hosts, true
}

// span is a piece of a string.
type span struct{ start, end int }

// javaWords splits JAVA_TOOL_OPTIONS as the JVM does: at white space outside of
// quotes, without any escape; false if a quote never ends.
func javaWords(s string) ([]span, bool) {
	var words []span
	start, quote := -1, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == ' ' || c >= '\t' && c <= '\r':
			if start >= 0 {
				words = append(words, span{start, i})
				start = -1
			}
			continue
		case c == '"' || c == '\'':
			quote = c
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		words = append(words, span{start, len(s)})
	}
	return words, quote == 0
}

// javaHosts is NO_PROXY in Java's form: | between, * for a suffix. Networks in
// CIDR form have none. A domain in NO_PROXY means itself and what is below it.
func javaHosts(noProxy string) []string {
	var out []string
	add := func(h string) {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	for e := range strings.SplitSeq(noProxy, ",") {
		if e == "" || strings.ContainsAny(e, "/|\"' \t") {
			continue
		}
		host := hostOf(e)
		suffix := strings.TrimPrefix(strings.TrimPrefix(host, "*"), ".")
		switch {
		case suffix == "":
		case strings.Contains(host, ":"): // Java matches an IPv6 host with its brackets
			add("[" + host + "]")
		case net.ParseIP(host) != nil || !strings.Contains(suffix, "."):
			add(host)
		default:
			if suffix == host {
				add(suffix)
			}
			add("*." + suffix)
		}
	}
	return out
}
