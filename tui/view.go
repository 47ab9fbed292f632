package tui

import (
	"slices"
	"strings"

	"lane/pkg/traffic"

	"github.com/charmbracelet/x/ansi"
)

const (
	// Below this the list is one short line per exchange.
	leastWidth, leastHeight = 60, 15
	// From this on the detail is at the side.
	wideWidth = 110
	// From this on there is room for the services.
	tallHeight, servicesMost = 30, 6
	// And from this for what happened to the session.
	newsHeight, newsMost = 36, 3
)

// layout is how a screen is divided, in lines and columns.
type layout struct {
	tiny     bool
	side     int // width of the detail at the side, 0 if it is below
	news     int // lines of what happened to the session, 0 for none
	services int // lines of the services' strip, 0 for none
	problems []problem
	body     int // lines between the header and the status line
	rows     int // lines of exchanges
	page     int // lines of a text that fills the body
}

func (m model) layout() layout {
	w, h := m.width, m.height
	if w < leastWidth || h < leastHeight {
		rows := max(h-1-len(m.tinyBottom()), 1)
		return layout{tiny: true, rows: rows, page: rows}
	}
	l := layout{problems: broken(m.problems(), w)}
	most := max(h/8, 2)
	if r := m.status.Relay; m.gone == nil && r != nil && lostTunnel(r) {
		most = max(h/4, 3) // what that means has to be said in full
	}
	for at := len(l.problems) - 1; at > 0 && len(l.problems) > most; at-- { // another problem before the details of one
		if l.problems[at].detail {
			l.problems = slices.Delete(l.problems, at, at+1)
		}
	}
	if len(l.problems) > most {
		more := 0
		for _, p := range l.problems[most-1:] {
			if !strings.HasPrefix(p.text, "   ") { // that is the second line of one
				more++
			}
		}
		rest := problem{text: "!! and more of it: l shows all", class: badText}
		if more > 0 {
			rest.text = "!! and " + plural(more, "more problem") + ": l shows all"
		}
		l.problems = append(l.problems[:most-1:most-1], rest)
	}
	l.body = h - 2 - 3 // header and rule; rule, status line and keys
	l.page = l.body
	if n := len(m.status.Services); w >= wideWidth && h >= tallHeight && n > 0 {
		l.services = min(n, servicesMost) + 2
	}
	if w >= wideWidth && h >= newsHeight && len(m.status.History)+len(m.graph.matters) > 0 {
		l.news = min(len(m.status.History)+len(m.graph.matters), newsMost) + 1
	}
	l.rows = l.body - 1 - len(l.problems) - l.services - l.news
	if w >= wideWidth {
		l.side = max(w/3, 44)
	} else {
		l.rows -= 1 + 3 // rule and the three lines of the selected exchange
	}
	l.rows = max(l.rows, 1)
	return l
}

// broken are problems of which each has a second line where the first is too narrow.
func broken(all []problem, w int) []problem {
	var out []problem
	for _, p := range all {
		if wide(p.text) <= w {
			out = append(out, p)
			continue
		}
		mark := len(p.text) - len(strings.TrimLeft(p.text, " !"))
		for i, line := range wrap(p.text[mark:], w-mark, 2) {
			lead := p.text[:mark]
			if i > 0 {
				lead = strings.Repeat(" ", mark)
			}
			out = append(out, problem{text: lead + line, class: p.class, detail: p.detail})
		}
	}
	return out
}

// problems are the session's and the UI's own, the worst first.
func (m *model) problems() []problem {
	t := m.fixed.text
	var out []problem
	if m.gone != nil && m.known {
		if m.ended() {
			out = append(out, problem{text: "!! " + m.endWords(), class: badText})
			if m.list.n > 0 {
				out = append(out, problem{text: "   The rows below are history.", class: badText})
			}
		} else {
			out = append(out,
				problem{"!! The session does not answer: " + m.goneWord(), "", badText, false},
				problem{text: "   Trying each second, R at once. The rows below are history, and do not change.", class: badText})
		}
		return out
	}
	out = problems(m.status, m.now, t)
	if m.lostNow > 0 && m.now.Sub(m.lostAt) < rateWindow {
		out = append(out, problem{text: " ! " + count(m.lostNow) + " rows came too fast for this list; their requests were served", class: warnText})
	}
	if m.hint != "" {
		out = append(out, problem{text: " " + m.fixed.text.clean(m.hint, 200), class: bold})
	}
	return out
}

