package tui

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// graphSpan is how far back the graph looks, and sparkSteps into how many parts
// that is divided.
const (
	graphSpan  = 5 * time.Minute
	sparkSteps = 30
)

// figures are what is known of some exchanges.
type figures struct {
	n, failed uint64
	took      []time.Duration
	steps     [sparkSteps]uint64
}

func (f *figures) add(e *traffic.Exchange, step int) {
	f.n++
	if e.Failed() {
		f.failed++
	}
	f.took = append(f.took, e.Took)
	if step >= 0 && step < sparkSteps {
		f.steps[step]++
	}
}

// errors is the share that failed: 0%, 0.4%, 12%, or - for nothing.
func (f *figures) errors() string {
	if f.n == 0 {
		return "-"
	}
	share := 100 * float64(f.failed) / float64(f.n)
	switch {
	case f.failed == 0:
		return "0%"
	case share < 0.1:
		return "<0.1%"
	case share < 10:
		return strconv.FormatFloat(share, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(share, 'f', 0, 64) + "%"
}

// quantile is the time under which a share q of the exchanges stayed, in whole
// milliseconds, or - for nothing. The times have to be sorted.
func (f *figures) quantile(q float64) string {
	if len(f.took) == 0 {
		return "-"
	}
	return millis(f.took[min(int(math.Ceil(q*float64(len(f.took))))-1, len(f.took)-1)])
}

// perSecond is a rate over a span: 12, 1.2, 0.03.
func (f *figures) perSecond(over stretch) string {
	if f.n == 0 {
		return "-"
	}
	switch r := float64(f.n) * over.each / max(over.long, time.Second).Seconds(); {
	case r >= 10:
		return count(uint64(r + 0.5))
	case r >= 0.1:
		return strconv.FormatFloat(r, 'f', 1, 64)
	case r >= 0.01:
		return strconv.FormatFloat(r, 'f', 2, 64)
	}
	return "<.01"
}

// stretch is the time that figures are of, and for how many calls each of them stands.
type stretch struct {
	long time.Duration
	each float64
}

// sparks draws counts as one character each, over w columns; most is the count of
// the highest one.
func sparks(steps []uint64, w int, most uint64, utf8 bool) string {
	levels := []rune(" .:-=+*#")
	if utf8 {
		levels = []rune(" ▁▂▃▄▅▆▇█")
	}
	var b strings.Builder
	for i := range w {
		from, to := i*len(steps)/w, (i+1)*len(steps)/w
		var n uint64
		for _, s := range steps[from:max(to, from+1)] {
			n = max(n, s)
		}
		at := 0
		if n > 0 && most > 0 {
			at = 1 + int(n*uint64(len(levels)-2)/most)
		}
		b.WriteRune(levels[min(at, len(levels)-1)])
	}
	return b.String()
}

// edge is who called whom, and by which route it was served.
type edge struct{ from, to, route string }

// sides are one service in the lane and in the baseline.
type sides struct{ lane, base figures }

// graph is what the newest exchanges say of who called whom.
type graph struct {
	n        int
	from, to time.Time
	edges    map[edge]*figures
	services map[string]*sides
	own      map[string]bool // services of this session
	more     int             // edges beyond the bound
	all      figures         // of all its calls
	matters  matters
	nobody   uint64  // calls that lane itself had to answer: nobody served them
	left     uint64  // calls of that time that are not in the list: they came too fast
	each     float64 // for how many calls each in the list stands
	short    bool    // what came before the list may belong to that time
}

const edgesMost = 300

// notListed is the caller of what a guard let in from here, where the list does not have
// all: it may be somebody, or a call of ours whose own row is not there.
const notListed = "(caller not listed)"

// visit is a request of the lane that was let in to a service of this session:
// what that service calls meanwhile with the same trace belongs to it.
type visit struct {
	service  string
	from, to time.Time
}

// newGraph reads rows, oldest first; s are the ends of this session.
func newGraph(rows func(func(*traffic.Exchange) bool), now time.Time, s ends) graph {
	g := graph{matters: matters{}, edges: map[edge]*figures{}, services: map[string]*sides{}, own: s.own}
	since := now.Add(-graphSpan)
	visits := map[string][]visit{}
	var before, listed uint64
	first, whole := true, false
	for e := range rows {
		seq := before
		before = e.Seq
		if first {
			// Rows stand in the order in which they ended: if the first one ended before
			// that time, all that began in it is here.
			whole = e.Start.Add(e.Took).Before(since)
			g.short = !whole && e.Seq > 1
			first = false
		}
		if e.Start.Before(since) {
			continue
		}
		listed++
		if seq > 0 && e.Seq > seq+1 { // the session's numbers have no gaps
			g.left += e.Seq - seq - 1
		}
		if e.Guard == traffic.GuardPassed && e.TraceID != "" {
			visits[e.TraceID] = append(visits[e.TraceID], visit{e.Service, e.Start, e.Start.Add(e.Took)})
		}
		if g.from.IsZero() || e.Start.Before(g.from) {
			g.from = e.Start
		}
	}
	if whole && listed > 0 {
		g.from = since
	}
	g.each = float64(listed+g.left) / float64(max(listed, 1))
	g.to = now
	step := max(g.to.Sub(g.from), time.Second) / sparkSteps
	twice := twins(rows, s, since)
	calls := map[string]bool{} // services of this session that it calls itself
	for e := range rows {
		if !e.Start.Before(since) && s.sent(e) {
			calls[e.Service] = true
		}
	}
	for e := range rows {
		if e.Start.Before(since) {
			continue
		}
		if twice[e.Seq] {
			continue
		}
		g.n++
		g.matters.add(e)
		at := int(e.Start.Sub(g.from) / step)
		at = min(at, sparkSteps-1)
		g.all.add(e, at)
		from := caller(e, visits)
		if g.left > 0 && calls[e.Service] && s.let(e) {
			from = notListed
		}
		g.edge(edge{from, callee(e), traffic.Route(e)}).add(e, at)
		if e.Service == "" {
			continue
		}
		if unserved(e) {
			g.nobody++
			continue
		}
		s := g.services[e.Service]
		if s == nil {
			if len(g.services) == edgesMost {
				continue
			}
			s = &sides{}
			g.services[e.Service] = s
		}
		switch traffic.Route(e) {
		case traffic.RouteLane:
			s.lane.add(e, at)
		case traffic.RouteError, traffic.RouteLost:
			if e.Lane != "" && !e.Fallback() {
				s.lane.add(e, at)
			} else {
				s.base.add(e, at)
			}
		default:
			s.base.add(e, at)
		}
	}
	slices.Sort(g.all.took)
	for _, f := range g.edges {
		slices.Sort(f.took)
	}
	for _, s := range g.services {
		slices.Sort(s.lane.took)
		slices.Sort(s.base.took)
	}
	return g
}

// unserved says that an exchange reached neither the lane nor the baseline: lane itself
// answered, before it had an instance. What came to a guard by its lane has reached
// the lane, if not the process; and a lane that has instances, of which none is well,
// is a lane that failed.
func unserved(e *traffic.Exchange) bool {
	return traffic.Route(e) == traffic.RouteError && e.Addr == "" && e.Instance == "" &&
		(e.Lane == "" || e.Front != traffic.FrontGuard && e.Code != lane.CodeLaneUnhealthy)
}

func (g *graph) edge(k edge) *figures {
	f := g.edges[k]
	if f == nil {
		if len(g.edges) == edgesMost {
			g.more++
			return &figures{}
		}
		f = &figures{}
		g.edges[k] = f
	}
	return f
}

// caller is who called: a service of this session where the trace says so, else
// the exchange's own word.
func caller(e *traffic.Exchange, visits map[string][]visit) string {
	if e.Front == traffic.FrontForward && e.TraceID != "" {
		for _, v := range visits[e.TraceID] {
			if !e.Start.Before(v.from) && !e.Start.After(v.to) {
				return v.service
			}
		}
	}
	return traffic.From(e)
}

func callee(e *traffic.Exchange) string {
	if e.Service != "" {
		return e.Service
	}
	host, port := hostPort(e)
	return host + port
}

// span is how far back the graph goes. Where calls came too fast for the list, those
// in it stand for the others.
func (g *graph) span() stretch { return stretch{g.to.Sub(g.from), g.each} }

// in are the figures of a service in the lane.
func (g *graph) in(service string) *figures {
	if s := g.services[service]; s != nil {
		return &s.lane
	}
	return &figures{}
}

// out are the calls that a service made, as far as a trace says that they were its own.
func (g *graph) out(service string) *figures {
	var out figures
	for k, f := range g.edges {
		if k.from == service {
			out.n += f.n
		}
	}
	return &out
}

// fallsBack are the services at which a service's calls fell back, with their
// numbers, the most frequent first; empty if there are none, or if no trace says
// that the calls were its own.
func (g *graph) fallsBack(service string) string {
	by, failed := map[string]uint64{}, map[string]uint64{}
	for k, f := range g.edges {
		if k.from == service && (k.route == traffic.RouteFallback || k.route == traffic.RouteKilled) {
			by[k.to] += f.n
			failed[k.to] += f.failed
		}
	}
	var parts []string
	for _, k := range mostFirst(by) {
		s := k + " " + count(by[k])
		if failed[k] > 0 {
			s += " (" + count(failed[k]) + " err)"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// branch is a line of the drawing: how deep it stands, and what it is.
type branch struct {
	deep []bool // for each level above: more follows there
	last bool
	edge edge
	f    *figures
}

// tree lays the edges out: callers that nobody calls are the roots, and a service
// that calls others has them below it, once.
func (g *graph) tree() (roots []string, below map[string][]branch) {
	out := map[string][]edge{}
	called := map[string]bool{}
	for k := range g.edges {
		out[k.from] = append(out[k.from], k)
		if k.from != k.to {
			called[k.to] = true
		}
	}
	total := func(from string) (n uint64) {
		for _, k := range out[from] {
			n += g.edges[k].n
		}
		return n
	}
	roots = slices.SortedFunc(maps.Keys(out), func(a, b string) int {
		return cmp.Or(-boolCompare(a == "me", b == "me"), cmp.Compare(total(b), total(a)), cmp.Compare(a, b))
	})
	drawn := map[string]bool{}
	below = map[string][]branch{}
	var grow func(root, from string, deep []bool)
	grow = func(root, from string, deep []bool) {
		drawn[from] = true
		edges := out[from]
		slices.SortFunc(edges, func(a, b edge) int {
			return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(g.edges[b].n, g.edges[a].n), cmp.Compare(a.route, b.route))
		})
		for i, k := range edges {
			last := i == len(edges)-1
			below[root] = append(below[root], branch{deep: deep, last: last, edge: k, f: g.edges[k]})
			if again := i+1 < len(edges) && edges[i+1].to == k.to; !again && len(out[k.to]) > 0 && !drawn[k.to] && len(deep) < 6 {
				grow(root, k.to, append(slices.Clone(deep), !last))
			}
		}
	}
	var top []string
	for _, r := range roots {
		if !called[r] {
			top = append(top, r)
			grow(r, r, nil)
		}
	}
	for _, r := range roots { // those that call each other
		if !drawn[r] {
			top = append(top, r)
			grow(r, r, nil)
		}
	}
	return top, below
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// graphText is the pane: the drawing, and lane and baseline side by side.
func (m *model) graphText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	g := &m.graph
	if g.n == 0 {
		none := "Nobody has called anybody in the last 5 minutes."
		if m.list.cleared() {
			none = "Nobody has called anybody since the list was cleared."
		}
		p.put(0, none, bold)
		return p.lines
	}
	span := g.span()
	p.put(0, "WHO CALLED WHOM in "+m.spanWord(), bold)
	if g.left > 0 {
		p.put(0, count(g.left)+" more came too fast for the list. Rates are of all, CALLS of those listed.", warnText)
	}
	nameW := max(min(w-51, 60), 18)
	p.lines = append(p.lines, cell{fit("", nameW) + " SERVED BY    /s    ERR   p50   p95  CALLS", faint})
	roots, below := g.tree()
	for _, r := range roots {
		word := r
		if r == "me" {
			word = "me (you or your process)"
		}
		p.put(0, word, bold)
		for _, b := range below[r] {
			p.lines = append(p.lines, m.branchLine(b, nameW, span))
		}
	}
	if g.more > 0 {
		p.put(0, "and "+plural(g.more, "call")+" of further callers", faint)
	}
	p.blank()
	return append(p.lines, m.sidesLines(w, span)...)
}

// spanWord is the time that the figures are of, and why it is not all of it.
func (m *model) spanWord() string {
	s := "the last " + lasted(m.graph.span().long)
	if m.graph.short {
		s += " (the newest " + plural(m.list.n, "row") + ")"
	}
	return s
}

// branchLine draws one edge: +-- orders, its route with its mark, its figures.
func (m *model) branchLine(b branch, nameW int, over stretch) cell {
	var s strings.Builder
	for _, more := range b.deep {
		if more {
			s.WriteString(" |  ")
		} else {
			s.WriteString("    ")
		}
	}
	knot := " +-> "
	if b.last {
		knot = " `-> "
	}
	name := m.fixed.text.clean(b.edge.to, 200)
	if m.graph.own[b.edge.to] {
		name += " *"
	}
	mark := routeMark(b.edge.route)
	c := routeClass(b.edge.route)
	if b.f.failed > 0 {
		mark = traffic.MarkError
	}
	f := b.f
	return cell{fit(s.String()+knot+name, nameW) + " " + string(mark) + " " + fit(b.edge.route, 7) +
		fitLeft(f.perSecond(over), 6) + fitLeft(f.errors(), 7) + fitLeft(f.quantile(.5), 6) + fitLeft(f.quantile(.95), 6) +
		fitLeft(count(f.n), 7), c}
}

// routeMark is the mark of a route in which nothing failed.
func routeMark(route string) rune {
	switch route {
	case traffic.RouteFallback: // that a kill switch is on is none
		return traffic.MarkFallback
	case traffic.RouteGuard:
		return traffic.MarkGuard
	case traffic.RouteError, traffic.RouteLost:
		return traffic.MarkError
	}
	return traffic.MarkNone
}

// sidesLines are the services, each in the lane and in the baseline.
func (m *model) sidesLines(w int, over stretch) []cell {
	g := &m.graph
	names := slices.SortedFunc(maps.Keys(g.services), func(a, b string) int {
		x, y := g.services[a], g.services[b]
		return cmp.Or(cmp.Compare(y.lane.n+y.base.n, x.lane.n+x.base.n), cmp.Compare(a, b))
	})
	nobody := func(lines []cell) []cell {
		if g.nobody > 0 {
			lines = append(lines, cell{cut(plural(int(g.nobody), "call")+" with an error of lane's own, served by nobody: in neither column", w), warnText})
		}
		return lines
	}
	if len(names) == 0 {
		return nobody(nil)
	}
	// name | /s err p50 p95 trend | /s err p50 p95 trend
	const each = 6 + 6 + 6 + 6
	nameW := 12
	for _, n := range names {
		nameW = max(nameW, min(ansi.StringWidth(m.fixed.text.clean(n, 200)), 24, w/5))
	}
	trend := max(min((w-nameW-2*each-6)/2-1, sparkSteps), 0)
	half := func(f *figures, most uint64) string {
		s := fitLeft(f.perSecond(over), 6) + fitLeft(f.errors(), 6) + fitLeft(f.quantile(.5), 6) + fitLeft(f.quantile(.95), 6)
		if trend > 0 {
			s += " " + sparks(f.steps[:], trend, most, m.fixed.text.utf8)
		}
		return s
	}
	title := "    /s   ERR   p50   p95"
	if trend > 0 {
		title += " " + fit("TREND", trend)
	}
	lines := []cell{{"LANE AGAINST BASELINE (ms; both trends have one scale)", bold},
		{cut(fit("", nameW)+" | "+fit("LANE", ansi.StringWidth(title))+" | BASELINE", w), faint},
		{cut(fit("SERVICE", nameW)+" | "+title+" | "+title, w), faint}}
	for _, n := range names {
		s := g.services[n]
		most := max(slices.Max(s.lane.steps[:]), slices.Max(s.base.steps[:]))
		lines = append(lines, cell{cut(fit(m.fixed.text.clean(n, 200), nameW)+" | "+half(&s.lane, most)+" | "+half(&s.base, most), w), plain})
	}
	lines = nobody(lines)
	return append(lines, cell{}, cell{cut("* served from here  > in place of the lane  ! some failed  x turned away", w), faint})
}
