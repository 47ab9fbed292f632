package proxy

import (
	"net/netip"
	"strconv"
	"strings"

	"lane/pkg/http1"
	"lane/pkg/lane"
)

// hopKind says what becomes of a field that belongs to one connection.
type hopKind int

const (
	hopNone hopKind = iota // it belongs to the message
	hopDrop
	hopConnection
	hopUpgrade
	hopTE
	hopTrailer
	hopCoding
)

// hop tells the fields that end with their connection (RFC 9110, 7.6.1): those of
// hopHeaders.
func hop(f *http1.Field) hopKind {
	switch len(f.Name) {
	case 2:
		if f.Is("TE") {
			return hopTE
		}
	case 7:
		if f.Is("Trailer") {
			return hopTrailer
		}
		if f.Is("Upgrade") {
			return hopUpgrade
		}
	case 10:
		if f.Is("Connection") {
			return hopConnection
		}
		if f.Is("Keep-Alive") {
			return hopDrop
		}
	case 14:
		if f.Is("HTTP2-Settings") {
			return hopDrop
		}
	case 16:
		if f.Is("Proxy-Connection") {
			return hopDrop
		}
	case 17:
		if f.Is("Transfer-Encoding") {
			return hopCoding
		}
	case 18:
		if f.Is("Proxy-Authenticate") {
			return hopDrop
		}
	case 19:
		if f.Is("Proxy-Authorization") {
			return hopDrop
		}
	case 25:
		if f.Is("Proxy-Authentication-Info") {
			return hopDrop
		}
	}
	return hopNone
}

// trails reports whether a field may stand behind a body: what belongs to a
// connection, and what a head says about the message, may not.
func trails(f *http1.Field) bool {
	return hop(f) == hopNone && !f.Is("Content-Length") && !f.Is("Host")
}

// appendLine appends a field as it came.
func appendLine(dst []byte, f *http1.Field) []byte {
	return append(append(dst, f.Line...), "\r\n"...)
}

// appendAnnounced appends a Trailer field, as it came if all that it announces may
// stand behind the body, and else without what may not.
func appendAnnounced(dst []byte, f *http1.Field, may func(*http1.Field) bool) []byte {
	var kept []string
	all := true
	for name := range strings.SplitSeq(f.Value, ",") {
		switch name = strings.Trim(name, " \t"); {
		case name == "":
		case may(&http1.Field{Name: name}):
			kept = append(kept, name)
		default:
			all = false
		}
	}
	if all {
		return appendLine(dst, f)
	}
	return appendField(dst, f.Name, strings.Join(kept, ", "))
}

// appendField appends a field, if it has a value.
func appendField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return append(append(append(append(dst, name...), ": "...), value...), "\r\n"...)
}

