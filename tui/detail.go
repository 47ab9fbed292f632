package tui

import (
	"slices"
	"strconv"
	"strings"

	"lane/pkg/control"
	"lane/pkg/traffic"
)

// detail is the pane of one exchange. It has its own copy: the row may leave the
// ring while it is read.
type detail struct {
	of     traffic.Exchange
	whole  *traffic.Exchange // with bodies, once they were asked for
	failed string            // why they could not be had
	// messages are those of its gRPC bodies, once its server has described them.
	messages *traffic.Messages
	scroll   scroll
	follow   bool // what the list did before, for the way back
}

// tab is a part of the detail.
type tab uint8

const (
	tabOverview tab = iota
	tabRequest
	tabResponse
	tabHops
	tabCurl
	tabs
)

func (t tab) String() string {
	return [...]string{"overview", "request", "response", "hops", "curl"}[t]
}

// next is the part behind this one, or before it.
func (t tab) next(act action) tab {
	if act == actPrevTab {
		return (t + tabs - 1) % tabs
	}
	return (t + 1) % tabs
}

// brief is the name of a tab where there is little room, as beside the list.
func (t tab) brief() string {
	return [...]string{"Overview", "Req", "Resp", "Hops", "Curl"}[t]
}

// tabLine names all tabs, the open one between brackets; with short names where the
// others are too wide, and with numbers alone where those are.
func tabLine(open tab, w int) string {
	names := func(of func(tab) string, gap string) string {
		var words []string
		for t := range tabs {
			s := strings.TrimRight(strconv.Itoa(int(t)+1)+" "+of(t), " ")
			if t == open {
				s = "[" + s + "]"
			}
			words = append(words, s)
		}
		return strings.Join(words, gap)
	}
	number := func(tab) string { return "" }
	for _, s := range []string{names(tab.String, "  "), names(tab.brief, "  "), names(tab.brief, " ")} {
		if len(s) <= w {
			return s
		}
	}
	return cut(names(number, " "), w)
}

const (
	labelWidth = 10
	// linesMost is how many lines one value may take.
	linesMost = 8
)

// page is text under construction, line by line, for a width.
type page struct {
	t     text
	w     int
	lines []cell
}

// most is how many bytes of a value can be seen.
func (p *page) most() int { return 4 * max(p.w, 1) * linesMost }

func (p *page) blank() { p.lines = append(p.lines, cell{}) }

// put wraps a text behind an indent.
func (p *page) put(indent int, s string, c class) {
	pad := strings.Repeat(" ", indent)
	for _, l := range wrap(p.t.clean(s, p.most()), p.w-indent, linesMost) {
		p.lines = append(p.lines, cell{pad + l, c})
	}
}

// field puts a label and its value; one without a value is left out.
func (p *page) field(label, value string, c class) {
	if value == "" {
		return
	}
	for i, l := range wrap(p.t.clean(value, p.most()), p.w-labelWidth, linesMost) {
		name := ""
		if i == 0 {
			name = label
		}
		p.lines = append(p.lines, cell{fit(name, labelWidth) + l, c})
	}
}

// headless says that an exchange came without its heads, as one of many does.
func headless(e *traffic.Exchange) bool {
	return e.ReqHeader == traffic.Head{} && e.ResHeader == traffic.Head{}
}

// asked says that the heads of an exchange are still to come, or cannot be had.
func (p *page) asked(e *traffic.Exchange, a about) bool {
	switch {
	case !a.fetches || e == a.whole || !headless(e):
		return false
	case a.failed != "":
		p.put(0, "Its headers cannot be had: "+a.failed, warnText)
	case a.aside:
		p.put(0, "enter shows its headers.", faint)
	default:
		p.put(0, "Asking for its headers ...", faint)
	}
	return true
}

// headers puts one of an exchange's heads by name, secrets masked.
func (p *page) headers(e *traffic.Exchange, h traffic.Head, a about) {
	if p.asked(e, a) {
		return
	}
	fields := h.Fields()
	if len(fields) == 0 {
		p.put(0, "No header was kept.", faint)
	}
	slices.SortStableFunc(fields, func(a, b traffic.Field) int {
		return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name))
	})
	for _, f := range fields {
		p.put(0, strings.ToLower(f.Name)+": "+f.Value, plain)
	}
	if h.Cut() {
		p.put(0, "(more was too long to be kept)", faint)
	}
}

