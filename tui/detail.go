package tui

import (
	"net/http"
	"slices"
	"strings"

	"lane/pkg/traffic"
)

// detail is the pane of one exchange. It has its own copy: the row may leave the
// ring while it is read.
type detail struct {
	of     traffic.Exchange
	scroll scroll
	follow bool // what the list did before, for the way back
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

// headers puts headers in order, secrets masked.
func (p *page) headers(title string, h http.Header) {
	if h == nil {
		return
	}
	p.blank()
	p.put(0, title, bold)
	if len(h) == 0 {
		p.put(2, "none", faint)
	}
	names := make([]string, 0, len(h))
	for k := range h {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		for _, v := range h[k] {
			p.put(2, strings.ToLower(k)+": "+v, plain)
		}
	}
}

// serviceURL is an exchange's URL by its service's name: what came to a guard was
// asked by the guard's address, which tells nobody where the service's requests go.
func serviceURL(e *traffic.Exchange, url string) string {
	if e.Front != traffic.FrontGuard {
		return url
	}
	scheme, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return scheme + "://" + e.Service + rest[i:]
	}
	return scheme + "://" + e.Service
}

// detailLines is everything about an exchange, in lines of at most w columns.
func detailLines(e *traffic.Exchange, f look, w int) []cell {
	p := &page{t: f.text, w: w}
	url := traffic.MaskURL(e.URL)
	p.put(0, strings.TrimSpace(e.Method+" "+url), bold)
	outcome := plain
	if traffic.Mark(e) == traffic.MarkError {
		outcome = badText
	}
	p.put(0, traffic.Outcome(e)+", "+span(e.Took)+", "+size(e.ResSize), outcome)
	p.blank()

	route := traffic.Route(e)
	p.field("Route", route+" ("+routeMeans(route)+")", routeClass(route))
	p.field("Why", traffic.Why(e), plain)
	p.field("Service", e.Service, plain)
	p.field("Instance", e.Instance, plain)
	p.field("Address", e.Addr, plain)
	if e.Tries > 1 {
		p.field("Tries", plural(e.Tries, "instance")+" dialled", plain)
	}
	p.field("Lane", string(e.Lane), plain)
	p.field("Tag in", tagIn(e), plain)
	p.field("Tag out", tagOut(e), plain)
	p.field("From", strings.Trim(e.From+", "+frontWord(e.Front), ", "), plain)
	p.field("Trace", e.TraceID, plain)
	p.field("Time", e.Start.In(f.loc).Format("2006-01-02 15:04:05.000"), plain)
	timing := "total " + span(e.Took)
	if e.First > 0 {
		timing = "first byte " + span(e.First) + ", " + timing
	}
	p.field("Timing", timing, plain)
	p.field("Size", "request "+size(e.ReqSize)+", response "+size(e.ResSize), plain)
	p.field("Protocol", e.Proto, plain)
	for i, w := range e.Warnings {
		label := "Warnings"
		if i > 0 {
			label = ""
		}
		p.field(label, traffic.Warning(w), warnText)
	}
	if f.commands && e.Service != "" && e.Method != "CONNECT" && strings.Contains(url, "://") {
		p.field("More", "lane explain "+shellQuote(serviceURL(e, url)), plain)
	}
	p.headers("Request headers", e.ReqHeader.Header())
	p.headers("Response headers", e.ResHeader.Header())
	return p.lines
}
