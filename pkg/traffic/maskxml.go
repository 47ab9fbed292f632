package traffic

import (
	"bytes"
	"html"
	"strings"
)

// startsXML says that a text looks like XML or HTML.
func startsXML(b []byte) bool {
	t := bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n")
	return len(t) > 1 && t[0] == '<' && (nameStart(t[1]) || t[1] == '?' || t[1] == '!')
}

func nameStart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

// maskXML masks the content of elements whose names are secret, the values of such
// attributes, and those beside an attribute that names a secret, as in
// <add key="password" value="x"/>. It needs no well-formed text: HTML, and a part of a
// document, will do. texts says that what stands between the tags is to be masked too.
func maskXML(b []byte, depth int, texts bool) []byte {
	var out bytes.Buffer
	paired := pairedElements(b)
	between := func(s []byte) {
		if m, ok := maskText(html.UnescapeString(string(s)), depth); texts && ok {
			out.WriteString(html.EscapeString(m))
		} else {
			out.Write(s)
		}
	}
	for i := 0; i < len(b); {
		at := bytes.IndexByte(b[i:], '<')
		if at < 0 {
			between(b[i:])
			break
		}
		between(b[i : i+at])
		i += at
		rest := b[i:]
		switch {
		case bytes.HasPrefix(rest, []byte("<!--")):
			i += maskEnclosed(&out, rest, "<!--", "-->", depth)
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			i += maskEnclosed(&out, rest, "<![CDATA[", "]]>", depth)
		case len(rest) > 1 && nameStart(rest[1]):
			t := parseTag(rest)
			secret := t.write(&out, depth) || paired[i]
			i += t.end
			if !secret || t.empty {
				break
			}
			inner := t.content(b[i:])
			if len(bytes.TrimSpace(b[i:i+inner])) > 0 {
				out.WriteString(Masked)
			}
			i += inner
		default:
			out.WriteByte('<')
			i++
		}
	}
	return out.Bytes()
}

// maskEnclosed writes a comment or a CDATA section with its text masked, and says how
// long it was.
func maskEnclosed(out *bytes.Buffer, b []byte, open, end string, depth int) int {
	n, after := len(b), len(b)
	if at := bytes.Index(b[len(open):], []byte(end)); at >= 0 {
		n = len(open) + at
		after = n + len(end)
	}
	m, _ := maskText(string(b[len(open):n]), depth)
	out.WriteString(open + m)
	out.Write(b[n:after])
	return after
}

// tag is an element's start: its name, and where each attribute's value stands.
type tag struct {
	b     []byte
	name  string
	attrs []attr
	end   int
	empty bool // <a/>, or cut in the middle
}

type attr struct {
	name     string
	from, to int // of the value, without quotes
}

func parseTag(b []byte) tag {
	t := tag{b: b, end: len(b), empty: true}
	i := 1
	for i < len(b) && strings.IndexByte(" \t\r\n/><", b[i]) < 0 {
		i++
	}
	t.name = string(b[1:i])
	for i < len(b) {
		switch {
		case b[i] == '>':
			t.end, t.empty = i+1, b[i-1] == '/'
			return t
		case b[i] == '<': // no tag, or a broken one
			t.end, t.empty = i, false
			return t
		case strings.IndexByte(" \t\r\n/", b[i]) >= 0:
			i++
		default:
			from := i
			for i < len(b) && strings.IndexByte(" \t\r\n/><=", b[i]) < 0 {
				i++
			}
			a := attr{name: string(b[from:i])}
			eq := skipBlank(b, i)
			if eq == len(b) || b[eq] != '=' {
				if i == from {
					i++ // = without a name
				}
				break
			}
			a.from, a.to, i = attrValue(b, skipBlank(b, eq+1))
			t.attrs = append(t.attrs, a)
		}
	}
	return t
}

// attrValue is where a value stands that begins at i, and where the rest begins. \" is
// the quote of XML in a string of another language.
func attrValue(b []byte, i int) (from, to, next int) {
	if i == len(b) {
		return i, i, i
	}
	quote := ""
	switch {
	case b[i] == '"' || b[i] == '\'':
		quote = string(b[i])
	case b[i] == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\''):
		quote = string(b[i : i+2])
	}
	if quote == "" {
		from = i
		for i < len(b) && strings.IndexByte(" \t\r\n>", b[i]) < 0 {
			i++
		}
		return from, i, i
	}
	from = i + len(quote)
	at := bytes.Index(b[from:], []byte(quote))
	if at < 0 {
		return from, len(b), len(b)
	}
	return from, from + at, from + at + len(quote)
}

// local is a name without its prefix, in small letters.
func local(name string) string { return strings.ToLower(name[strings.LastIndexByte(name, ':')+1:]) }

// write writes the tag, its secrets masked, and reports whether its content is one.
func (t *tag) write(out *bytes.Buffer, depth int) (secret bool) {
	secret = secretName(t.name[strings.LastIndexByte(t.name, ':')+1:])
	beside, paired := false, false // an attribute names a secret; one has a value for what another one names
	for _, a := range t.attrs {
		paired = paired || local(a.name) == "value" || local(a.name) == "val"
		if !secretName(html.UnescapeString(string(t.b[a.from:a.to]))) {
			continue
		}
		switch local(a.name) {
		case "name", "key", "property", "field", "n", "k":
			beside, secret = true, true
		case "id", "type", "itemprop", "http-equiv":
			beside = true
		}
	}
	from := 0
	for _, a := range t.attrs {
		value := string(t.b[a.from:a.to])
		masked, ok := "", false
		switch n := local(a.name); {
		case value == "":
		case paired && (n == "key" || n == "k"): // <add key="name" value="x"/>
		case secretName(a.name[strings.LastIndexByte(a.name, ':')+1:]):
			masked, ok = Masked, true
		case beside && (n == "value" || n == "val" || n == "v" || n == "content" || n == "data" || n == "default"):
			masked, ok = Masked, true
		default:
			if masked, ok = maskText(html.UnescapeString(value), depth); ok {
				masked = html.EscapeString(masked)
			}
		}
		if ok {
			out.Write(t.b[from:a.from])
			out.WriteString(masked)
			from = a.to
		}
	}
	out.Write(t.b[from:t.end])
	return secret
}

// void are HTML's elements without an end.
func void(name string) bool {
	switch strings.ToLower(name) {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr":
		return true
	}
	return false
}

// content is how long the element's content is: up to its end, or if there is none, all
// of the rest.
func (t *tag) content(b []byte) int {
	open := 1
	for i := 0; i < len(b); i++ {
		if b[i] != '<' {
			continue
		}
		rest := b[i+1:]
		closes := len(rest) > 0 && rest[0] == '/'
		if closes {
			rest = rest[1:]
		}
		if len(rest) < len(t.name) || !strings.EqualFold(string(rest[:len(t.name)]), t.name) ||
			len(rest) > len(t.name) && strings.IndexByte(" \t\r\n/>", rest[len(t.name)]) < 0 {
			continue
		}
		if !closes {
			if inner := parseTag(b[i:]); !inner.empty {
				open++
			}
			continue
		}
		if open--; open == 0 {
			return i
		}
	}
	if void(t.name) {
		return 0
	}
	return len(b)
}
