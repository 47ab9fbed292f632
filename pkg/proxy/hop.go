package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopHeaders belong to one connection and never pass a proxy (RFC 9110, 7.6.1),
// Connection's own list apart. Proxy-Authorization is for us, not for them.
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Authentication-Info", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// upgradeOf returns the protocol that a head asks to switch to, or "". An
// upgrade to h2c is none: behind it every request would pass unseen.
func upgradeOf(h http.Header) string {
	up := h.Get("Upgrade")
	if up == "" || !hasToken(h["Connection"], "upgrade") || len(h["Upgrade"]) > 1 {
		return ""
	}
	for p := range strings.SplitSeq(up, ",") {
		if name, _, _ := strings.Cut(strings.TrimSpace(p), "/"); strings.EqualFold(name, "h2c") || strings.EqualFold(name, "h2") {
			return ""
		}
	}
	return up
}

// stripHop removes what belongs to the connection, and keeps an upgrade if
// there is one.
func stripHop(h http.Header, upgrade string) {
	if len(h["Connection"]) > 0 {
		for _, v := range h["Connection"] {
			for name := range strings.SplitSeq(v, ",") {
				if name = textproto.TrimString(name); name != "" {
					h.Del(name)
				}
			}
		}
	}
	for _, name := range hopHeaders {
		delete(h, name)
	}
	if upgrade != "" {
		h["Connection"] = []string{"Upgrade"}
		h["Upgrade"] = []string{upgrade}
	}
}

// hasToken looks for a token, in any letter case, in comma-separated lists.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for p := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(textproto.TrimString(p), token) {
				return true
			}
		}
	}
	return false
}

// keepTrailers remembers that the sender asked for trailers: gRPC servers want
// to see TE: trailers, and it is true of us, we pass them on.
func keepTrailers(h http.Header) bool { return hasToken(h["Te"], "trailers") }

const keyGuard = "X-Lane-Guard"
