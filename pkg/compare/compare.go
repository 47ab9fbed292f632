package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Answer is a response. Err says that there was none.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	NoBody bool // the body is not known: it is not compared
	// Shown is the body as it may be printed; nil: as it is. Of JSON it is JSON too, with
	// another value in the place of what is not printed.
	Shown []byte
	Err   string
}

// Difference is one thing in which two answers differ. Old or New is empty where
// it is missing.
type Difference struct {
	Where string `json:"where"` // status | header NAME | header set-cookie COOKIE | body | body line N | body PATH, as in body .items[2].price | body PATH order
	Old   string `json:"old"`
	New   string `json:"new"`
	// ByIndex says that it is in a list whose items were compared by their index: too many
	// of them are equal to find what was inserted.
	ByIndex bool `json:"by_index,omitempty"`
}

// Ignored are the differences that say nothing: they are there between any two
// answers, or are lane's own words.
func Ignored() []string {
	return []string{"header date", "header age", "header content-length", "header transfer-encoding", "header connection",
		"header keep-alive", "header via", "header x-lane-*", "header traceparent", "header tracestate", "header x-request-id",
		"header x-b3-*", "header x-envoy-*", "header server-timing"}
}

// CheckIgnore says what is wrong with a pattern of an ignore list, nil if nothing
// is.
func CheckIgnore(pattern string) error {
	where, rest, _ := strings.Cut(pattern, " ")
	if where != "status" && where != "header" && where != "body" || rest == "" && where == "header" {
		return fmt.Errorf("%q: write 'status', 'header NAME', 'body' or 'body PATH', e.g. 'header etag' or 'body .items[*].id'", pattern)
	}
	if _, err := path.Match(glob(pattern), ""); err != nil {
		return fmt.Errorf("%q: %w", pattern, err)
	}
	return nil
}

// mostDifferences bounds a list that nobody would read.
const mostDifferences = 1000

// Diff lists in what two answers differ. ignore are patterns of Where in which *
// stands for any characters.
func Diff(old, new Answer, ignore []string) []Difference {
	d := diff{ignore: make([]string, len(ignore)), matches: mostMatches}
	for i, p := range ignore {
		d.ignore[i] = glob(p)
		d.inBody = d.inBody || !strings.HasPrefix(p, "header ") && p != "status"
	}
	d.add("status", outcome(&old), outcome(&new))
	if old.Err != "" || new.Err != "" {
		return d.out
	}
	d.headers(old.Header, new.Header)
	if old.NoBody || new.NoBody || bytes.Equal(old.Body, new.Body) {
		return d.out
	}
	d.bodies(&old, &new)
	return d.out
}

type diff struct {
	ignore  []string
	inBody  bool // some of it may be in a body
	matches int  // of equal items of lists, that may still be looked at
	out     []Difference
}

// glob makes path.Match's pattern of one in which only * means something, and / is
// a character like others.
func glob(p string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "?", `\?`, "/", "\x00").Replace(strings.ToLower(p))
}

func (d *diff) add(where, old, new string) {
	if old == new || len(d.out) == mostDifferences || d.ignored(where) {
		return
	}
	d.out = append(d.out, Difference{Where: where, Old: old, New: new})
}

// ignored reports whether what differs there is left out.
func (d *diff) ignored(where string) bool {
	name := strings.ReplaceAll(strings.ToLower(where), "/", "\x00")
	for _, p := range d.ignore {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
		// What is below an ignored value is ignored with it, and a cookie with its header.
		if (strings.HasPrefix(p, "body") || strings.HasPrefix(name, setCookie+" ")) && below(p, name) {
			return true
		}
	}
	return false
}

// below reports whether a part of name that ends before . or [ matches.
func below(pattern, name string) bool {
	for i, c := range name {
		if c == '.' || c == '[' || c == ' ' {
			if ok, _ := path.Match(pattern, name[:i]); ok {
				return true
			}
		}
	}
	return false
}

func outcome(a *Answer) string {
	if a.Err != "" {
		return "no answer: " + a.Err
	}
	return strconv.Itoa(a.Status)
}

const setCookie = "header set-cookie"

// headers compares them by name, and cookies each by its own.
func (d *diff) headers(old, new http.Header) {
	a, b := lower(old), lower(new)
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, k := range slices.Sorted(maps.Keys(names)) {
		d.add("header "+k, given(a, k), given(b, k))
	}
}

// given is a header's value, in a word if it is empty: nothing is one that is missing.
func given(h map[string]string, k string) string {
	if v, ok := h[k]; ok && v == "" {
		return "(empty)"
	}
	return h[k]
}

func lower(h http.Header) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		k = strings.ToLower(k)
		if k == "set-cookie" {
			cookies(out, v)
			continue
		}
		if was, ok := out[k]; ok {
			v = append([]string{was}, v...)
		}
		out[k] = strings.Join(v, ", ")
	}
	return out
}

