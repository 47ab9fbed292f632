package lane

import (
	"errors"
	"fmt"
	"strings"
)

// The limits of W3C Baggage, over all of a request's baggage headers.
const (
	MaxBaggageMembers = 64
	MaxBaggageBytes   = 8192
)

// ErrBaggageFull says that a baggage header has no room for a member of ours.
var ErrBaggageFull = errors.New("baggage is full: 64 members and 8192 bytes are its limits")

// member is one piece of a baggage line, between commas. start and end enclose
// its value.
type member struct {
	raw        string
	key        string // empty: malformed, or nothing
	start, end int
}

func parseMember(raw string) member {
	m := member{raw: raw}
	body := len(raw)
	if i := strings.IndexByte(raw, ';'); i >= 0 {
		body = i
	}
	eq := strings.IndexByte(raw[:body], '=')
	if eq < 0 {
		return m
	}
	m.key = strings.Trim(raw[:eq], " \t")
	m.start, m.end = eq+1, body
	for m.start < m.end && ows(raw[m.start]) {
		m.start++
	}
	for m.end > m.start && ows(raw[m.end-1]) {
		m.end--
	}
	return m
}

func ows(c byte) bool { return c == ' ' || c == '\t' }

func blank(s string) bool { return strings.Trim(s, " \t") == "" }

// BaggageValue is the value of the first member with the key, percent-decoded.
// Keys are compared as they are: baggage is case-sensitive. What is no correct
// encoding stays as it is.
func BaggageValue(lines []string, key string) (string, bool) {
	for _, line := range lines {
		if !strings.Contains(line, key) {
			continue
		}
		for raw := range strings.SplitSeq(line, ",") {
			if m := parseMember(raw); m.key == key && key != "" {
				return Unescape(raw[m.start:m.end]), true
			}
		}
	}
	return "", false
}

// MergeBaggage sets one member in baggage headers, and keeps the rest byte for
// byte: order, white space, properties, other members, lines. An existing member
// gets the value in its place and keeps its properties; later ones of the same
// key go. A new member is appended to the last line. If the limits leave no room
// for ours, the others stay, ours is absent, and the error is ErrBaggageFull.
// lines itself is not changed.
func MergeBaggage(lines []string, key, value string) ([]string, error) {
	if !isToken(key) {
		return lines, fmt.Errorf("baggage key %q is no token", key)
	}
	value = escape(value)
	out, found := rewrite(lines, key, &value)
	if found && (baggageFits(out) || bytesOf(out) <= bytesOf(lines)) {
		return out, nil
	}
	if found { // only its properties, or a longer value, are too much
		out, _ = rewrite(lines, key, nil)
	}
	added := appendMember(out, key+"="+value)
	if !baggageFits(added) {
		return out, ErrBaggageFull
	}
	return added, nil
}

// RemoveBaggage removes every member with the key, and lines that it leaves
// empty. lines itself is not changed.
func RemoveBaggage(lines []string, key string) []string {
	out, _ := rewrite(lines, key, nil)
	return out
}

// rewrite gives the first member with the key the value, and removes the others;
// nil removes the first too.
func rewrite(lines []string, key string, value *string) (out []string, found bool) {
	out = make([]string, 0, len(lines)+1)
	for _, line := range lines {
		if key == "" || !strings.Contains(line, key) {
			out = append(out, line)
			continue
		}
		var kept []string
		removed, empty := false, true
		for raw := range strings.SplitSeq(line, ",") {
			m := parseMember(raw)
			if m.key == key {
				if found || value == nil {
					found, removed = true, true
					continue
				}
				found = true
				raw = raw[:m.start] + *value + raw[m.end:]
			}
			kept = append(kept, raw)
			empty = empty && blank(raw)
		}
		if !removed || !empty {
			out = append(out, strings.Join(kept, ","))
		}
	}
	return out, found
}

// appendMember adds a member to the last line, or to an empty one.
func appendMember(lines []string, m string) []string {
	if len(lines) == 0 {
		return []string{m}
	}
	last := lines[len(lines)-1]
	switch {
	case blank(last):
		last = m
	case strings.HasSuffix(strings.TrimRight(last, " \t"), ","):
		last += m
	default:
		last += "," + m
	}
	out := append(make([]string, 0, len(lines)), lines...)
	out[len(out)-1] = last
	return out
}

// bytesOf is the size of the lines joined to one.
func bytesOf(lines []string) int {
	n := max(len(lines)-1, 0)
	for _, l := range lines {
		n += len(l)
	}
	return n
}

func baggageFits(lines []string) bool {
	members := 0
	for _, l := range lines {
		for raw := range strings.SplitSeq(l, ",") {
			if !blank(raw) {
				members++
			}
		}
	}
	return members <= MaxBaggageMembers && bytesOf(lines) <= MaxBaggageBytes
}

const hexDigits = "0123456789ABCDEF"

// escape percent-encodes what is no baggage-octet, and the percent sign itself.
func escape(s string) string {
	asIs := true
	for i := 0; i < len(s) && asIs; i++ {
		asIs = octet(s[i])
	}
	if asIs {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; octet(c) {
			b.WriteByte(c)
		} else {
			b.WriteString("%" + hexDigits[c>>4:c>>4+1] + hexDigits[c&15:c&15+1])
		}
	}
	return b.String()
}

func octet(c byte) bool {
	return c > ' ' && c <= '~' && c != '"' && c != ',' && c != ';' && c != '\\' && c != '%'
}

// Unescape decodes percent-encoding; an incomplete sequence stays as it is.
func Unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
