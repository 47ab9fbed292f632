package traffic

import (
	"bytes"
	"encoding/json"
	"strings"
)

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
	var paired map[int]bool
	if valid || startsJSON(b) {
		paired = pairedValues(b)
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
		if !secretName(memberName(b[i:end])) && !paired[skipBlank(b, colon+1)] {
			i = colon + 1
			if !valid {
				i = end
			}
			continue
		}
		from := skipBlank(b, colon+1)
		to := valueEnd(b, from)
		if from < len(b) && string(b[from:to]) != "null" && string(b[from:to]) != Masked {
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
	if !bytes.ContainsAny(quoted, `{[=:<\`) || json.Unmarshal(quoted, &s) != nil {
		return nil, false
	}
	masked, ok := maskText(s, depth)
	if !ok {
		return nil, false
	}
	// As it was written: some escape what HTML would take for its own, most do not.
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(bytes.Contains(quoted, []byte(`\u00`)))
	err := enc.Encode(masked)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err == nil
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
		if q := b[from]; q == '\'' || q == '`' { // of a script, or of YAML
			if n := bytes.IndexByte(b[from+1:], q); n >= 0 {
				return from + 1 + n + 1
			}
			return len(b)
		}
		end := len(b)
		if n := bytes.IndexAny(b[from:], ",}]\r\n"); n >= 0 {
			end = from + n
		}
		return from + len(bytes.TrimRight(b[from:end], " \t"))
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