// cookies adds each cookie under its name, one that is set again with its number. What has
// no name is all value, and secret.
func cookies(out map[string]string, values []string) {
	for _, v := range values {
		pair, _, _ := strings.Cut(v, ";")
		key := "set-cookie"
		if name, _, ok := strings.Cut(pair, "="); ok {
			key += " " + strings.TrimSpace(name)
		}
		at := key
		for n := 2; ; n++ {
			if _, taken := out[at]; !taken {
				break
			}
			at = fmt.Sprintf("%s (%d)", key, n)
		}
		out[at] = v
	}
}

func (d *diff) bodies(old, new *Answer) {
	a, errA := decode(old.Body)
	b, errB := decode(new.Body)
	if errA == nil && errB == nil {
		d.values("body ", old.value(a), new.value(b))
		return
	}
	was, is := old.printed(), new.printed()
	if was == is { // they differ in what is not printed
		was, is = "(masked, one way)", "(masked, another way)"
	}
	if isBinary(was) || isBinary(is) {
		d.add("body", bytesFrom(was, is), bytesFrom(is, was))
		return
	}
	x, y := strings.Split(was, "\n"), strings.Split(is, "\n")
	if len(x) == 1 && len(y) == 1 {
		d.add("body", was, is)
		return
	}
	d.lines(x, y)
}

// printed is the body as it may be printed.
func (a *Answer) printed() string {
	if a.Shown != nil {
		return string(a.Shown)
	}
	return string(a.Body)
}

// isBinary says that a body has bytes that no text has.
func isBinary(s string) bool { return strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) }

// bytesFrom are some bytes of a body that is no text, from where it begins to differ from
// the other one; a body without any is nothing.
func bytesFrom(s, other string) string {
	const some = 16
	if s == "" {
		return ""
	}
	from := 0
	for from < min(len(s), len(other)) && s[from] == other[from] {
		from++
	}
	more := ""
	if len(s) > from+some {
		more = " ..."
	}
	if from == len(s) {
		return fmt.Sprintf("%d B, and no more", len(s))
	}
	return fmt.Sprintf("%d B, from byte %d: % x%s", len(s), from, s[from:min(len(s), from+some)], more)
}

// decode reads JSON, numbers as they are written.
func decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("more than one value")
	}
	return v, nil
}

// value is a value of JSON, and how it may be printed.
type value struct{ v, shown any }

// value is a whole body.
func (a *Answer) value(v any) value {
	if a.Shown == nil {
		return value{v, v}
	}
	shown, err := decode(a.Shown)
	if err != nil {
		return value{v, string(a.Shown)}
	}
	return value{v, shown}
}

// member is the value of an object's member. Below one that is not printed, none is.
func (x value) member(k string) value {
	if m, ok := x.shown.(map[string]any); ok {
		return value{x.v.(map[string]any)[k], m[k]}
	}
	return value{x.v.(map[string]any)[k], x.shown}
}

// item is a value of an array.
func (x value) item(i int) value {
	if s, ok := x.shown.([]any); ok && i < len(s) {
		return value{x.v.([]any)[i], s[i]}
	}
	return value{x.v.([]any)[i], x.shown}
}

func (d *diff) values(where string, a, b value) {
	switch x := a.v.(type) {
	case map[string]any:
		if y, ok := b.v.(map[string]any); ok {
			names := maps.Clone(x)
			maps.Copy(names, y)
			for _, k := range slices.Sorted(maps.Keys(names)) {
				_, inA := x[k]
				_, inB := y[k]
				d.member(where+member(k), a.member(k), b.member(k), inA, inB)
			}
			return
		}
	case []any:
		if y, ok := b.v.([]any); ok {
			d.lists(where, a, b, x, y)
			return
		}
	}
	if where == "body " {
		where = "body"
	}
	d.differ(where, a, b)
}

func (d *diff) member(where string, a, b value, inA, inB bool) {
	switch {
	case inA && inB:
		d.values(where, a, b)
	case inA:
		d.add(where, text(a.shown), "")
	default:
		d.add(where, "", text(b.shown))
	}
}

// differ adds two values; they may differ in what is not printed.
func (d *diff) differ(where string, a, b value) {
	was, is := text(a.shown), text(b.shown)
	if was == is && text(a.v) != text(b.v) {
		was, is = "(masked, one way)", "(masked, another way)"
	}
	d.add(where, was, is)
}

// member is a name as a step of a path: .name, or ["a name"].
func member(k string) string {
	for _, r := range k {
		if !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return "[" + strconv.Quote(k) + "]"
		}
	}
	if k == "" {
		return `[""]`
	}
	return "." + k
}

// text is a value as JSON.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
