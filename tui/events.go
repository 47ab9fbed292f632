package tui

import (
	"strings"

	"lane/pkg/control"
)

// newsLines are the newest n things that happened, the newest first.
func (m *model) newsLines(n int) []string {
	var out []string
	h := m.news()
	for i := range min(len(h), n) {
		word, c := eventWord(&h[i])
		line := " " + fit(clock(h[i].At, m.now, m.fixed.loc), 11) + "  " + word + "  " + m.fixed.text.clean(h[i].Text, rawFor(m.width))
		out = append(out, m.paint(c, cut(line, m.width)))
	}
	return out
}

// eventWord tells what somebody should know of from what is only told, without colour too.
func eventWord(e *control.Event) (string, class) {
	if e.Level == control.LevelWarn {
		return "WARN", warnText
	}
	return "INFO", plain
}

// allProblems are the session's problems in full: above the list there may be room for
// some. Of a session that is gone only its warnings are still so.
func (m *model) allProblems(p *page) {
	all := problems(m.status, m.now, m.fixed.text)
	if m.gone != nil {
		all = nil
		if !m.ended() {
			all = append(all, problem{"!! The session does not answer: " + m.goneWord(), "", badText, false})
		}
		for _, w := range m.status.Warnings {
			all = append(all, problem{text: " ! " + w, class: warnText})
		}
	}
	for _, q := range all {
		s := strings.TrimLeft(q.text, " ")
		indent := 0
		if !strings.HasPrefix(s, "!") { // it goes on with the one before
			indent = 3
		}
		p.put(indent, s+q.more, q.class)
	}
	if len(all) > 0 {
		p.blank()
	}
}

// eventsText is what is wrong with the session, and what happened to it, the newest
// first.
func (m *model) eventsText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	if !m.known {
		p.put(0, "The session has not answered yet.", plain)
		return p.lines
	}
	m.allProblems(p)
	if m.ended() && m.status.State != control.SessionEnded {
		p.put(0, m.endWords()+".", badText)
	}
	h := m.news()
	for i := range h {
		word, c := eventWord(&h[i])
		at := fit(clock(h[i].At, m.now, m.fixed.loc), 13) + word + "  "
		for _, l := range wrap(p.t.clean(h[i].Text, p.most()), p.w-len(at), linesMost) {
			p.lines = append(p.lines, cell{at + l, c})
			at = fit("", len(at))
		}
	}
	if len(h) == 0 && !m.ended() {
		what := "Nothing has happened to this session but its traffic."
		if len(p.lines) > 0 {
			what = "Nothing else has happened to this session."
		}
		p.put(0, what, plain)
	}
	return p.lines
}
