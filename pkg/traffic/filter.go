package traffic

import (
	"fmt"
	"strconv"
	"strings"

	"lane/pkg/lane"
)

// Filter chooses exchanges. The zero value chooses all of them. The language:
//
//	a b      a and b
//	-a       not a
//	key:v|w  v or w
//	word     the path holds the word
//	"a b"    a value with a blank or a special character in it
//
// FilterKeys lists the keys. Text is compared without regard to letter case;
// a * in a value stands for any characters, and the whole must then match.
type Filter struct {
	text  string
	terms []term
}

// term is one condition: any of the tests, or none of them if not is set.
type term struct {
	not bool
	any []test
}

type test func(*Exchange) bool

// FilterKey describes one key of the filter language, for help and docs.
type FilterKey struct {
	Key, Values, Means string

	parse func(value string) (test, error)
}

// FilterError says which part of a filter is wrong and what would be right. Its
// text fits into one line.
type FilterError struct {
	Term string // the part, as typed
	At   int    // its byte offset in the filter
	Why  string
	Hint string // what to write instead; may be empty
}

func (e *FilterError) Error() string {
	msg := fmt.Sprintf("%q: %s", e.Term, e.Why)
	if e.Hint != "" {
		msg += "; " + e.Hint
	}
	return msg
}

// FilterKeys returns the keys of the language in the order of its help.
func FilterKeys() []FilterKey {
	return []FilterKey{
		{"svc", "orders, pay*", "service (or external host)", textKey(func(e *Exchange) string {
			if e.Service != "" {
				return e.Service
			}
			return hostOf(e.URL)
		})},
		{"m", "GET, POST", "method", methodKey},
		{"path", "/api, */42", "path and query", textKey(func(e *Exchange) string { return PathOf(e) })},
		{"st", "5xx, 404, >=500, none", "status", statusKey},
		{"ms", ">200, <5", "time taken", durationKey},
		{"route", "lane, base, fb, guard, lost, err", "where it went", routeKey},
		{"from", "me, local, 10.2", "caller", textKey(From)},
		{"lane", "dev-alice, none", "lane of the request", laneKey},
		{"trace", "4bf92f", "trace id, from its start", traceKey},
	}
}

// blanks stand between the parts of a filter.
const blanks = " \t\r\n"

// ParseFilter reads a filter. Its error is a *FilterError.
func ParseFilter(s string) (Filter, error) {
	f := Filter{text: strings.Trim(s, blanks)}
	keys := FilterKeys()
	for at := 0; ; {
		tok, next, err := nextToken(s, at)
		if err != nil {
			return Filter{}, err
		}
		if tok.end == tok.start {
			return f, nil
		}
		t, err := parseTerm(keys, tok)
		if err != nil {
			return Filter{}, err
		}
		f.terms = append(f.terms, t)
		at = next
	}
}

// Match reports whether the filter chooses e.
func (f Filter) Match(e *Exchange) bool {
	for i := range f.terms {
		if f.terms[i].match(e) == f.terms[i].not {
			return false
		}
	}
	return true
}

// Empty reports whether the filter chooses everything.
func (f Filter) Empty() bool { return len(f.terms) == 0 }

// String is the filter as it was written.
func (f Filter) String() string { return f.text }

func (t *term) match(e *Exchange) bool {
	for _, is := range t.any {
		if is(e) {
			return true
		}
	}
	return false
}

// token is one blank-separated part: a sign, a key and its values, unquoted.
type token struct {
	start, end int // in the text
	raw        string
	not        bool
	key        string
	keyed      bool
	values     []string
}

// nextToken reads the part that starts at or after at.
func nextToken(s string, at int) (tok token, next int, err error) {
	for at < len(s) && strings.IndexByte(blanks, s[at]) >= 0 {
		at++
	}
	tok.start, tok.end = at, at
	if at == len(s) {
		return tok, at, nil
	}
	i := at
	if s[i] == '-' {
		tok.not = true
		i++
	}
	var value strings.Builder
	quoted, sawQuote := false, false
scan:
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"':
			quoted, sawQuote = !quoted, true
		case quoted:
			value.WriteByte(c)
		case strings.IndexByte(blanks, c) >= 0:
			break scan
		case c == ':' && !tok.keyed && !sawQuote && isKey(value.String()):
			tok.keyed, tok.key = true, strings.ToLower(value.String())
			value.Reset()
		case c == '|':
			tok.values = append(tok.values, value.String())
			value.Reset()
		default:
			value.WriteByte(c)
		}
	}
	tok.end, tok.raw = i, s[at:i]
	tok.values = append(tok.values, value.String())
	if quoted {
		return tok, i, &FilterError{Term: tok.raw, At: at, Why: "the quote is not closed", Hint: `end it with "`}
	}
	return tok, i, nil
}

// isKey keeps a colon inside a word (/v1/a:b, 10.0.0.1:80) from being a key.
func isKey(s string) bool {
	if s == "" {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func parseTerm(keys []FilterKey, tok token) (term, error) {
	fail := func(why, hint string) (term, error) {
		return term{}, &FilterError{Term: tok.raw, At: tok.start, Why: why, Hint: hint}
	}
	parse := keys[2].parse // a free word is a part of the path
	if tok.keyed {
		parse = nil
		for _, k := range keys {
			if k.Key == tok.key {
				parse = k.parse
			}
		}
		if parse == nil {
			return fail("no such key", "there are "+keyNames(keys))
		}
	}
	t := term{not: tok.not}
	for _, v := range tok.values {
		if v == "" {
			return fail("a value is missing", "try "+example(keys, tok))
		}
		is, err := parse(v)
		if err != nil {
			return fail(err.Error(), "try "+example(keys, tok))
		}
		t.any = append(t.any, is)
	}
	return t, nil
}

func keyNames(keys []FilterKey) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Key
	}
	return strings.Join(names, " ")
}