// appendRequest appends the head that the server gets.
func (l *line) appendRequest(dst []byte) []byte {
	req, k, c := &l.req, &l.way.k, &l.way.c
	dst = append(append(dst, req.Method...), ' ')
	dst = append(append(dst, c.target...), " HTTP/1.1\r\n"...)
	k.begin()
	host, te, asks, rest := false, false, c.asks(), c.pre.rest
	for i := range req.Fields {
		f := &req.Fields[i]
		if n := k.which[i]; n >= 0 {
			dst = k.line(dst, n, f)
			continue
		}
		switch hop(f) {
		case hopNone:
			switch {
			case f.Is("Host"):
				host = true
				if f.Value == c.host {
					dst = appendLine(dst, f)
				} else {
					dst = append(append(append(dst, f.Name...), ": "...), c.host...)
					dst = append(dst, "\r\n"...)
				}
			case asks && f.Is(corsAsks) && !req.Named(f):
				dst = appendField(dst, f.Name, rest)
				rest = "" // said once, of several lines
			case !req.Named(f) && !sameWord(l.way.take, f.Name) && !l.way.outside.has(f.Name):
				dst = appendLine(dst, f)
			}
		case hopCoding:
			dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
		case hopTrailer:
			if req.Chunked {
				dst = appendAnnounced(dst, f, l.trails)
			}
		case hopTE: // gRPC servers want to see it, and it is true of us
			if !te && hasToken([]string{f.Value}, "trailers") {
				te = true
				dst = append(dst, "TE: trailers\r\n"...)
			}
		case hopUpgrade:
			if c.upgrade != "" {
				dst = append(append(append(dst, "Connection: Upgrade\r\nUpgrade: "...), c.upgrade...), "\r\n"...)
			}
		}
	}
	if !host {
		dst = append(append(append(dst, "Host: "...), c.host...), "\r\n"...)
	}
	if dst = k.rest(dst); l.way.give != "" {
		dst = append(append(dst, l.way.give...), "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// appendStatus appends the first line of the server's response.
func (l *line) appendStatus(dst []byte) []byte {
	res := &l.way.res
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(strconv.AppendInt(dst, int64(res.Status), 10), ' ')
	return append(append(dst, res.Reason...), "\r\n"...)
}

// appendFields appends the response's fields but those that end here. special,
// if set, is asked first and says whether it has dealt with a field.
func (l *line) appendFields(dst []byte, special func(dst []byte, f *http1.Field) ([]byte, bool)) []byte {
	res := &l.way.res
	for i := range res.Fields {
		f := &res.Fields[i]
		if special != nil {
			var done bool
			if dst, done = special(dst, f); done {
				continue
			}
		}
		if hop(f) == hopNone && !res.Named(f) {
			dst = appendLine(dst, f)
		}
	}
	return dst
}

// appendResponse appends the head that the caller gets. The front nearest to the
// caller says what was decided: what an inner one said is replaced.
func (l *line) appendResponse(dst []byte, say *said, chunked bool) []byte {
	res, c := &l.way.res, &l.way.c
	coded, dated, switched := false, false, res.Status == 101
	fresh, asks, allowed := c.fresh() && !switched, c.asks(), false
	dst = l.appendFields(l.appendStatus(dst), func(dst []byte, f *http1.Field) ([]byte, bool) {
		switch hop(f) {
		case hopTrailer:
			if chunked {
				dst = appendAnnounced(dst, f, trails)
			}
			return dst, true
		case hopCoding:
			if chunked && !coded {
				coded = true
				dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
			}
			return dst, true
		case hopUpgrade:
			if switched {
				dst = append(append(append(dst, "Connection: Upgrade\r\nUpgrade: "...), f.Value...), "\r\n"...)
			}
			return dst, true
		}
		if fresh && stores(f) {
			return dst, true
		}
		allowed = allowed || asks && f.Is(corsOrigin)
		switch len(f.Name) {
		case 4:
			dated = dated || f.Is("Date")
		case len("Content-Length"):
			// With chunks it says nothing, and 204 has none (RFC 9110, 8.6).
			if f.Is("Content-Length") && (res.Chunked || res.Status == 204 || switched) {
				return dst, true
			}
		case len(lane.HeaderDecision):
			if len(f.Name) == len(lane.HeaderDecision) && f.Is(lane.HeaderDecision) {
				return dst, say.decision != ""
			}
			return dst, say.rev != "" && f.Is(lane.HeaderRuleRev)
		case len(lane.HeaderGuard):
			return dst, say.guard != "" && f.Is(lane.HeaderGuard)
		}
		return dst, false
	})
	if chunked && !coded {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	if !dated && !switched {
		dst = appendDate(dst)
	}
	if allowed {
		dst = appendField(dst, corsAllows, c.pre.tag)
	}
	if fresh {
		dst = appendField(dst, "Cache-Control", noStore)
	}
	dst = appendField(dst, lane.HeaderDecision, say.decision)
	dst = appendField(dst, keyGuard, say.guard)
	dst = appendField(dst, lane.HeaderRuleRev, say.rev)
	dst = appendField(dst, lane.HeaderWarning, say.warning)
	if !switched {
		dst = l.appendConnection(dst)
	}
	return append(dst, "\r\n"...)
}

// cutTarget parts a request target in absolute form into its scheme, its host and
// what a server is asked for, byte for byte. A user's name and password before the
// host are for nobody but the caller's own program. ok is false for every other
// form, and for hosts that are none.
func cutTarget(uri, method string) (scheme, host string, t target, ok bool) {
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok || uri[0] == '/' {
		return "", "", "", false
	}
	host = rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, rest = rest[:end], rest[end:]
	} else {
		rest = ""
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if !plainHost(host) {
		return "", "", "", false
	}
	switch {
	case rest == "" && method == "OPTIONS":
		t = "*" // RFC 9112, 3.2.4
	case rest == "" || rest[0] == '?':
		t = target("/" + rest)
	case rest[0] == '#':
		return "", "", "", false
	default:
		t = target(rest)
	}
	return scheme, host, t, true
}

// plainHost reports whether a host is made of what hosts are made of, with a port
// that is a number.
func plainHost(s string) bool {
	if s == "" || strings.HasPrefix(s, ":") {
		return false
	}
	if s[0] == '[' {
		ip, rest, ok := strings.Cut(s[1:], "]")
		at, err := netip.ParseAddr(ip)
		return ok && err == nil && at.Is6() && at.Zone() == "" && (rest == "" || plainHost("a"+rest) && rest[0] == ':')
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c == '-', c == '.', c == '_':
		case c == ':':
			for j := i + 1; j < len(s); j++ {
				if s[j] < '0' || s[j] > '9' {
					return false
				}
			}
			return i+1 < len(s)
		default:
			return false
		}
	}
	return true
}
