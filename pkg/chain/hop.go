package chain

import (
	"strings"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// HopsSchema names the JSON form of Hops.
const HopsSchema = "lane.hops/v1"

// Hops are what one router knows of a trace.
type Hops struct {
	Schema  string `json:"schema"`
	Service string `json:"service"` // before which it stands; empty: a gateway
	Hops    []Hop  `json:"hops"`    // in the order of their ends
}

// Hop is one request at a router: one that came to its service, or a call that it
// has sent on. Nothing of a header or a body is in it but the tag and the trace.
type Hop struct {
	Front    traffic.Front `json:"front"`   // gateway, sidecar, guard: it came in; forward: a call
	Service  string        `json:"service"` // for which it was; empty: no service of the registry
	Tag      string        `json:"tag"`     // as it came
	Lane     lane.Name     `json:"lane"`    // that it has from here on
	Decision lane.Kind     `json:"decision"`
	Reason   lane.Reason   `json:"reason"`
	Code     lane.Code     `json:"code"` // an error of lane's own: it went nowhere
	Instance string        `json:"instance"`
	Status   int           `json:"status"`
	Start    time.Time     `json:"start"` // by the router's own clock
	TookMS   float64       `json:"took_ms"`
	TraceID  string        `json:"trace_id"`
	// ClientTraceID is the trace that the caller named, where a gateway began another.
	ClientTraceID string `json:"client_trace_id,omitempty"`
	// Strayed says that it is a call without the trace, made while the service worked
	// on a request of it. Others is how many requests of other traces the service
	// worked on at that time: with any, the call may be theirs.
	Strayed bool `json:"strayed,omitempty"`
	Others  int  `json:"others,omitempty"`
}

func hopOf(e *traffic.Exchange) Hop {
	return Hop{Front: e.Front, Service: e.Service, Tag: e.Tag, Lane: e.Lane, Decision: e.Kind, Reason: e.Reason, Code: e.Code,
		Instance: e.Instance, Status: e.Status, Start: e.Start, TookMS: float64(e.Took.Microseconds()) / 1000,
		TraceID: e.TraceID, ClientTraceID: e.ClientTraceID}
}

// call says whether a hop is a call that a router has sent on, rather than a request
// that came to its service.
func (h *Hop) call() bool { return h.Front == traffic.FrontForward }

func (h *Hop) end() time.Time {
	return h.Start.Add(time.Duration(h.TookMS * float64(time.Millisecond)))
}

// during says whether a hop began while the other one was worked on. Both are of one
// router, and by its clock.
func (h *Hop) during(o *Hop) bool { return !h.Start.Before(o.Start) && !h.Start.After(o.end()) }

// Same says whether two texts are ids of one trace: systems of 64 and of 128 bits meet
// in one, and a UUID is written with or without its dashes.
func Same(a, b string) bool {
	a, b = plain(a), plain(b)
	if a == b {
		return a != ""
	}
	return digits(a) && digits(b) && a[len(a)-16:] == b[len(b)-16:] && (len(a) == 16 || len(b) == 16)
}

func plain(id string) string { return strings.ToLower(strings.ReplaceAll(id, "-", "")) }

func digits(s string) bool {
	return (len(s) == 16 || len(s) == 32) && strings.Trim(s, "0123456789abcdef") == ""
}

// Find are the hops of a trace among a router's exchanges, which each shows one by one,
// as often as it is asked to.
func Find(each func(show func(*traffic.Exchange)), id string) []Hop {
	out := []Hop{}
	var came []Hop // of the trace
	each(func(e *traffic.Exchange) {
		if !Same(e.TraceID, id) && !Same(e.ClientTraceID, id) {
			return
		}
		h := hopOf(e)
		if out = append(out, h); h.Front == traffic.FrontSidecar {
			came = append(came, h)
		}
	})
	if len(came) == 0 {
		return out
	}
	var calls, others []Hop
	each(func(e *traffic.Exchange) {
		if Same(e.TraceID, id) || Same(e.ClientTraceID, id) {
			return
		}
		h := hopOf(e)
		switch {
		case h.Front == traffic.FrontSidecar:
			others = append(others, h)
		case h.call() && h.Service != "":
			for i := range came {
				if h.during(&came[i]) && (h.Lane == "" || came[i].Lane == "" || h.Lane == came[i].Lane) {
					calls = append(calls, h)
					break
				}
			}
		}
	})
	for _, c := range calls {
		c.Strayed = true
		own := false // it is of a trace that came in by itself
		for i := range others {
			own = own || Same(c.TraceID, others[i].TraceID)
			if c.during(&others[i]) {
				c.Others++
			}
		}
		if !own {
			out = append(out, c)
		}
	}
	return out
}
