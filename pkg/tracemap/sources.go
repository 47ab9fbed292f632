package tracemap

import (
	"fmt"
	"net/textproto"
	"slices"
	"strings"
)

// form is how a header holds an id.
type form uint8

const (
	formOpaque form = iota // of a header that is not in the list
	formTraceparent
	formB3
	formB3TraceID
	formUber
	formSky
	formDatadog
	formAmazon
	formRequestID
)

// source is a header with an id in it. The name is in the form in which
// net/http finds it without making another string.
type source struct {
	header string
	form   form
}

const headerDatadogTags = "X-Datadog-Tags"

// auto are the sources in the order in which they are trusted: formats that
// nothing on the way rewrites come first.
var auto = [...]source{
	{"Traceparent", formTraceparent},
	{"B3", formB3},
	{"X-B3-Traceid", formB3TraceID},
	{"Uber-Trace-Id", formUber},
	{"Sw8", formSky},
	{"X-Datadog-Trace-Id", formDatadog},
	{"X-Amzn-Trace-Id", formAmazon},
	{"X-Request-Id", formRequestID},
}

// beside are headers that belong to one of auto and mean nothing without it, and
// headers whose id the libraries of some applications write into one of auto.
var beside = [...]string{
	"tracestate",
	"x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags",
	"x-datadog-tags", "x-datadog-parent-id", "x-datadog-sampling-priority", "x-datadog-origin",
	"x-cloud-trace-context", "grpc-trace-bin", "elastic-apm-traceparent",
	"ot-tracer-traceid", "ot-tracer-spanid", "ot-tracer-sampled", "sentry-trace",
}

// Auto is the setting that reads every known header.
const Auto = "auto"

// Sources says which headers are read. The zero value reads every known one.
type Sources struct {
	only      source
	unsampled bool
}

// Unsampled are the same sources, of which a trace that begins is said not to be
// recorded: for an environment that records few, and decides elsewhere which.
func (s Sources) Unsampled() Sources {
	s.unsampled = true
	return s
}

// ParseSources reads a setting: Auto (or nothing), or the one header that alone
// is read. A header that is not known holds any text.
func ParseSources(setting string) (Sources, error) {
	name := strings.Trim(setting, " \t")
	if name == "" || strings.EqualFold(name, Auto) {
		return Sources{}, nil
	}
	if len(name) > maxText || strings.ContainsFunc(name, notToken) {
		return Sources{}, fmt.Errorf("%q is no header's name", name)
	}
	for _, s := range auto {
		if strings.EqualFold(s.header, name) {
			return Sources{only: s}, nil
		}
	}
	if reserved(strings.ToLower(name)) {
		return Sources{}, fmt.Errorf("%s means something else, and would be lost: name a header that holds nothing but a trace's id", name)
	}
	return Sources{only: source{header: textproto.CanonicalMIMEHeaderKey(name)}}, nil
}

// reserved are headers that a new trace would be written over: of HTTP itself, of
// who sends a request, and of lane.
func reserved(lower string) bool {
	switch lower {
	case "host", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "via", "date", "expect", "range",
		"accept", "user-agent", "referer", "origin", "cookie", "authorization", "baggage", "tracestate", "forwarded":
		return true
	}
	for _, prefix := range []string{"content-", "accept-", "if-", "proxy-", "sec-", "access-control-", "x-lane-", "x-forwarded-"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return false
}

func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// String is the setting.
func (s Sources) String() string {
	if s.only.header == "" {
		return Auto
	}
	return strings.ToLower(s.only.header)
}

// Names are the headers, in lower case, by which a request says to which trace it
// belongs: each that can be read, whichever the setting is, the setting's own, and
// those that go with them. Where a trace begins none of them is passed on.
func (s *Sources) Names() []string {
	var out []string
	for _, known := range auto {
		out = append(out, strings.ToLower(known.header))
	}
	out = append(out, beside[:]...)
	if own := s.Only(); own != "" && !slices.Contains(out, own) {
		out = append(out, own)
	}
	return out
}

// Only is the one header that is read, in lower case; "" if every known one is.
func (s *Sources) Only() string { return strings.ToLower(s.only.header) }

// Read takes the keys out of a request's head. get is asked for the first value
// of a header, by its canonical name.
func (s *Sources) Read(get func(name string) string, keys *Keys) {
	keys.n, keys.first = 0, ID{}
	if s.only.header != "" {
		s.only.read(get, keys)
		return
	}
	for i := range auto {
		auto[i].read(get, keys)
	}
}

func (s *source) read(get func(string) string, keys *Keys) {
	v := get(s.header)
	if v == "" {
		return
	}
	id, ok := s.form.parse(v)
	if !ok {
		return
	}
	if s.form == formDatadog {
		id = withHigh(id, get(headerDatadogTags))
	}
	keys.add(id)
}

// parse reads a header's value. Fields of one name may have been joined by
// commas on the way: the first counts.
func (f form) parse(v string) (ID, bool) {
	v = trim(v)
	if f == formOpaque || f == formRequestID {
		return parseRequestID(v, f == formRequestID)
	}
	if i := strings.IndexByte(v, ','); i >= 0 {
		v = trim(v[:i])
	}
	switch f {
	case formTraceparent:
		return parseTraceparent(v)
	case formB3:
		return parseB3(v)
	case formB3TraceID:
		return parseHexID(v)
	case formUber:
		return parseUber(v)
	case formSky:
		return parseSky(v)
	case formDatadog:
		return parseDatadog(v)
	case formAmazon:
		return parseAmazon(v)
	}
	return ID{}, false
}

func trim(v string) string {
	for v != "" && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	for v != "" && (v[len(v)-1] == ' ' || v[len(v)-1] == '\t') {
		v = v[:len(v)-1]
	}
	return v
}
