package traffic

import (
	"bytes"
	"strings"
)

// An authorization code (RFC 6749, 4.1.2) is good for a token, and is called code, as
// are a thousand harmless things: code=EUR, code=404. It is one beside a parameter that
// only OAuth has there, and at a path that is made for OAuth's answers. Elsewhere a
// reader needs it, and it stays.

// besideCode says that OAuth's answers and its questions for a token have this
// parameter beside a code.
func besideCode(name string) bool {
	switch name {
	case "state", "session_state", "iss", "redirect_uri", "grant_type", "client_id", "client_secret", "code_verifier", "code_challenge":
		return true
	}
	return false
}

// takesAnswer says that a path is one to which OAuth's answers come, by its segments.
func takesAnswer(path string) bool {
	if _, rest, ok := strings.Cut(path, "://"); ok {
		_, path, _ = strings.Cut(rest, "/")
	}
	for step := range strings.FieldsFuncSeq(strings.ToLower(path), func(r rune) bool { return strings.ContainsRune("/-_.;#", r) }) {
		switch step {
		case "callback", "cb", "oauth", "oauth2", "oidc", "sso", "openid":
			return true
		}
	}
	return false
}

// besideFields are the names of fields that are secret for what stands beside them: the
// code of OAuth, and the value whose name is another field's value. nil: there is none.
func besideFields(q string, back bool) map[string]bool {
	low := strings.ToLower(q)
	if !strings.Contains(low, "code") && !strings.Contains(low, "val") && !strings.Contains(low, "%") {
		return nil
	}
	var out map[string]bool
	put := func(name string) {
		if out == nil {
			out = map[string]bool{}
		}
		out[name] = true
	}
	code := back
	var values []string
	for f := range strings.FieldsFuncSeq(q, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(f, "=")
		name = pairName(name)
		code = code || besideCode(name)
		group, last := fieldPlace(name)
		switch {
		case valuesOne(last):
			values = append(values, name)
		case namesOne(last) && secretLabel(unescaped(value)):
			put(group + "=") // no field has this name
		}
	}
	if code {
		put("code")
	}
	for _, name := range values {
		if group, _ := fieldPlace(name); out[group+"="] {
			put(name)
		}
	}
	return out
}

// pairName is a field's name in small letters. In a fragment a path may stand before the
// first: #/cb?code=x.
func pairName(name string) string {
	name = strings.ToLower(unescaped(name))
	return name[strings.LastIndexByte(name, '?')+1:]
}

// fieldPlace divides env[0][name] and env.0.name into what they have in common with
// their siblings, and the last word.
func fieldPlace(name string) (group, last string) {
	name = strings.TrimSuffix(name, "]")
	at := strings.LastIndexAny(name, "[.")
	return name[:at+1], name[at+1:]
}

// maskCodes masks OAuth's codes in the URLs of a text.
func maskCodes(b []byte) []byte {
	if !bytes.Contains(b, []byte("code=")) {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		n := bytes.IndexAny(b, " \t\r\n\"'<>`(),")
		if n < 0 {
			n = len(b)
		}
		if word := b[:n]; bytes.IndexByte(word, '?') >= 0 && bytes.Contains(word, []byte("code=")) {
			out.WriteString(MaskURL(string(word)))
		} else {
			out.Write(word)
		}
		if n < len(b) {
			out.WriteByte(b[n])
			n++
		}
		b = b[n:]
	}
	return out.Bytes()
}
