package printer

import (
	"fmt"
	"strconv"

	"lane/pkg/iostreams"
	"lane/pkg/lane"
)

// ExplainSchema names the JSON form of an explanation.
const ExplainSchema = "lane.explain/v1"

// Explanation is a decision with every candidate: `lane explain`.
type Explanation struct {
	Schema   string             `json:"schema"`
	URL      string             `json:"url"`
	Service  string             `json:"service"` // empty for an external host
	Tag      string             `json:"tag"`     // that the request carries
	Kind     string             `json:"kind"`
	Reason   string             `json:"reason"`
	Code     string             `json:"code"`
	HTTP     int                `json:"http"` // status of an error of lane's own, else 0
	Lane     string             `json:"lane"` // that the request belongs to
	Message  string             `json:"message"`
	Hint     string             `json:"hint"`
	Warnings []string           `json:"warnings"`
	Verdicts []ExplainedVerdict `json:"instances"`
}

// ExplainedVerdict is what the decision did with one instance.
type ExplainedVerdict struct {
	ID     string  `json:"id"`
	Addr   string  `json:"addr"`
	Lane   string  `json:"lane"`
	Health string  `json:"health"`
	Chosen bool    `json:"chosen"`
	Share  float64 `json:"share"`
	Why    string  `json:"why"` // it was left out
}

// NewExplanation is an explanation of the decision for a URL.
func NewExplanation(url string, tag lane.Tag, ex *lane.Explanation) Explanation {
	d := &ex.Decision
	out := Explanation{Schema: ExplainSchema, URL: url, Service: d.Service, Tag: tag.Raw, Kind: string(d.Kind), Reason: string(d.Reason),
		Code: string(d.Code), Lane: string(d.Lane), Message: d.Message(), Hint: d.Hint(),
		Warnings: append([]string{}, d.Warnings...), Verdicts: []ExplainedVerdict{}}
	if d.Code != "" {
		out.HTTP = d.Code.HTTP()
	}
	for _, v := range ex.Instances {
		out.Verdicts = append(out.Verdicts, ExplainedVerdict{ID: v.Instance.ID, Addr: v.Instance.Addr,
			Lane: laneOf(v.Instance), Health: healthWord(v.Instance.Health), Chosen: v.Chosen, Share: v.Share, Why: v.Why})
	}
	return out
}

// laneOf is an instance's lane for people.
func laneOf(i *lane.Instance) string {
	switch {
	case i.MetaLane != "":
		return i.MetaLane
	case i.MetaTag != "":
		return i.MetaTag
	}
	return lane.BaselineTag
}

// PrintExplanation writes an explanation: the decision, then a line for each
// instance, the chosen ones marked.
func PrintExplanation(s *iostreams.IOStreams, e Explanation) error {
	t := NewTable(s).Whole()
	role := Good
	switch lane.Kind(e.Kind) {
	case lane.KindError:
		role = Bad
	case lane.KindFallback, lane.KindDegraded, lane.KindKillSwitch:
		role = Warn
	}
	t.Row(Text("decision"), As(role, e.Kind), Text(e.Message))
	tag := e.Tag
	if tag == "" {
		tag = "none"
	}
	t.Row(Text("tag"), As(Lane, tag), Text(e.Reason))
	if e.Code != "" {
		t.Row(Text("error"), As(Bad, e.Code), Text("HTTP "+strconv.Itoa(e.HTTP)))
	}
	if e.Hint != "" {
		t.Row(Text("hint"), Text(""), Text(e.Hint))
	}
	for _, w := range e.Warnings {
		t.Row(Text("warning"), As(Warn, w))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	c := NewTable(s, "", "INSTANCE", "LANE", "ADDRESS", "HEALTH", "WHY").Whole()
	for _, v := range e.Verdicts {
		mark, why := Text("-"), As(Dim, v.Why)
		if v.Chosen {
			mark, why = As(Good, "*"), As(Good, fmt.Sprintf("chosen, %.0f %% of the requests", v.Share*100))
		}
		c.Row(mark, Text(v.ID), As(Lane, v.Lane), Text(v.Addr), As(stateRole(v.Health), v.Health), why)
	}
	return c.Flush()
}
