package traffic

import (
	"bytes"
	"html"
	"strings"
)

// pairedElements are the places at which an element begins whose name, a secret one, is
// the text of one beside it: <name>password</name><value>x</value>. In a property list
// it is the next one: <key>password</key><string>x</string>. nil: there is none.
func pairedElements(b []byte) map[int]bool {
	type element struct {
		name         string
		text         int // where its text begins
		secret, next bool
		values       []int
	}
	var out map[int]bool
	put := func(at int) {
		if out == nil {
			out = map[int]bool{}
		}
		out[at] = true
	}
	open := []element{{}}
	closed := func(e *element) {
		for _, at := range e.values {
			if e.secret {
				put(at)
			}
		}
	}
	for i := 0; i < len(b); {
		at := bytes.IndexByte(b[i:], '<')
		if at < 0 || i+at+1 == len(b) {
			break
		}
		i += at
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, []byte("<!--")):
			i += enclosed(rest, "-->")
		case bytes.HasPrefix(rest, []byte("<![CDATA[")):
			i += enclosed(rest, "]]>")
		case rest[1] == '/':
			end := bytes.IndexByte(rest, '>')
			if end < 0 {
				end = len(rest) - 1
			}
			name := bytes.TrimSpace(b[min(i+2, i+end) : i+end])
			for n := len(open) - 1; n > 0; n-- {
				if open[n].name != string(name) {
					continue
				}
				for k := len(open) - 1; k >= n; k-- {
					closed(&open[k])
				}
				e, parent := open[n], &open[n-1]
				if namesOne(lastWord(e.name)) && secretLabel(elementText(b[e.text:i])) {
					parent.secret = true
					parent.next = strings.EqualFold(parent.name, "dict")
				}
				open = open[:n]
				break
			}
			i += end + 1
		case nameStart(rest[1]):
			t := parseTag(rest)
			parent := &open[len(open)-1]
			if parent.next {
				put(i)
				parent.next = false
			}
			if valuesOne(lastWord(t.name)) {
				parent.values = append(parent.values, i)
			}
			if !t.empty && !void(t.name) && len(open) < xmlMost {
				open = append(open, element{name: t.name, text: i + t.end})
			}
			i += max(t.end, 1)
		default:
			i++
		}
	}
	for k := range open {
		closed(&open[k])
	}
	return out
}

// xmlMost bounds how deep elements are looked at.
const xmlMost = 256

func enclosed(b []byte, end string) int {
	if at := bytes.Index(b, []byte(end)); at >= 0 {
		return at + len(end)
	}
	return len(b)
}

// lastWord is what a name says: value of ns:param-value.
func lastWord(name string) string {
	return local(name[strings.LastIndexAny(name, "-_.")+1:])
}

// elementText is the text of an element that has nothing else in it.
func elementText(b []byte) string {
	s := strings.TrimSpace(string(b))
	if in, ok := strings.CutPrefix(s, "<![CDATA["); ok {
		return strings.TrimSpace(strings.TrimSuffix(in, "]]>"))
	}
	if len(s) > keyMost || strings.IndexByte(s, '<') >= 0 {
		return ""
	}
	return html.UnescapeString(s)
}
