package tui

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/traffic"

	"github.com/charmbracelet/x/ansi"
)

// statusLine is the filter, the counts, and what the list does.
func (m *model) statusLine() string {
	if m.filter.open {
		return m.filterInput()
	}
	right := ""
	var left []string
	switch {
	case m.screen == screenHelp:
		left = append(left, "help")
	case m.screen == screenServices:
		left = append(left, "services")
	case m.screen == screenTry:
		left = append(left, "what to try")
	case m.screen == screenFallbacks:
		left = append(left, "fallbacks")
	case m.screen == screenGraph:
		left = append(left, "graph")
	case m.screen == screenEvents:
		left = append(left, "log of the session")
	case m.screen == screenDoctor:
		left = append(left, "doctor")
	case m.screen == screenAnswers:
		left = append(left, "two answers")
	case m.screen == screenDetail:
		left = append(left, "exchange "+count(m.detail.of.Seq))
	}
	if m.screen != screenList {
		text, s := m.text()
		page := m.layout().page
		if over := len(text) - page; over > 0 {
			top := min(s.top, over)
			right = "lines " + strconv.Itoa(top+1) + "-" + strconv.Itoa(top+page) + " of " + strconv.Itoa(len(text))
		}
	}
	if m.screen == screenList && m.known {
		l := &m.list
		if !l.filter.Empty() {
			left = append(left, "/"+m.fixed.text.clean(l.filter.String(), 200), count(uint64(len(l.shown)))+" of "+count(uint64(l.n))+" shown")
		} else {
			s := plural(l.n, "exchange")
			if l.n == ringSize {
				s = "newest " + s
			}
			left = append(left, s)
		}
		switch {
		case l.paused:
			right = "PAUSED"
		case l.order != byTime && len(l.shown) > 0:
			right = l.order.String() + ", row " + count(uint64(l.cur)+1) + ", s sorts"
		case l.follow:
			right = "FOLLOW"
		case len(l.shown) > 0:
			right = "row " + count(uint64(l.cur)+1) + " of " + count(uint64(len(l.shown))) + ", f follows"
		}
	}
	if m.list.paused {
		left = append(left, "+"+count(m.list.arrived)+" new while paused")
	}
	if m.lost > 0 {
		left = append(left, count(m.lost)+" not listed")
	}
	look := plain
	if m.width >= drawnWidth {
		right += "   " + m.drawnWord()
	}
	if lines := m.noticeLines(); len(lines) > 0 {
		left, look, right = lines[:1], bold, ""
	}
	room := m.width - len(right) - 2
	if over := 1 + wide(strings.Join(left, "   ")) - room; over > 0 && len(left) > 1 && strings.HasPrefix(left[0], "/") {
		left[0] = cut(left[0], max(wide(left[0])-over, 8)) // what it chooses says more than its end
	}
	s := cut(" "+strings.Join(left, "   "), room)
	return m.paint(look, s) + strings.Repeat(" ", max(m.width-ansi.StringWidth(s)-len(right)-1, 1)) + right
}

// drawnWidth is from where the status line says how the screen is drawn.
const drawnWidth = 130

// drawnWord is how the screen is drawn: what looks odd may be that.
func (m *model) drawnWord() string {
	word := map[bool]string{true: "on", false: "off"}
	return "color " + fit(word[m.fixed.color], 3) + "  utf8 " + word[m.fixed.text.utf8]
}

// filterInput is the filter being typed, with its cursor.
func (m *model) filterInput() string {
	l := m.filter.line
	before, at, after := string(l.runes[:l.pos]), " ", ""
	if l.pos < len(l.runes) {
		at, after = string(l.runes[l.pos]), string(l.runes[l.pos+1:])
	}
	t := m.fixed.text
	before, at, after = t.clean(before, 4*lineMost), t.clean(at, 8), t.clean(after, 4*lineMost)
	right := m.filterCount()
	room := m.width - 2 - len(right) - ansi.StringWidth(at)
	if over := ansi.StringWidth(before) - room; over > 0 {
		before = "~" + ansi.TruncateLeft(before, over+1, "")
	}
	after = cut(after, room-ansi.StringWidth(before))
	s := " /" + before + m.paint(selected, at) + after
	return s + strings.Repeat(" ", max(m.width-ansi.StringWidth(s)-len(right), 0)) + right
}

// footer is the keys that work now, or the question that waits for an answer.
func (m *model) footer() string {
	if q, ok := m.waiting(); ok {
		s := " " + q.within(m.width-1)
		if m.asking && m.detach == nil && wide(s)+wide(leftRunning) <= m.width {
			s += leftRunning
		}
		return m.paint(bold, cut(s, m.width))
	}
	if lines := m.noticeLines(); len(lines) > 1 {
		return m.paint(bold, " "+lines[1])
	}
	switch {
	case m.filter.open && m.filter.err != nil:
		return m.paint(badText, cut(m.filterFault(), m.width))
	case m.filter.open:
		return cut(" enter keep  esc restore  keys svc m path st ms route from lane trace  -not  a|b", m.width)
	}
	in := m.screen.place()
	empty := m.list.n == 0 && m.screen == screenList
	var words []string
	for _, b := range m.binds {
		if b.brief == "" || b.where&in == 0 || b.act == m.screen.opener() || b.act == actServices && !m.known {
			continue
		}
		if empty && !b.early() {
			continue // nothing to work on yet
		}
		if b.act == actProxy && (!empty || m.status.Proxy == "" || m.ended()) {
			continue // it is for the first call
		}
		if b.act == actBack && m.screen == screenList && m.list.filter.Empty() {
			continue // there is none to end
		}
		if b.act == actReconnect && !m.down() || b.act == actDoctor && !empty && !m.down() {
			continue // while all is well they are in the help alone
		}
		if b.act == actNextTab && m.screen == screenList && m.layout().side == 0 {
			continue // the detail is not on the screen
		}
		if (b.act == actReplay || b.act == actAgainst) && m.gone != nil {
			continue // nobody would send it
		}
		if b.act == actPause && m.list.paused {
			words = slices.Insert(words, 0, "space resume") // what explains the screen stands first
			continue
		}
		words = append(words, b.brief)
	}
	// Where not all fit, help and quit stay.
	for len(words) > 2 && len(strings.Join(words, "  "))+1 > m.width {
		words = append(words[:len(words)-3], words[len(words)-2:]...)
	}
	return cut(" "+strings.Join(words, "  "), m.width)
}

