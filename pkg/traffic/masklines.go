package traffic

import (
	"bytes"
	"strings"
)

// maskLines masks the settings of a text that has them line by line, YAML, TOML,
// properties, dotenv, heads of messages:
//
//	password: x     - token: x      secret:        DB_PASSWORD="x
//	                                  v: [x]       y"
//
// with what belongs to them on the lines below. inJSON leaves names in double quotes
// alone: those are maskJSON's.
func maskLines(b []byte, inJSON bool) []byte {
	var out bytes.Buffer
	changed := false
	complex := -1 // the column of a YAML key that stands alone: "? password"
	beside := -1  // the column of a name that says that the value beside it is secret
	for i := 0; i < len(b); {
		end := lineEnd(b, i)
		s := parseSetting(b[i:end])
		if complex >= 0 && s.column == complex && s.key == "" && s.sep > 0 {
			s.key = "secret"
		}
		complex = -1
		if blank := len(bytes.TrimSpace(b[i:end])) == 0; !blank && (s.column < beside || s.item) {
			beside = -1 // another item
		}
		if s.sep > 0 && s.column == beside && valuesOne(s.key) {
			s.key = "secret"
		}
		if s.sep > 0 && !s.equals && namesOne(s.key) && secretLabel(strings.Trim(strings.TrimSpace(string(b[i+s.sep:end])), `"'`)) {
			beside = s.column
		}
		switch {
		case s.alone && secretLabel(s.key):
			complex = s.column
		case s.sep > 0 && secretLabel(s.key) && !(inJSON && s.quote == '"' && !s.equals):
			from := i + s.sep
			to := s.valueEnd(b, from, end)
			if m := maskedSetting(b[from:to]); m != nil {
				out.Write(b[i:from])
				out.Write(m)
				changed, i = true, to
				continue
			}
		}
		out.Write(b[i:end])
		i = end
	}
	if !changed {
		return b
	}
	return out.Bytes()
}

// secretLabel is secretName for a name that may have blanks: "API key" is one, and
// "invalid token" begins a sentence.
func secretLabel(key string) bool {
	if strings.ContainsAny(key, " \t") {
		return secretWord(strings.ToLower(strings.NewReplacer(" ", "", "\t", "", "-", "", "_", "").Replace(key)))
	}
	return secretName(key)
}

// maskedSetting is a value with its line end, masked; nil if there is none.
func maskedSetting(value []byte) []byte {
	bare := bytes.TrimSpace(value)
	if len(bare) == 0 || string(bare) == "null" || string(bare) == "~" || string(bare) == Masked {
		return nil
	}
	lead := ""
	if value[0] == ' ' || value[0] == '\t' {
		lead = " "
	}
	tail := value[len(bytes.TrimRight(value, "\r\n")):]
	if value[0] == '\r' || value[0] == '\n' { // the value begins below its name
		lead = " "
	}
	return append(append([]byte(lead), Masked...), tail...)
}

// lineEnd is where the line at i ends, its line end included.
func lineEnd(b []byte, i int) int {
	if n := bytes.IndexByte(b[i:], '\n'); n >= 0 {
		return i + n + 1
	}
	return len(b)
}

// setting is a line with a name and perhaps a value.
type setting struct {
	column int    // of the name, or of its first dash
	key    string // without quotes
	quote  byte   // its quote, 0 for none
	sep    int    // behind : or =; 0 for none
	equals bool
	alone  bool // "? key"
	item   bool // of a list: a dash stands before it
}

// keyMost bounds a name in a text, in bytes.
const keyMost = 120

func parseSetting(line []byte) (s setting) {
	i := 0
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	s.column = i
	for i+1 < len(line) && line[i] == '-' && (line[i+1] == ' ' || line[i+1] == '\t') {
		for i++; i < len(line) && (line[i] == ' ' || line[i] == '\t'); i++ {
		}
		s.column, s.item = i, true // a list's item is a block of its own
	}
	rest := line[i:]
	if len(rest) > 1 && rest[0] == '?' && rest[1] == ' ' {
		s.alone = true
		rest = bytes.TrimLeft(rest[1:], " ")
		i = len(line) - len(rest)
	}
	at := 0
	if len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'') {
		s.quote = rest[0]
		n := bytes.IndexByte(rest[1:], s.quote)
		if n < 0 {
			return s
		}
		s.key, at = string(rest[1:1+n]), skipBlank(rest, n+2)
		if s.quote == '"' {
			s.key = memberName(rest[:n+2])
		}
	} else {
		for at < len(rest) && at < keyMost && rest[at] != '=' && rest[at] != '\n' && rest[at] != '\r' && !(rest[at] == ':' && (at+1 == len(rest) || strings.IndexByte(" \t\r\n", rest[at+1]) >= 0)) {
			at++
		}
		s.key = strings.TrimSpace(string(rest[:at]))
	}
	if at < len(rest) && (rest[at] == ':' || rest[at] == '=') {
		s.sep, s.equals, s.alone = i+at+1, rest[at] == '=', false
	}
	for _, word := range []string{"export ", "set ", "setx ", "$env:", "declare ", "local "} {
		s.key = strings.TrimPrefix(s.key, word)
	}
	if strings.ContainsAny(s.key, "{}<>\"") {
		s.key = ""
	}
	return s
}