// goneWord is why the session does not answer: all of the error, or where that is
// too long its end, which says most.
func (m *model) goneWord() string {
	s := m.fixed.text.clean(m.gone.Error(), 400)
	if i := strings.LastIndex(s, ": "); i >= 0 && wide(s) > m.width/2 {
		s = s[i+len(": "):]
	}
	return s
}

// View draws the screen; bubbletea calls it after every message.
func (m model) View() string {
	if m.width <= 0 || m.height <= 0 {
		return ""
	}
	lines := m.lines()
	lines = lines[:min(len(lines), m.height)]
	for i, l := range lines {
		// The last word on width: whatever a pane did, no line wraps.
		if wide(l) > m.width {
			lines[i] = ansi.Truncate(l, m.width, "")
		}
	}
	return strings.Join(lines, "\n")
}

func (m *model) lines() []string {
	l := m.layout()
	if l.tiny {
		return m.tinyLines(l)
	}
	var body []string
	switch {
	case m.screen != screenList:
		body = m.scrolled(l.page)
	case !m.known:
		body = m.connecting()
	case m.list.n == 0 && begins(&m.status) && m.gone == nil:
		body = append(m.problemLines(l), m.starting()...)
	case m.list.n == 0 && len(m.list.waiting) == 0 && m.gone == nil:
		body = append(m.problemLines(l), m.empty()...)
	default:
		body = m.listLines(l)
	}
	out := append([]string{m.header(), m.rule("-")}, body...)
	for len(out) < m.height-3 {
		out = append(out, "")
	}
	out = out[:m.height-3]
	return append(out, m.rule("-"), m.statusLine(), m.footer())
}

func (m *model) paint(c class, s string) string { return m.fixed.palette.paint(c, s) }

func (m *model) rule(with string) string { return strings.Repeat(with, m.width) }

func (m *model) problemLines(l layout) []string {
	var out []string
	for _, p := range l.problems {
		s := p.text
		if p.more != "" && wide(s)+wide(p.more) <= m.width {
			s += p.more
		}
		out = append(out, m.paint(p.class, cut(s, m.width)))
	}
	return out
}

// listLines are the list, the selected exchange beside or below it, and the
// services.
func (m *model) listLines(l layout) []string {
	out := m.problemLines(l)
	width := m.width
	if l.side > 0 {
		width = m.width - l.side - 2
	}
	cols := columns(width, m.list.names)
	left := []string{m.paint(faint, titles(cols))}
	for i := m.list.top; i < min(m.list.top+l.rows, len(m.list.shown)); i++ {
		left = append(left, m.row(i, cols, width))
	}
	if len(m.list.shown) == 0 {
		why := "  Nothing of " + plural(m.list.n, "exchange") + " matches the filter. esc ends it."
		if m.list.filter.Empty() {
			why = "  No exchange was seen here."
		}
		left = append(left, "", cut(why, width))
	}
	e := m.list.selected()
	if l.side == 0 {
		for len(left) < l.rows+1 {
			left = append(left, "")
		}
		out = append(append(out, left...), m.rule("-"))
		if e != nil {
			for _, c := range brief(e, m.fixed.text, m.width) {
				out = append(out, m.paint(c.class, c.text))
			}
		}
		return out
	}
	var right []cell
	if e != nil {
		right = detailLines(e, m.part, m.about(), m.fixed, l.side-1)
	}
	if over := len(right) - (l.rows + 1); over > 0 {
		right = append(right[:l.rows:l.rows], cell{"enter shows " + plural(over+1, "more line"), faint})
	}
	for i := range l.rows + 1 {
		a, b := "", cell{}
		if i < len(left) {
			a = left[i]
		}
		if i < len(right) {
			b = right[i]
		}
		out = append(out, a+strings.Repeat(" ", max(width-wide(a), 0))+" | "+m.paint(b.class, b.text))
	}
	if l.services > 0 {
		out = append(append(out, m.rule("-")), m.serviceLines(l.services-1)...)
	}
	if l.news > 0 {
		out = append(append(out, m.rule("-")), m.newsLines(l.news-1)...)
	}
	return out
}

