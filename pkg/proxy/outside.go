package proxy

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/tracemap"
)

const (
	metricTraceRejected = "lane_trace_rejected_total"
	warnTraceRejected   = "trace_rejected:untrusted"

	ours = "x-lane-" // what each header of ours begins with
)

// outside are the fields that nobody from outside sends on: those by which a
// request says to which trace it belongs, for the first sidecar would give it that
// trace's lane, and those of ours.
type outside struct {
	names   []string // in lower case
	lengths uint64   // bit n is set if a name has n letters, the last one for more
}

func newOutside(traces *tracemap.Sources) *outside {
	o := &outside{names: traces.Names()}
	for _, n := range o.names {
		o.lengths |= 1 << min(len(n), 63)
	}
	return o
}

// has reports whether a field is one of these, in any letter case, and with _ for -.
// A nil list has none.
func (o *outside) has(name string) bool {
	switch {
	case o == nil:
		return false
	case len(name) >= len(ours) && sameWord([]string{ours}, name[:len(ours)]):
		return true
	}
	return o.lengths&(1<<min(len(name), 63)) != 0 && sameWord(o.names, name)
}

// takeFrom takes these fields off a head, or a trailer.
func (o *outside) takeFrom(h http.Header) {
	for name := range h {
		if o.has(name) {
			delete(h, name)
		}
	}
}

// believe settles how much of what a request says of itself counts. Of a sender who
// is not trusted nothing does: its trace begins here, and it has come through no
// proxy of ours, unless it bears this entry's own mark, which nobody else knows. A
// request that runs in a circle does, and has to end.
func (g *Gateway) believe(c *call, h http.Header, e *entry) {
	c.veiled = !g.cfg.Expose.to(e.color.Trusted)
	via, again := g.via(h)
	e.via = via
	if !e.color.Trusted {
		e.outside = g.outside
		if !again {
			c.passed = 0
		}
		if c.ex.TraceID != "" {
			c.ex.ClientTraceID = c.ex.TraceID
			c.count(c.ex.Service, e.color.Tag.Lane, metricTraceRejected, "", "")
			e.warn(c, warnTraceRejected)
		}
	}
	if !e.color.Trusted || c.keys.Len() == 0 {
		e.start = g.t.sources.Begin()
		c.ex.TraceID = e.start.ID
	}
}

// warn says something in the record and in the answer.
func (e *entry) warn(c *call, w string) {
	c.ex.Warnings = append(c.ex.Warnings, w)
	if e.said.warning != "" {
		w = e.said.warning + ", " + w
	}
	e.said.warning = w
}

// begin writes the ids of a trace that begins here.
func (e *entry) begin(h http.Header) {
	for _, f := range e.start.Fields() {
		put(h, f.Name, f.Value)
	}
}

// put sets a field, by its name in lower case.
func put(h http.Header, name, value string) {
	delete(h, http.CanonicalHeaderKey(name))
	h[name] = []string{value}
}

// maxVia is how many entries a request remembers, the last ones: enough for a
// circle of that many, and no more than that of what somebody makes up.
const maxVia = 8

// newMark makes what an entry knows its own requests by.
func newMark() string {
	s := strconv.FormatUint(rand.Uint64(), 16)
	return strings.Repeat("0", 16-len(s)) + s
}

// via is the list of entries that goes on with a request, this one in it, and
// whether it was there already. What is no mark is left out.
func (g *Gateway) via(h http.Header) (list string, again bool) {
	lines := h[keyVia]
	if len(lines) == 0 {
		return g.mark, false
	}
	var marks []string
	for _, line := range lines {
		for m := range strings.SplitSeq(line, ",") {
			if m = strings.Trim(m, " \t"); len(m) != len(g.mark) || strings.Trim(m, "0123456789abcdef") != "" {
				continue
			}
			if m == g.mark {
				again = true
				continue
			}
			if marks = append(marks, m); len(marks) == maxVia {
				marks = slices.Delete(marks, 0, 1)
			}
		}
	}
	return strings.Join(append(marks, g.mark), ", "), again
}

const keyVia = "X-Lane-Via"
