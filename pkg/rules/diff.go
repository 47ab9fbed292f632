package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/nearest"
)

// Sample is a request by which two Sets are compared.
type Sample struct {
	Name   string `json:"name"`
	Method string `json:"method"`
	Host   string `json:"host"`
	Path   string `json:"path"`  // with the query
	Entry  string `json:"entry"` // may be empty where there is only one
	// Headers hold one text, or a list of them.
	Headers map[string]Lines `json:"headers"`
	Remote  netip.Addr       `json:"remote"`
	// Whitelisted are the routes on whose whitelist its user is.
	Whitelisted []string `json:"whitelisted"`
}

// Lines are the lines of a header.
type Lines []string

// UnmarshalJSON reads one text, or a list.
func (l *Lines) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = Lines{one}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return errors.New("a header is one text, or a list of texts")
	}
	*l = many
	return nil
}

// sampleFields are the fields of a sample.
var sampleFields = []string{"name", "method", "host", "path", "entry", "headers", "remote", "whitelisted"}

// ParseSamples reads a JSON list of samples. Unknown fields are errors. What is wrong
// is said with its place: the line, or the number of the request and its field.
func ParseSamples(r io.Reader) ([]Sample, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(b, &list); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, fmt.Errorf("line %d: no JSON: %w", 1+bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte("\n")), err)
		}
		return nil, errors.New("it is no list of requests: [{...}, ...]")
	}
	out := make([]Sample, len(list))
	for i, raw := range list {
		if err := out[i].read(raw); err != nil {
			return nil, fmt.Errorf("request %d: %w", i+1, err)
		}
		if out[i].Name == "" {
			out[i].Name = out[i].label(i)
		}
	}
	return out, nil
}

func (s *Sample) read(raw json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		return errors.New(`it is no object such as {"path": "/"}`)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(sampleFields, name) {
			continue
		}
		if near := nearest.Word(name, sampleFields); near != "" {
			return fmt.Errorf("unknown field %q; did you mean %s?", name, near)
		}
		return fmt.Errorf("unknown field %q; there are %s", name, strings.Join(sampleFields, ", "))
	}
	if remote, ok := given["remote"]; ok {
		var text string
		if json.Unmarshal(remote, &text) != nil || text != "" && !isIP(text) {
			return fmt.Errorf("remote: %s is no IP address", remote)
		}
	}
	if err := json.Unmarshal(raw, s); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return fmt.Errorf("%s: a %s is not what belongs there", kind.Field, kind.Value)
		}
		return fmt.Errorf("headers: %w", err)
	}
	if s.Path == "" {
		s.Path = "/"
	} else if s.Path[0] != '/' {
		return fmt.Errorf("the path %q does not begin with /", s.Path)
	}
	return nil
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

func (s *Sample) label(i int) string {
	if s.Name != "" {
		return s.Name
	}
	return strings.TrimSpace(fmt.Sprintf("#%d %s %s", i+1, s.Method, s.Host+s.Path))
}

// sample colors a sample, with what it says of whitelists.
func (s *Set) sample(x *Sample, c *lane.Carriers) Result {
	h := make(Map, len(x.Headers))
	for name, lines := range x.Headers {
		h[name] = lines
	}
	return s.Color(&Request{Entry: x.Entry, Host: x.Host, Target: x.Path, Tag: c.ReadRequest(h, x.Path), Headers: h, Remote: x.Remote},
		func(route, _ string) (bool, error) { return slices.Contains(x.Whitelisted, route), nil })
}

// Change is a sample that two Sets color differently.
type Change struct {
	Sample   Sample
	From, To Result
}

// Lane is where a request goes, in a word: a lane, the baseline, or an error.
func (res *Result) Lane() string {
	switch {
	case res.Refuse, res.Ambiguous:
		return "refused"
	case res.Tag.Kind == lane.TagLane:
		return string(res.Tag.Lane)
	}
	return lane.BaselineTag
}

// Diff colors samples by two Sets and returns those whose lane changes. Either
// Set may be nil. carriers say where a sample's own tag is.
func Diff(from, to *Set, samples []Sample, carriers lane.Carriers) ([]Change, error) {
	entries := append(from.Entries(), to.Entries()...)
	slices.Sort(entries)
	entries = slices.Compact(entries)
	var out []Change
	for i, x := range samples {
		if x.Entry == "" {
			if len(entries) > 1 {
				return nil, fmt.Errorf("request %d: say its entry, one of %s", i+1, strings.Join(entries, ", "))
			}
			if len(entries) == 1 {
				x.Entry = entries[0]
			}
		}
		c := Change{Sample: x, From: from.sample(&x, &carriers), To: to.sample(&x, &carriers)}
		if c.From.Lane() != c.To.Lane() {
			out = append(out, c)
		}
	}
	return out, nil
}
