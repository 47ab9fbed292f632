package traffic

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

// MaskBody masks what a body's own names say is secret: those of form fields, of the
// parts of a multipart body, of members of JSON and YAML, of XML elements and
// attributes, of settings in a text; with all that stands below such a name. What a
// body is, its content says, whatever it was sent as. Spelling and order of the rest
// stay. It works on bodies that were cut as well.
func MaskBody(kind BodyKind, b []byte) []byte {
	if kind == BodyBinary {
		return b
	}
	if kind == BodyMultipart {
		if delim := delimiter(b, true); delim != nil {
			return maskParts(delim, b, 0)
		}
	}
	return maskBody(kind, b, 0)
}

// nestedMost bounds bodies within bodies: JSON in a form's field or in a string.
const nestedMost = 4

// maskBody tells what b is by its content, as far as it can.
//
//	parts | JSON | XML (and the texts in it) | form | text: lines, assignments, JSON or XML in it
func maskBody(kind BodyKind, b []byte, depth int) []byte {
	if kind == BodyGRPC || len(b) == 0 {
		return b
	}
	if depth > nestedMost {
		return []byte(Masked)
	}
	if delim := delimiter(b, false); delim != nil {
		return maskParts(delim, b, depth)
	}
	switch {
	case json.Valid(b):
		return maskJSON(b, true, depth)
	case startsXML(b):
		return maskXML(b, depth, true)
	}
	out := b
	form := isForm(b)
	if form || kind == BodyForm {
		out = []byte(maskPairs(string(b), depth))
	}
	if !form && (kind != BodyForm || bytes.IndexByte(bytes.TrimSpace(b), '\n') >= 0) {
		out = maskLines(out, startsJSON(b))
	}
	out = maskJSON(maskURLs(maskCodes(maskAssigned(out))), false, depth)
	if bytes.IndexByte(out, '<') >= 0 {
		out = maskXML(out, depth, false)
	}
	return out
}

// maskText masks a text that stands in another body; ok is false if it stays.
func maskText(s string, depth int) (out string, ok bool) {
	if !strings.ContainsAny(s, "{[=:<") {
		return s, false
	}
	out = s
	if b := []byte(s); !startsJSON(b) && !startsXML(b) && !strings.ContainsAny(s, " \t\r\n") && strings.ContainsAny(s, "?#@") {
		out = MaskURL(s)
	}
	out = string(maskBody(BodyText, []byte(out), depth+1))
	return out, out != s
}

// maskURLs masks the passwords of all URLs in a text.
func maskURLs(b []byte) []byte {
	if !bytes.Contains(b, []byte("://")) || bytes.IndexByte(b, '@') < 0 {
		return b
	}
	var out bytes.Buffer
	for {
		at := bytes.Index(b, []byte("://"))
		if at < 0 {
			break
		}
		end := len(b)
		if n := bytes.IndexAny(b[at:], " \t\r\n\"'<>`"); n >= 0 {
			end = at + n
		}
		out.Write(b[:at])
		out.WriteString(maskUserinfo(string(b[at:end])))
		b = b[end:]
	}
	out.Write(b)
	return out.Bytes()
}

// isForm says that a text can be fields of a form: name=value, without blanks.
func isForm(b []byte) bool {
	return bytes.IndexByte(bytes.TrimSpace(b), '=') > 0 && !bytes.ContainsAny(bytes.TrimSpace(b), " \t\r\n\"<>{}")
}

// startsJSON says that a text looks like an object or an array.
func startsJSON(b []byte) bool {
	t := bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n")
	return len(t) > 0 && (t[0] == '{' || t[0] == '[')
}

// maskPairs masks secret values of a=b&c=d.
func maskPairs(q string, depth int) string { return maskFields(q, depth, false) }

// maskFields is maskPairs; back says that OAuth's answers come to the path of this query.
// Some servers take ; for a separator too: a secret then reaches to the next &, as it
// may have one in it.
func maskFields(q string, depth int, back bool) string {
	beside := besideFields(q, back)
	var b strings.Builder
	b.Grow(len(q))
	for i, pair := range strings.Split(q, "&") {
		if i > 0 {
			b.WriteByte('&')
		}
		for rest := pair; rest != ""; {
			piece, more, cut := strings.Cut(rest, ";")
			name, value, ok := strings.Cut(piece, "=")
			if ok && rest[len(name)+1:] != "" && (secretName(unescaped(name)) || beside[pairName(name)]) {
				b.WriteString(name + "=" + Masked)
				break
			}
			plain := unescaped(value)
			if bare := []byte(plain); ok && (startsJSON(bare) || startsXML(bare)) {
				if m := string(maskBody(BodyText, bare, depth+1)); m != plain {
					piece = name + "=" + url.QueryEscape(m)
				}
			}
			b.WriteString(piece)
			if cut {
				b.WriteByte(';')
			}
			rest = more
		}
	}
	return b.String()
}

func unescaped(s string) string {
	if plain, err := url.QueryUnescape(s); err == nil {
		return plain
	}
	return s
}
