package tui

import "lane/pkg/control"

// newsLines are the newest n things that happened to the session, the newest first.
func (m *model) newsLines(n int) []string {
	var out []string
	h := m.status.History
	for i := len(h) - 1; i >= 0 && len(out) < n; i-- {
		line := " " + fit(clock(h[i].At, m.now, m.fixed.loc), 11) + "  " + m.fixed.text.clean(h[i].Text, rawFor(m.width))
		out = append(out, cut(line, m.width))
	}
	return out
}

// eventsText is what happened to the session, the newest first.
func (m *model) eventsText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	if !m.known {
		p.put(0, "The session has not answered yet.", plain)
		return p.lines
	}
	for _, warning := range m.status.Warnings {
		p.put(0, "! "+warning, warnText)
	}
	if len(m.status.Warnings) > 0 {
		p.blank()
	}
	if m.ended() && m.status.State != control.SessionEnded {
		p.put(0, "The session has ended: "+m.endWord()+".", badText)
	}
	h := m.status.History
	for i := len(h) - 1; i >= 0; i-- {
		at := fit(clock(h[i].At, m.now, m.fixed.loc), 13)
		for _, l := range wrap(p.t.clean(h[i].Text, p.most()), p.w-len(at), linesMost) {
			p.lines = append(p.lines, cell{at + l, plain})
			at = fit("", len(at))
		}
	}
	if len(h) == 0 && !m.ended() {
		p.put(0, "Nothing has happened to this session but its traffic.", plain)
	}
	return p.lines
}
