package printer

import (
	"fmt"
	"strconv"

	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// ExplainSchema names the JSON form of an explanation.
const ExplainSchema = "lane.explain/v1"

// Explanation is a decision about one URL, with every instance of its service:
// `lane explain`.
type Explanation struct {
	Schema    string              `json:"schema"`
	URL       string              `json:"url"`
	Service   string              `json:"service"` // empty for an external host
	Tag       string              `json:"tag"`     // that the request carries
	Lane      string              `json:"lane"`    // that the request belongs to
	Kind      string              `json:"kind"`
	Reason    string              `json:"reason"`
	Code      string              `json:"code"`
	HTTP      int                 `json:"http"`   // status of the error; 0 for none
	Header    string              `json:"header"` // X-Lane-Decision, without the one instance that a request gets
	Message   string              `json:"message"`
	Hint      string              `json:"hint"`
	AgeMS     float64             `json:"registry_age_ms"` // 0: fresh
	Instances []ExplainedInstance `json:"instances"`
	Warnings  []string            `json:"warnings"`
	Metrics   []string            `json:"metrics"`
	// Color is how it got its lane; nil: no rules were asked.
	Color *ExplainedColor `json:"color,omitempty"`
}

// ExplainedInstance is one candidate and what became of it.
type ExplainedInstance struct {
	ID      string  `json:"id"`
	Addr    string  `json:"addr"`
	Node    string  `json:"node"`
	Lane    string  `json:"lane"` // as registered; empty: the baseline's
	Health  string  `json:"health"`
	Owner   string  `json:"owner"`
	Env     string  `json:"env"`
	Tenant  string  `json:"tenant"`
	Zone    string  `json:"zone"`
	Version string  `json:"version"`
	Chosen  bool    `json:"chosen"`
	Share   float64 `json:"share"` // of the requests, 0 to 1
	Why     string  `json:"why"`   // it was left out; empty if chosen
}

// NewExplanation converts an explanation of a request for a URL with a tag;
// secrets in the URL are masked.
func NewExplanation(url string, tag lane.Tag, e *lane.Explanation) Explanation {
	d := &e.Decision
	out := Explanation{
		Schema: ExplainSchema, URL: traffic.MaskURL(url), Service: d.Service, Tag: tag.Raw, Lane: string(d.Lane), Kind: string(d.Kind),
		Reason: string(d.Reason), Code: string(d.Code), HTTP: d.Code.HTTP(), Header: d.Header(nil), Message: d.Message(), Hint: d.Hint(),
		AgeMS: ms(d.RegistryAge), Instances: []ExplainedInstance{}, Warnings: append([]string{}, d.Warnings...), Metrics: []string{},
	}
	for _, m := range d.Metrics {
		out.Metrics = append(out.Metrics, m.String())
	}
	for _, v := range e.Instances {
		out.Instances = append(out.Instances, explained(v))
	}
	if len(e.Instances) == 0 { // static addresses, which are in no catalog
		for _, c := range d.Chosen {
			out.Instances = append(out.Instances, explained(lane.Verdict{Instance: c.Instance, Chosen: true, Share: c.Weight}))
		}
	}
	return out
}

func explained(v lane.Verdict) ExplainedInstance {
	i := v.Instance
	l := i.MetaLane
	if l == "" {
		l = i.MetaTag
	}
	return ExplainedInstance{
		ID: i.ID, Addr: i.Addr, Node: i.Node, Lane: l, Health: healthWord(i.Health), Owner: i.Owner,
		Env: i.Env, Tenant: i.Tenant, Zone: i.Zone, Version: i.Version, Chosen: v.Chosen, Share: v.Share, Why: v.Why,
	}
}

// PrintExplanation writes an explanation: the decision in a sentence, then each
// candidate, and before both how rules colored it. Off a terminal: first field color,
// rule, decision, tag, instance, warning or hint.
func PrintExplanation(s *iostreams.IOStreams, e Explanation) error {
	role := kindRole(lane.Kind(e.Kind))
	if !s.IsStdoutTTY {
		t := NewTable(s)
		if e.Color != nil {
			e.Color.rows(t)
		}
		t.Row(Text("decision"), As(role, e.Header), Text(e.Message))
		t.Row(Text("tag"), As(Lane, tagWord(e.Tag)))
		for _, i := range e.Instances {
			t.Row(Text("instance"), Text(i.ID), Text(i.Addr), Text(laneWord(i.Lane)), Text(i.Health), Text(verdict(i)))
		}
		for _, w := range e.Warnings {
			t.Row(Text("warning"), Text(w))
		}
		if e.Hint != "" {
			t.Row(Text("hint"), Text(e.Hint))
		}
		return t.Flush()
	}
	if e.Color != nil {
		if err := e.Color.print(s); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(s.Out, "%s\n%s; the request's tag: %s\n", paint(s.Color, role, traffic.Printable(e.Header)),
		traffic.Printable(e.Message), paint(s.Color, Lane, traffic.Printable(tagWord(e.Tag))))
	if err != nil {
		return err
	}
	if len(e.Instances) > 0 {
		if _, err := fmt.Fprintln(s.Out); err != nil {
			return err
		}
	}
	t := NewTable(s, "INSTANCE", "ADDRESS", "LANE", "HEALTH", "").Whole()
	for _, i := range e.Instances {
		t.Row(Text(i.ID), Text(i.Addr), As(Lane, laneWord(i.Lane)), As(stateRole(i.Health), i.Health), As(verdictRole(i), verdict(i)))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, w := range e.Warnings {
		if _, err := fmt.Fprintf(s.Out, "%s %s\n", paint(s.Color, Warn, "warning:"), traffic.Printable(w)); err != nil {
			return err
		}
	}
	if e.Hint != "" {
		_, err = fmt.Fprintf(s.Out, "\n%s %s\n", paint(s.Color, Head, "hint:"), traffic.Printable(e.Hint))
	}
	return err
}

func tagWord(t string) string {
	if t == "" {
		return "none"
	}
	return t
}

func laneWord(l string) string {
	if l == "" {
		return "baseline"
	}
	return l
}

func verdict(i ExplainedInstance) string {
	if !i.Chosen {
		return i.Why
	}
	return "chosen, " + strconv.FormatFloat(i.Share*100, 'f', -1, 32) + " %"
}

func verdictRole(i ExplainedInstance) Role {
	if i.Chosen {
		return Good
	}
	return Dim
}

func kindRole(k lane.Kind) Role {
	switch k {
	case lane.KindLaneMatch:
		return Good
	case lane.KindError:
		return Bad
	case lane.KindBaseline, lane.KindExternal:
		return Plain
	}
	return Warn
}