// about is what else the detail is made of.
type about struct {
	status  *control.Status
	list    *list
	whole   *traffic.Exchange
	failed  string
	fetches bool // bodies can be asked for
	aside   bool // beside the list: nothing is asked for until it is opened
	// messages are those of the whole one's gRPC bodies; nil: not yet
	messages *traffic.Messages
}

// read is what is known of a gRPC body's messages: as JSON, and why not all are.
type read struct {
	json []string
	note string
}

func (a *about) read(of func(*traffic.Messages) []string) read {
	if a.messages == nil {
		return read{}
	}
	return read{of(a.messages), a.messages.Note}
}

// detailLines is one part of what is known of an exchange, in lines of at most w
// columns.
func detailLines(e *traffic.Exchange, open tab, a about, f look, w int) []cell {
	p := &page{t: f.text, w: w}
	if a.whole != nil && a.whole.Seq == e.Seq {
		e = a.whole
	}
	p.lines = append(p.lines, cell{tabLine(open, w), bold})
	p.blank()
	p.put(0, strings.TrimSpace(e.Method+" "+traffic.MaskURL(e.URL)), bold)
	outcome := plain
	if traffic.Mark(e) == traffic.MarkError {
		outcome = badText
	}
	p.put(0, traffic.Outcome(e)+", "+span(e.Took)+", "+size(e.ResSize), outcome)
	p.blank()
	switch open {
	case tabRequest:
		p.headers(e, e.ReqHeader, a)
		p.blank()
		p.body(e.ReqBody, e.ReqSize, e.ReqHeader, a, a.read(func(m *traffic.Messages) []string { return m.Req }))
	case tabResponse:
		p.headers(e, e.ResHeader, a)
		p.blank()
		p.body(e.ResBody, e.ResSize, e.ResHeader, a, a.read(func(m *traffic.Messages) []string { return m.Res }))
	case tabHops:
		p.hops(e, a)
	case tabCurl:
		p.curl(e, a)
	default:
		p.overview(e, f, a.aside)
		if a.aside { // else they are one key away
			p.overviewHops(a.traced(e, hopsMost), e.Seq)
		}
	}
	return p.lines
}

// overview is what was decided, and why; beside the list without what stands in its row, or
// is seldom asked for: there is no room for all.
func (p *page) overview(e *traffic.Exchange, f look, aside bool) {
	route := traffic.Route(e)
	means := routeMeans(route)
	if e.Guard == traffic.GuardProbe { // its Why says the same of the one that answered
		means = "a probe, and no request of anybody's"
	}
	p.field("Route", route+" ("+means+")", routeClass(route))
	p.field("Why", traffic.Why(e), plain)
	if what, run := traffic.EndsWhen(e); what != "" {
		p.field("Ends", what, plain)
		if f.commands {
			p.field("", run, plain)
		}
	}
	p.field("Service", e.Service, plain)
	p.field("Instance", e.Instance, plain)
	p.field("Address", e.Addr, plain)
	if e.Tries > 1 {
		p.field("Tries", plural(e.Tries, "instance")+" dialled", plain)
	}
	p.field("Lane", string(e.Lane), plain)
	p.field("Tag in", tagIn(e), plain)
	p.field("Tag out", tagOut(e), plain)
	front := frontWord(e.Front)
	if aside && e.Front == traffic.FrontForward {
		front = "at the proxy"
	}
	p.field("From", strings.Trim(e.From+", "+front, ", "), plain)
	p.field("Trace", e.TraceID, plain)
	if !aside {
		p.field("Time", e.Start.In(f.loc).Format("2006-01-02 15:04:05.000"), plain)
	}
	if e.Addr != "" { // it was sent, or was to be
		p.field("Timing ms", timingWord(e, p.w-labelWidth), plain)
	}
	if !aside {
		p.field("Size", "request "+size(e.ReqSize)+", response "+size(e.ResSize), plain)
		p.field("Protocol", e.Proto, plain)
	}
	for i, w := range e.Warnings {
		label := "Warnings"
		if i > 0 {
			label = ""
		}
		p.field(label, traffic.Warning(w), warnText)
	}
	if f.commands && e.Service != "" && e.Method != "CONNECT" && strings.Contains(e.URL, "://") {
		p.field("More", "lane explain "+traffic.ShellWord(traffic.MaskURL(traffic.AskedURL(e))), plain)
	}
}

