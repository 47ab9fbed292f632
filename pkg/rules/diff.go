package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"lane/pkg/lane"
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

// ParseSamples reads a JSON list of samples. Unknown fields are errors.
func ParseSamples(r io.Reader) ([]Sample, error) {
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	var out []Sample
	if err := dec.Decode(&out); err != nil {
		return nil, fmt.Errorf("samples: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("samples: more than one value; it is one list")
	}
	for i, s := range out {
		if s.Path == "" {
			out[i].Path = "/"
		} else if s.Path[0] != '/' {
			return nil, fmt.Errorf("samples: %s: the path %q does not begin with /", s.label(i), s.Path)
		}
		if s.Name == "" {
			out[i].Name = s.label(i)
		}
	}
	return out, nil
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
				return nil, fmt.Errorf("sample %s: say its entry, one of %s", x.label(i), strings.Join(entries, ", "))
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
