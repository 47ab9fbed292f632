package rules

import "strings"

// Path is a request's path as it is compared. Two servers may read one path in two
// ways, and which of them the request reaches is not known here.
type Path struct {
	// Text is decoded, but for encoded slashes: %2F is no separator.
	Text string
	// Loose is what a server makes of it that takes %2F and backslashes for
	// separators and several separators for one; empty where that is Text.
	Loose string
	// Dots is set where a segment, by either reading, is "." or "..": servers that
	// resolve them and servers that do not see two paths.
	Dots bool
}

// ReadPath reads the path of a request target, which is without a query.
func ReadPath(path string) Path {
	if !strings.ContainsAny(path, `%\`) && !strings.Contains(path, "//") && !strings.Contains(path, "/.") {
		return Path{Text: path}
	}
	p := Path{Text: decodePath(path)}
	loose := strings.NewReplacer("%2F", "/", `\`, "/").Replace(p.Text)
	for segment := range strings.SplitSeq(loose, "/") {
		segment, _, _ = strings.Cut(segment, ";") // some servers take parameters off first
		p.Dots = p.Dots || segment == "." || segment == ".."
	}
	for strings.Contains(loose, "//") {
		loose = strings.ReplaceAll(loose, "//", "/")
	}
	if loose != p.Text {
		p.Loose = loose
	}
	return p
}

// decodePath decodes percent-encoding but for slashes, which become %2F in upper
// case. An incomplete sequence stays as it is.
func decodePath(s string) string {
	first, rest, cut := cutFold(s)
	if !cut {
		return decode(s, false)
	}
	var b strings.Builder
	for ; cut; first, rest, cut = cutFold(rest) {
		b.WriteString(decode(first, false))
		b.WriteString("%2F")
	}
	b.WriteString(decode(first, false))
	return b.String()
}

// cutFold cuts at the first %2F, in either case.
func cutFold(s string) (before, after string, cut bool) {
	for i := 0; i+2 < len(s); i++ {
		if s[i] == '%' && s[i+1] == '2' && s[i+2]|0x20 == 'f' {
			return s[:i], s[i+3:], true
		}
	}
	return s, "", false
}