// body shows what was kept of a body.
func (p *page) body(b *traffic.Body, n int64, h traffic.Head, a about, r read) {
	switch {
	case n == 0 && (b == nil || len(b.Bytes) == 0):
		p.put(0, "No body.", faint)
		return
	case a.failed != "":
		p.put(0, "Its body cannot be had: "+a.failed, warnText)
		return
	case a.fetches && a.whole == nil && a.status.Bodies && a.aside:
		p.put(0, "Body of "+size(n)+": enter shows it.", faint)
		return
	case a.fetches && a.whole == nil && a.status.Bodies:
		p.put(0, "Body of "+size(n)+": asking for it ...", faint)
		return
	case b == nil && a.status.Bodies:
		p.put(0, "Body of "+size(n)+": not kept any more; the newest 32 MiB are.", faint)
		return
	case b == nil:
		p.put(0, "Body of "+size(n)+": not kept. A session that began with lane up --bodies keeps them.", faint)
		return
	}
	p.lines = append(p.lines, bodyLines(b, n, h, r, p.t, p.w)...)
}

// hops are the exchanges of the same trace, as far as they are here, in the order
// in which they began.
func (p *page) hops(e *traffic.Exchange, a about) {
	if e.TraceID == "" {
		p.put(0, "The request has no trace id, so that nothing tells what belongs to it.", plain)
		p.put(0, "Services that pass a trace id on (traceparent, b3, x-request-id ...) appear here.", faint)
		return
	}
	all := a.traced(e, ringSize)
	if len(all) == 0 {
		all = append(all, e)
	}
	p.field("Trace", e.TraceID, plain)
	p.blank()
	p.lines = append(p.lines, hopLines(hopsOf(all, e.Seq, p.t), p.w)...)
	p.blank()
	p.put(0, "These are the calls that this session saw. What others called further on is not here.", faint)
}

// hopsMost is how many calls of a trace stand in the overview: the newest ones.
const hopsMost = 12

// overviewHops are the calls of a trace, if there is more than the open one.
func (p *page) overviewHops(all []*traffic.Exchange, open uint64) {
	if len(all) > 1 {
		p.blank()
		p.put(0, "Hops", bold)
		p.lines = append(p.lines, hopLines(hopsOf(all, open, p.t), p.w)...)
	}
}

// traced are the exchanges of the list with the same trace id: of more than most the
// newest.
func (a *about) traced(e *traffic.Exchange, most int) []*traffic.Exchange {
	if e.TraceID == "" {
		return nil
	}
	var all []*traffic.Exchange
	l := a.list
	for n := uint64(1); n <= uint64(l.n) && len(all) < most; n++ {
		if x := &l.ring[(l.next-n)%ringSize]; x.TraceID == e.TraceID {
			all = append(all, x)
		}
	}
	slices.Reverse(all)
	return all
}

// curl is the line that c copies.
func (p *page) curl(e *traffic.Exchange, a about) {
	if p.asked(e, a) {
		return // a line without them would be another request
	}
	line, err := traffic.Curl(e, traffic.CurlOptions{Proxy: a.status.Proxy, CA: a.status.CA})
	if err != nil {
		p.put(0, "No curl line: "+err.Error()+".", warnText)
		return
	}
	for _, l := range strings.Split(line, "\n") {
		p.long(l)
	}
	p.blank()
	p.put(0, "c copies it; C with its secrets.", faint)
}

// long puts a line of any length.
func (p *page) long(s string) {
	for _, l := range wrap(p.t.clean(s, 1<<20), p.w, 200) {
		p.lines = append(p.lines, cell{l, plain})
	}
}
