package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// target is a request target in origin form, byte for byte as it was asked:
// the path with its query, "*", or "" for what is no target of a server.
type target string

// targetOf cuts the origin form out of a request line. A URL that was parsed
// and printed again is not the same bytes: %2F, //, ; and | would change.
func targetOf(r *http.Request) target {
	uri := r.RequestURI
	if uri == "" { // a client's request, not a server's
		return target(r.URL.RequestURI())
	}
	if uri[0] == '/' || uri == "*" {
		return target(uri)
	}
	if i := strings.Index(uri, "://"); i >= 0 {
		rest := uri[i+3:]
		if j := strings.IndexAny(rest, "/?"); j >= 0 {
			rest = rest[j:]
		} else {
			rest = ""
		}
		switch {
		case rest == "" && r.Method == http.MethodOptions:
			return "*" // RFC 9112, 3.2.4
		case rest == "" || rest[0] == '?':
			return target("/" + rest)
		}
		return target(rest)
	}
	return "" // scheme:opaque, which no server has a resource for
}

// url makes the URL that net/http sends with exactly these bytes. through is
// set when the next hop is a proxy, which wants the absolute form.
func (t target) url(scheme, host, asked string, through bool) *url.URL {
	u := &url.URL{Scheme: scheme, Host: host}
	path, query, has := strings.Cut(string(t), "?")
	u.RawQuery, u.ForceQuery = query, has && query == ""
	switch {
	case through:
		u.Opaque = "//" + asked + path
	case strings.HasPrefix(path, "//"):
		// An opaque part that begins so is taken for an authority. A path that
		// is validly encoded is sent as it stands.
		if p, err := url.PathUnescape(path); err == nil {
			u.Path, u.RawPath = p, path
		} else {
			u.Path = path
		}
	default:
		u.Opaque = path
	}
	return u
}