func (m *model) filterError() string {
	return " ! " + m.fixed.text.clean(m.filter.err.Error(), 400)
}

// filterFault is what is wrong with the filter, as a line below it: a mark stands under
// where that begins, and the words beside it, where there is room for both.
func (m *model) filterFault() string {
	var wrong *traffic.FilterError
	s := m.filter.line.String()
	if !errors.As(m.filter.err, &wrong) || wrong.At > len(s) {
		return m.filterError()
	}
	t := m.fixed.text
	at := 2 + wide(t.clean(s[:wrong.At], 4*lineMost))
	words := wrong.Why
	if wrong.Hint != "" {
		words += "; " + wrong.Hint
	}
	words = t.clean(words, 400)
	switch room := m.width - at; {
	case 2+wide(t.clean(s, 4*lineMost)) >= m.width-len(m.filterCount()): // it is not all on the screen
	case 2+wide(words) <= room:
		return strings.Repeat(" ", at) + "^ " + words
	case wide(words)+2 <= at:
		return strings.Repeat(" ", at-wide(words)-1) + words + " ^"
	}
	return m.filterError()
}

// filterCount is how many rows the filter chooses.
func (m *model) filterCount() string {
	s := " " + count(uint64(len(m.list.shown))) + " of " + count(uint64(m.list.n)) + " shown"
	if m.width < 3*len(s) {
		return "" // what is typed needs the room
	}
	return s
}

// question is the one that q asks.
func (m *model) question() question {
	var names []string
	for _, s := range m.status.Services {
		names = append(names, m.fixed.text.clean(s.Name, 60))
	}
	if len(names) == 0 {
		return question{before: "End this session?", keys: m.quitKeys("end")}
	}
	what := strings.Join(names, ", ")
	if len(what) > m.width/2 {
		what = plural(len(names), "service")
	}
	return question{"Stop exposing ", what, "?", m.quitKeys("stop")}
}

// tinyBottom is what the last lines of a screen without room have to say: all that
// waits for a key, then what the last one did, then what the list does. It is at
// most half of the screen, but for a question, which stands there whole.
func (m *model) tinyBottom() []string {
	most := max(min(3, m.height/2), 1)
	if q, ok := m.waiting(); ok {
		lines := wrap(q.within(m.width), m.width, max(m.height, 1))
		for i := range lines {
			lines[i] = m.paint(bold, lines[i])
		}
		return lines
	}
	if m.filter.open {
		lines := []string{m.filterInput()}
		if m.filter.err != nil {
			for _, l := range wrap(strings.TrimSpace(m.filterError()), m.width, max(most-1, 1)) {
				lines = append(lines, m.paint(badText, l))
			}
		}
		return lines
	}
	if m.notice != "" {
		lines := wrap(m.notice, m.width, most)
		for i := range lines {
			lines[i] = m.paint(bold, lines[i])
		}
		return lines
	}
	var lines, words []string
	if l := &m.list; !l.filter.Empty() {
		words = append(words, count(uint64(len(l.shown)))+" of "+count(uint64(l.n))+" shown: /"+m.fixed.text.clean(l.filter.String(), 200))
	}
	if m.list.paused {
		words = append([]string{"PAUSED +" + count(m.list.arrived) + " new"}, words...)
	}
	if len(words) > 0 {
		lines = []string{cut(strings.Join(words, "  "), m.width)}
	}
	if lines = append(m.tinyProblem(most-len(lines)), lines...); len(lines) > 0 {
		return lines
	}
	return []string{cut("enlarge to "+strconv.Itoa(leastWidth)+"x"+strconv.Itoa(leastHeight)+" for more", m.width)}
}

// tinyProblem is the worst problem in at most n lines, and how many more there are.
func (m *model) tinyProblem(n int) []string {
	if !m.known || n < 1 {
		return nil
	}
	worst, more := "", 0
	for _, p := range m.problems() {
		switch mark := strings.TrimLeft(p.text, " "); {
		case !strings.HasPrefix(mark, "!"): // a hint, or the second line of one
		case worst == "":
			worst = mark
		default:
			more++
		}
	}
	if worst == "" {
		return nil
	}
	rest := ""
	if more > 0 {
		rest = " (+" + strconv.Itoa(more) + ")"
	}
	lines := wrap(cut(worst, n*m.width-len(rest)-n)+rest, m.width, n)
	for i := range lines {
		lines[i] = m.paint(badText, lines[i])
	}
	return lines
}