// row draws one exchange. The cursor is a bar beside the mark, and reverse.
func (m *model) row(i int, cols []column, width int) string {
	e := m.list.at(i)
	cells := row(e, cols, m.fixed.text, m.fixed.loc)
	second := ""
	if i == m.list.cur {
		second = "|"
	}
	if m.list.marked[e.Seq] {
		second = "*"
		if i == m.list.cur {
			second = "#"
		}
	}
	if i == m.list.cur {
		var b strings.Builder
		for _, c := range cells {
			b.WriteString(c.text)
		}
		s := b.String()
		return m.paint(selected, s[:1]+second+fit(s[2:], width-2))
	}
	if second != "" {
		cells[0].text = cells[0].text[:1] + second
	}
	var b strings.Builder
	for _, c := range cells {
		if m.gone != nil {
			c.class = faint
		}
		b.WriteString(m.paint(c.class, c.text))
	}
	return b.String()
}

// text is what fills the screen that is open, in lines, and where it stands.
func (m *model) text() (lines []cell, at scroll) {
	switch m.screen {
	case screenHelp:
		return helpLines(m.binds, m.quitting, m.owner, m.width-2), m.reading
	case screenServices:
		return m.servicesText(m.width - 2), m.reading
	case screenTry:
		return m.tryLines(), m.reading
	case screenFallbacks:
		return m.fallbacksText(m.width - 2), m.reading
	case screenGraph:
		return m.graphText(m.width - 2), m.reading
	case screenDoctor:
		return m.diagnosisText(m.width - 2), m.reading
	case screenEvents:
		return m.eventsText(m.width - 2), m.reading
	case screenAnswers:
		if m.drawing.is(m.drawingKey()) {
			return m.drawing.lines, m.reading
		}
		return m.answersText(m.width - 2), m.reading
	}
	if m.drawing.is(m.drawingKey()) {
		return m.drawing.lines, m.detail.scroll
	}
	return m.detailText(m.width - 2), m.detail.scroll
}

// detailText is the open exchange in lines.
func (m *model) detailText(w int) []cell {
	a := m.about()
	a.aside = false
	a.whole, a.failed, a.messages = m.detail.whole, m.detail.failed, m.detail.messages
	return detailLines(&m.detail.of, m.part, a, m.fixed, w)
}

// drawing is a text that costs much and stays the same while it is open: a body, or
// what two answers differ in. It is kept from one drawing to the next.
type drawing struct {
	key   drawingKey
	lines []cell
}

// drawingKey is all that such a text depends on; its zero value is none.
type drawingKey struct {
	screen screen
	part   tab
	width  int
	whole  *traffic.Exchange
	read   *traffic.Messages
	answer uint64 // the number of answers so far
}

func (d *drawing) is(k drawingKey) bool { return k != drawingKey{} && d.key == k }

// drawingKey is the key of what is open, if it is worth keeping.
func (m *model) drawingKey() drawingKey {
	switch {
	case m.screen == screenAnswers:
		return drawingKey{screen: m.screen, width: m.width, answer: m.answered}
	case m.screen == screenDetail && m.detail.whole != nil && (m.part == tabRequest || m.part == tabResponse):
		return drawingKey{m.screen, m.part, m.width, m.detail.whole, m.detail.messages, 0}
	}
	return drawingKey{}
}

// keepDrawing draws what is worth keeping.
func (m model) keepDrawing() model {
	k := m.drawingKey()
	switch {
	case k == drawingKey{}:
		m.drawing = drawing{}
	case m.drawing.is(k):
	case k.screen == screenAnswers:
		m.drawing = drawing{k, m.answersText(m.width - 2)}
	default:
		m.drawing = drawing{k, m.detailText(m.width - 2)}
	}
	return m
}

// about is what the detail is made of beside its exchange.
func (m *model) about() about {
	return about{status: &m.status, list: &m.list, fetches: m.deeds != nil, aside: true}
}

// scrolled is the part of that text that is on the screen.
func (m *model) scrolled(room int) []string {
	text, s := m.text()
	top := min(s.top, max(len(text)-room, 0))
	var out []string
	for _, c := range text[top:min(top+room, len(text))] {
		out = append(out, " "+m.paint(c.class, c.text))
	}
	return out
}
