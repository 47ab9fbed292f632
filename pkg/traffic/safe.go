package traffic

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Masked stands in place of a secret.
const Masked = "***"

// Printable makes a string from the wire fit for a terminal: control
// characters (C0, DEL, C1), direction and zero-width formatting, line
// separators and bytes that are no UTF-8 are written as escapes, \x1b. A
// terminal acts on those bytes; a reader must see them.
func Printable(s string) string {
	ok := true
	for _, r := range s {
		if !printable(r) || r == utf8.RuneError {
			ok = false
			break
		}
	}
	if ok {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			b.WriteString(`\x` + hex2(s[i]))
		case printable(r):
			b.WriteRune(r)
		case r < 0x100:
			b.WriteString(`\x` + hex2(byte(r)))
		default:
			b.WriteString(`\u{` + strconv.FormatInt(int64(r), 16) + "}")
		}
		i += n
	}
	return b.String()
}

// printable is false for what moves the cursor, hides or reorders text.
func printable(r rune) bool {
	if r < 0x80 {
		return r >= 0x20 && r != 0x7f
	}
	return unicode.IsPrint(r)
}

func hex2(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// secretHeaders hold credentials whatever their value looks like.
var secretHeaders = map[string]bool{
	"authorization": true, "proxy-authorization": true, "cookie": true, "set-cookie": true,
	"x-csrftoken": true,
}

// secretWords, as a part of a header's or query parameter's name, make its
// value a secret. Parts are what stands between -, _ and . in the name.
var secretWords = map[string]bool{
	"token": true, "tokens": true, "password": true, "passwd": true, "pwd": true, "pass": true,
	"secret": true, "secrets": true, "sig": true, "signature": true, "key": true, "apikey": true,
	"credential": true, "credentials": true, "auth": true, "authorization": true, "session": true,
	"sessionid": true, "sessid": true, "jsessionid": true, "phpsessid": true, "sid": true, "jwt": true, "cookie": true,
	"csrftoken": true, "xsrftoken": true, "codeverifier": true, "devicecode": true, "passphrase": true,
	"accesstoken": true, "refreshtoken": true, "idtoken": true, "authtoken": true,
	"clientsecret": true, "accesskey": true, "secretkey": true, "privatekey": true,
}

// notSecret are headers whose name has such a part and whose value is public.
var notSecret = map[string]bool{
	"sec-websocket-key": true, "idempotency-key": true, "surrogate-key": true,
	"public-key-pins": true, "x-lane-tag": true,
}

// SecretHeader reports whether a header's values are to be masked.
func SecretHeader(name string) bool {
	n := strings.ToLower(name)
	return secretHeaders[n] || !notSecret[n] && secretName(n)
}

// joined takes a name's parts together. It is made once: each header of each
// exchange is looked at.
var joined = strings.NewReplacer("-", "", "_", "", ".", "")

// secretName reports whether a part of the name is one of the secret words, or the
// plural of one; clientSecret and client_secret are the same name.
func secretName(name string) bool {
	if secretWord(joined.Replace(strings.ToLower(name))) {
		return true
	}
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool {
		return r == '-' || r == '_' || r == '.' || r == '[' || r == ']' || r == ' '
	}) {
		if secretWord(strings.ToLower(part)) {
			return true
		}
		from := 0
		for i := 1; i <= len(part); i++ {
			if i == len(part) || isUpper(part[i]) && !isUpper(part[i-1]) {
				if (from > 0 || i < len(part)) && secretWord(strings.ToLower(part[from:i])) {
					return true
				}
				from = i
			}
		}
	}
	return false
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

func secretWord(s string) bool { return secretWords[s] || secretWords[strings.TrimSuffix(s, "s")] }

// MaskHeaderValue masks one value of a header if the name or the value asks for
// it. URLs in a value (Location, Referer) keep their form, not their secrets.
func MaskHeaderValue(name, value string) string {
	n := strings.ToLower(name)
	if !SecretHeader(n) {
		switch n {
		case "location", "content-location", "referer", "origin", "x-original-url", "x-forwarded-uri", "refresh", "link":
			return MaskURL(value)
		}
		return value
	}
	switch n {
	case "authorization", "proxy-authorization":
		if scheme, rest, ok := strings.Cut(value, " "); ok && rest != "" && len(scheme) <= 12 {
			return scheme + " " + Masked
		}
	case "cookie":
		parts := strings.Split(value, ";")
		for i, p := range parts {
			if name, _, ok := strings.Cut(p, "="); ok {
				parts[i] = name + "=" + Masked
			} else {
				parts[i] = Masked
			}
		}
		return strings.Join(parts, ";")
	case "set-cookie":
		first, attrs, more := strings.Cut(value, ";")
		if name, _, ok := strings.Cut(first, "="); ok {
			first = name + "=" + Masked
		} else {
			first = Masked
		}
		if more {
			first += ";" + maskFolded(attrs)
		}
		return first
	}
	return Masked
}

// maskFolded masks what follows a comma in the attributes of a cookie: some servers write
// several cookies into one Set-Cookie. The comma of a date has no = behind it.
func maskFolded(attrs string) string {
	parts := strings.Split(attrs, ";")
	for i, p := range parts {
		comma := strings.IndexByte(p, ',')
		if comma < 0 {
			continue
		}
		if at := strings.IndexByte(p[comma:], '='); at >= 0 {
			parts[i] = p[:comma+at+1] + Masked
		}
	}
	return strings.Join(parts, ";")
}

// MaskURL masks the password of a URL, the values of query and path parameters whose
// name says that they are secret, and the code of an OAuth answer. All else, order and
// spelling too, stays. It works on what cannot be parsed as well.
func MaskURL(raw string) string {
	raw = maskUserinfo(raw)
	at := strings.IndexAny(raw, "?#")
	if at < 0 {
		return maskPath(raw)
	}
	if q := strings.IndexByte(raw, '?'); q >= 0 {
		at = q
	}
	path, rest := raw[:at], raw[at+1:]
	back := takesAnswer(path)
	// OAuth's implicit answers carry tokens behind #.
	query, frag, cut := strings.Cut(rest, "#")
	out := maskPath(path) + raw[at:at+1] + maskQuery(query, back)
	if cut {
		out += "#" + maskQuery(frag, back)
	}
	return out
}

// maskPath masks secret parameters of a path: /orders;token=x/1. A value reaches to the
// next segment, as it may have a ; in it.
func maskPath(path string) string {
	if strings.IndexByte(path, '=') < 0 {
		return path
	}
	var b strings.Builder
	for path != "" {
		n := strings.IndexAny(path[1:], "/#") + 1
		if n == 0 {
			n = len(path)
		}
		b.WriteString(maskSegment(path[:n]))
		path = path[n:]
	}
	return b.String()
}

func maskSegment(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] != '=' {
			continue
		}
		name := unescaped(s[strings.LastIndexAny(s[:i], "/;#&=")+1 : i])
		if secretName(name[strings.LastIndexByte(name, ';')+1:]) && i+1 < len(s) {
			return s[:i+1] + Masked
		}
	}
	return s
}

// maskQuery masks secret values of a=b&c=d; back says that OAuth's answers come to its path.
func maskQuery(q string, back bool) string { return maskFields(q, 0, back) }

// maskUserinfo masks the password in scheme://user:password@host.
func maskUserinfo(raw string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if at < 0 {
		return raw
	}
	user, _, has := strings.Cut(rest[:at], ":")
	if has {
		user += ":" + Masked
	}
	return scheme + "://" + user + rest[at:]
}