func example(keys []FilterKey, tok token) string {
	for _, k := range keys {
		if tok.keyed && k.Key == tok.key {
			first, _, _ := strings.Cut(k.Values, ",")
			return k.Key + ":" + first
		}
	}
	return "-/healthz"
}

// textKey tests a text for a part, or for a pattern if the value holds a *.
func textKey(text func(*Exchange) string) func(string) (test, error) {
	return func(v string) (test, error) {
		v = strings.ToLower(v)
		if strings.Contains(v, "*") {
			parts := strings.Split(v, "*")
			return func(e *Exchange) bool { return glob(strings.ToLower(text(e)), parts) }, nil
		}
		return func(e *Exchange) bool { return strings.Contains(strings.ToLower(text(e)), v) }, nil
	}
}

// glob reports whether s is the parts in order, with anything between them.
func glob(s string, parts []string) bool {
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[last])
}

func methodKey(v string) (test, error) {
	return func(e *Exchange) bool { return strings.EqualFold(e.Method, v) }, nil
}

func traceKey(v string) (test, error) {
	v = strings.ToLower(v)
	return func(e *Exchange) bool { return strings.HasPrefix(strings.ToLower(e.TraceID), v) }, nil
}

func laneKey(v string) (test, error) {
	v = strings.ToLower(v)
	if v == "none" || v == lane.BaselineTag {
		return func(e *Exchange) bool { return e.Lane == "" }, nil
	}
	return textKey(laneNamed)(v)
}

// laneNamed is the lane of the request; for one that a guard has turned away, the
// lane that its tag names.
func laneNamed(e *Exchange) string {
	if e.Lane == "" && e.Guard != "" {
		return e.Tag
	}
	return string(e.Lane)
}

// routesNamed are the words for what may stand behind route:, nil if it is none.
func routesNamed(v string) []string {
	switch v {
	case "lane":
		return []string{RouteLane}
	case "base", "baseline":
		return []string{RouteBase}
	case "fallback", "fb", "base~fb":
		return []string{RouteFallback}
	case "killed", "base~ks":
		return []string{RouteKilled}
	case "guard":
		return []string{RouteGuard}
	case "ext", "external":
		return []string{RouteExternal}
	case "lost":
		return []string{RouteLost}
	case "err", "error":
		return []string{RouteError}
	}
	return nil
}

func routeKey(v string) (test, error) {
	words := routesNamed(strings.ToLower(v))
	if words == nil {
		return nil, fmt.Errorf("%q is no route", v)
	}
	return func(e *Exchange) bool {
		got := Route(e)
		for _, w := range words {
			if got == w {
				return true
			}
		}
		return false
	}, nil
}

func statusKey(v string) (test, error) {
	switch low := strings.ToLower(v); {
	case low == "none" || low == "0":
		return func(e *Exchange) bool { return e.Status == 0 }, nil
	case len(low) == 3 && low[0] >= '1' && low[0] <= '5' && low[1:] == "xx":
		class := int(low[0] - '0')
		return func(e *Exchange) bool { return e.Status/100 == class }, nil
	}
	cmp, n, err := comparison(v)
	if err != nil || n != float64(int(n)) || n < 100 || n > 599 {
		// While it is typed, 5 and 50 are no statuses yet either.
		return nil, fmt.Errorf("%q is no status", v)
	}
	// An exchange without a status is neither above nor below one.
	return func(e *Exchange) bool { return e.Status > 0 && cmp(float64(e.Status)) }, nil
}

func durationKey(v string) (test, error) {
	cmp, _, err := comparison(v)
	if err != nil {
		return nil, fmt.Errorf("%q is no number of milliseconds", v)
	}
	// Whole milliseconds, as they are shown.
	return func(e *Exchange) bool { return cmp(float64(e.Took.Milliseconds())) }, nil
}

// comparison reads >=500, <5, =3 or 3.
func comparison(v string) (cmp func(float64) bool, n float64, err error) {
	op := v[:len(v)-len(strings.TrimLeft(v, "<>="))]
	num := v[len(op):]
	if num == "" || strings.Trim(num, "0123456789.") != "" {
		return nil, 0, strconv.ErrSyntax
	}
	if n, err = strconv.ParseFloat(num, 64); err != nil {
		return nil, 0, err
	}
	switch op {
	case ">":
		return func(x float64) bool { return x > n }, n, nil
	case ">=":
		return func(x float64) bool { return x >= n }, n, nil
	case "<":
		return func(x float64) bool { return x < n }, n, nil
	case "<=":
		return func(x float64) bool { return x <= n }, n, nil
	case "", "=":
		return func(x float64) bool { return x == n }, n, nil
	}
	return nil, 0, strconv.ErrSyntax
}

// PathOf is the path and query of what was asked, as it was written; for CONNECT
// it is host:port.
func PathOf(e *Exchange) string {
	_, rest, ok := strings.Cut(e.URL, "://")
	if !ok {
		return e.URL
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		if rest[i] == '?' {
			return "/" + rest[i:]
		}
		return rest[i:]
	}
	if e.Method == "OPTIONS" && strings.HasSuffix(rest, "*") { // of the whole server
		return "*"
	}
	return "/"
}

func hostOf(u string) string {
	if _, rest, ok := strings.Cut(u, "://"); ok {
		u = rest
	}
	if i := strings.IndexAny(u, "/?#"); i >= 0 {
		u = u[:i]
	}
	return u[strings.LastIndexByte(u, '@')+1:]
}

// HostOf is the host of what was asked, with its port if it had one.
func HostOf(e *Exchange) string { return hostOf(e.URL) }
