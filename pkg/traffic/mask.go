package traffic

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// MaskBody masks what the names of form fields, of the parts of a multipart body and
// of JSON members say is secret: all that stands below such a name. What a body is, its
// content says, whatever it was sent as. Spelling and order of the rest stay. It works
// on bodies that were cut as well.
func MaskBody(kind BodyKind, b []byte) []byte { return maskBody(kind, b, 0) }

// nestedMost bounds bodies within bodies: JSON in a form's field or in a string.
const nestedMost = 4

func maskBody(kind BodyKind, b []byte, depth int) []byte {
	if kind == BodyBinary || kind == BodyGRPC {
		return b
	}
	if depth > nestedMost {
		return []byte(Masked)
	}
	if delim := delimiter(b); delim != nil {
		return maskParts(delim, b, depth)
	}
	if json.Valid(b) {
		return maskJSON(b, true, depth)
	}
	out := b
	if kind == BodyForm || isForm(b) {
		out = []byte(maskPairs(string(b), depth))
	}
	return maskJSON(out, false, depth)
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

// maskPairs masks secret values of a=b&c=d. Some servers take ; for a separator too: a
// secret then reaches to the next &, as it may have one in it.
func maskPairs(q string, depth int) string {
	var b strings.Builder
	b.Grow(len(q))
	for i, pair := range strings.Split(q, "&") {
		if i > 0 {
			b.WriteByte('&')
		}
		for rest := pair; rest != ""; {
			piece, more, cut := strings.Cut(rest, ";")
			name, value, ok := strings.Cut(piece, "=")
			if ok && secretName(unescaped(name)) && rest[len(name)+1:] != "" {
				b.WriteString(name + "=" + Masked)
				break
			}
			if plain := unescaped(value); ok && startsJSON([]byte(plain)) {
				if m := string(maskBody(BodyJSON, []byte(plain), depth+1)); m != plain {
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

// nameMost bounds the name of a member in what is no JSON, in bytes.
const nameMost = 1 << 10

// maskJSON masks JSON members. What is not valid, a text with JSON in it or JSON that
// was cut, may have any " in it: there each one may begin a name.
func maskJSON(b []byte, valid bool, depth int) []byte {
	var out bytes.Buffer
	kept := 0 // up to here b has gone to out
	put := func(from, to int, by []byte) {
		out.Write(b[kept:from])
		out.Write(by)
		kept = to
	}
	for i := 0; i < len(b); {
		if b[i] != '"' {
			i++
			continue
		}
		most := len(b)
		if !valid {
			most = min(len(b), i+nameMost)
		}
		end, closed := stringEnd(b[:most], i)
		if !closed {
			i++
			continue
		}
		colon := skipBlank(b, end)
		if colon == len(b) || b[colon] != ':' { // a value, or no JSON
			if !valid {
				i++
				continue
			}
			if m, ok := maskString(b[i:end], depth); ok {
				put(i, end, m)
			}
			i = end
			continue
		}
		if !secretName(memberName(b[i:end])) {
			i = colon + 1
			if !valid {
				i = end
			}
			continue
		}
		from := skipBlank(b, colon+1)
		to := valueEnd(b, from)
		if from < len(b) && string(b[from:to]) != "null" {
			put(from, to, []byte(`"`+Masked+`"`))
		}
		i = max(to, colon+1)
	}
	if kept == 0 {
		return b
	}
	out.Write(b[kept:])
	return out.Bytes()
}

// maskString masks a string's content, if that is a body itself.
func maskString(quoted []byte, depth int) ([]byte, bool) {
	var s string
	if !bytes.ContainsAny(quoted, "{[=") || json.Unmarshal(quoted, &s) != nil {
		return nil, false
	}
	var masked string
	if i := strings.IndexByte(s, '?'); i >= 0 && !startsJSON([]byte(s)) {
		masked = MaskURL(s)
	} else {
		masked = string(maskBody(BodyText, []byte(s), depth+1))
	}
	if masked == s {
		return nil, false
	}
	out, err := json.Marshal(masked)
	return out, err == nil
}

// memberName is a member's name without its quotes and escapes.
func memberName(quoted []byte) string {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		s = strings.ReplaceAll(strings.Trim(string(quoted), `"`), `\`, "")
	}
	return s
}

// stringEnd is where the string that begins at from has ended.
func stringEnd(b []byte, from int) (end int, closed bool) {
	for i := from + 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(b), false
}

func skipBlank(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \t\r\n", b[i]) >= 0 {
		i++
	}
	return i
}

// valueEnd is where the JSON value that begins at from has ended; all of the rest if it
// does not end.
func valueEnd(b []byte, from int) int {
	if from >= len(b) {
		return len(b)
	}
	if b[from] != '{' && b[from] != '[' {
		if b[from] == '"' {
			end, _ := stringEnd(b, from)
			return end
		}
		if n := bytes.IndexAny(b[from:], ",}] \t\r\n"); n >= 0 {
			return from + n
		}
		return len(b)
	}
	open := 0
	for i := from; i < len(b); i++ {
		switch b[i] {
		case '"':
			end, _ := stringEnd(b, i)
			i = end - 1
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// firstDelimiter finds the line before a multipart body's first part (RFC 2046, 5.1.1):
// a header follows it.
var firstDelimiter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:\A|\n)(--[^\r\n]{1,200}?)[ \t]*\r?\n(?i:content-[a-z-]+[ \t]*:)`)
})

// delimiter is the line between the parts of a multipart body; nil if it is none.
func delimiter(b []byte) []byte {
	if !bytes.Contains(b, []byte("--")) {
		return nil
	}
	if m := firstDelimiter().FindSubmatch(b); m != nil {
		return m[1]
	}
	return nil
}

// maskParts masks the parts of a multipart body whose names are secret, and those
// whose content has secrets. A part whose name cannot be read is masked.
func maskParts(delim, b []byte, depth int) []byte {
	var out, content bytes.Buffer
	inHead, head, part := false, "", false
	flush := func() {
		if !part {
			out.Write(content.Bytes())
		} else {
			c := content.Bytes()
			body := bytes.TrimRight(c, "\r\n")
			out.Write(maskPart(head, body, depth))
			out.Write(c[len(body):])
		}
		content.Reset()
	}
	for line := range bytes.Lines(b) {
		bare := bytes.TrimRight(line, " \t\r\n")
		rest, is := bytes.CutPrefix(bare, delim)
		switch {
		case is && (len(rest) == 0 || string(rest) == "--"):
			flush()
			out.Write(line)
			inHead, head, part = len(rest) == 0, "", false
		case inHead && len(bytes.TrimRight(line, "\r\n")) == 0:
			out.Write(line)
			inHead, part = false, true
		case inHead:
			out.Write(line)
			head += string(line)
		default:
			content.Write(line)
		}
	}
	flush()
	return out.Bytes()
}

func maskPart(head string, body []byte, depth int) []byte {
	if len(body) == 0 {
		return body
	}
	var media, coding string
	unfold := strings.NewReplacer("\r\n ", " ", "\r\n\t", " ", "\n ", " ", "\n\t", " ")
	for line := range strings.Lines(unfold.Replace(head)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch value = strings.TrimSpace(value); strings.ToLower(strings.TrimSpace(name)) {
		case "content-disposition":
			_, params, err := mime.ParseMediaType(value)
			if err != nil || secretName(unescaped(params["name"])) {
				return []byte(Masked)
			}
		case "content-type":
			media = value
		case "content-transfer-encoding":
			coding = strings.ToLower(value)
		}
	}
	if coding == "base64" || coding == "quoted-printable" || !utf8.Valid(body) {
		return body
	}
	return maskBody(KindOf(media, "", body), body, depth+1)
}