// valueEnd is where the setting's value ends that begins at from on a line that ends at
// end: with a string or a bracket that was opened, with a line that is continued, with
// the lines that stand further in.
func (s *setting) valueEnd(b []byte, from, end int) int {
	v := from
	for v < end && (b[v] == ' ' || b[v] == '\t') {
		v++
	}
	if s.equals {
		for _, quote := range []string{`"""`, "'''", `"`, "'", "`"} {
			if bytes.HasPrefix(b[v:end], []byte(quote)) {
				return quotedLines(b, v, quote)
			}
		}
		if v < end && (b[v] == '[' || b[v] == '{') {
			return lineEnd(b, bracketEnd(b, v))
		}
		for bytes.HasSuffix(bytes.TrimRight(b[from:end], "\r\n"), []byte(`\`)) && end < len(b) {
			end = lineEnd(b, end)
		}
		return end
	}
	// A tag or an anchor may stand before a YAML value.
	for v < end && (b[v] == '!' || b[v] == '&') {
		for v < end && strings.IndexByte(" \t\r\n", b[v]) < 0 {
			v++
		}
		for v < end && (b[v] == ' ' || b[v] == '\t') {
			v++
		}
	}
	// A list may stand as far out as the name of its key.
	list := v >= end || strings.IndexByte("\r\n#", b[v]) >= 0
	if v < end {
		switch b[v] {
		case '"', '\'':
			end = quotedLines(b, v, string(b[v]))
		case '{', '[':
			end = lineEnd(b, bracketEnd(b, v))
		}
	}
	for last := end; last < len(b); {
		next := lineEnd(b, last)
		line := b[last:next]
		bare := bytes.TrimLeft(line, " \t")
		switch in := len(line) - len(bare); {
		case len(bytes.TrimSpace(line)) == 0: // belongs to it if more of it follows
		case in > s.column, list && in == s.column && (bytes.HasPrefix(bare, []byte("- ")) || string(bytes.TrimSpace(bare)) == "-"):
			end = next
		default:
			return end
		}
		last = next
	}
	return end
}

// quotedLines is the end of the line on which a string ends that begins at i; of the
// text, if it does not end.
func quotedLines(b []byte, i int, quote string) int {
	for j := i + len(quote); j < len(b); j++ {
		switch {
		case b[j] == '\\' && quote != "'":
			j++
		case bytes.HasPrefix(b[j:], []byte(quote)):
			if quote == "'" && j+1 < len(b) && b[j+1] == '\'' { // YAML's quote in a string
				j++
				continue
			}
			return lineEnd(b, j)
		}
	}
	return len(b)
}

// maskAssigned masks what is assigned to a secret name anywhere in a text: password=x in
// a log's line or in a URL, {password: x} and {'password': 'x'} of YAML and of scripts.
// Names in double quotes are maskJSON's.
func maskAssigned(b []byte) []byte {
	var out bytes.Buffer
	kept := 0
	for i := 1; i < len(b); i++ {
		if b[i] != '=' && b[i] != ':' {
			continue
		}
		name, lone := nameBefore(b[kept:i])
		if b[i] == ':' && (!lone || bytes.HasPrefix(b[i:], []byte("://"))) {
			continue // "invalid token: it has ended" is a sentence
		}
		if name == "" || !secretName(unescaped(name)) {
			continue
		}
		from := i + 1
		if from < len(b) && (b[from] == '>' || b[from] == '=') { // => of other languages, ==
			from++
		}
		for from < len(b) && (b[from] == ' ' || b[from] == '\t') {
			from++
		}
		to := assignedEnd(b, from, b[i] == ':')
		if v := b[from:to]; len(v) == 0 || string(v) == Masked || string(v) == "null" {
			continue
		}
		out.Write(b[kept:from])
		if q := b[from]; q == '"' || q == '\'' {
			out.WriteByte(q)
			out.WriteString(Masked)
			out.WriteByte(q)
		} else {
			out.WriteString(Masked)
		}
		kept = to
		i = max(to-1, i)
	}
	if kept == 0 {
		return b
	}
	out.Write(b[kept:])
	return out.Bytes()
}

// nameBefore is the name that a text ends in, in single quotes or bare; lone says that
// no other word stands before it.
func nameBefore(b []byte) (name string, lone bool) {
	t := bytes.TrimRight(b, " \t")
	if len(t) > keyMost {
		t = t[len(t)-keyMost:]
	}
	if n := len(t); n > 1 && t[n-1] == '\'' {
		if at := bytes.LastIndexByte(t[:n-1], '\''); at >= 0 {
			return string(t[at+1 : n-1]), true
		}
		return "", false
	}
	from := len(t)
	for from > 0 && assignable(t[from-1]) {
		from--
	}
	before := bytes.TrimRight(t[:from], " \t")
	return string(t[from:]), len(before) == 0 || strings.IndexByte("{[(,;&?\n\r\"'|", before[len(before)-1]) >= 0
}

func assignable(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_-.[]%$", c) >= 0 || c >= 0x80
}

// assignedEnd is where a value ends that begins at from. In what is a list of values by
// its :, a comma ends it; of key=x only a blank, an & or a quote.
func assignedEnd(b []byte, from int, colon bool) int {
	if from == len(b) {
		return from
	}
	switch q := b[from]; q {
	case '"', '\'', '`':
		for j := from + 1; j < len(b); j++ {
			switch b[j] {
			case '\\':
				j++
			case q:
				return j + 1
			}
		}
		return len(b)
	case '{', '[':
		return bracketEnd(b, from)
	}
	stop := " \t\r\n&\"'<"
	if colon {
		stop = ",}]\r\n\"'<"
	}
	if n := bytes.IndexAny(b[from:], stop); n >= 0 {
		return from + n
	}
	return len(b)
}

// bracketEnd is where a bracket is closed that is opened at i, with strings in quotes of
// either kind; all of the rest if it is not.
func bracketEnd(b []byte, i int) int {
	open := 0
	for ; i < len(b); i++ {
		switch c := b[i]; c {
		case '"', '\'':
			for i++; i < len(b) && b[i] != c; i++ {
				if b[i] == '\\' && c == '"' {
					i++
				}
			}
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
