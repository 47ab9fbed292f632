package tui

import (
	"strings"
)

// connecting is the screen before the session has answered once.
func (m *model) connecting() []string {
	out := []string{"", "  Connecting to the session."}
	if m.ended() {
		out = []string{"", "  The session has ended."}
	} else if m.gone != nil {
		out = append(out, "")
		why := "No answer for " + age(m.now.Sub(m.goneAt)) + ": " + m.fixed.text.clean(m.gone.Error(), 400)
		for _, l := range wrap(why, m.width-4, 3) {
			out = append(out, m.paint(badText, "  "+l))
		}
		out = append(out, "  Trying again each second, R at once; q leaves.")
	}
	return out
}

// empty is the screen before the first exchange: what is exposed, and the first
// request to copy.
func (m *model) empty() []string {
	t, s := m.fixed.text, m.status
	out := []string{"", "  No traffic yet in lane " + t.clean(string(s.Lane), 80) + "."}
	if m.list.cleared() {
		out[1] = "  No traffic in lane " + t.clean(string(s.Lane), 80) + " since the list was cleared."
	}
	put := func(label, text string, c class) {
		out = append(out, m.paint(c, cut("  "+fit(label, 11)+text, m.width)))
	}
	out = append(out, "")
	nameW, stateW := 0, 0
	for _, v := range s.Services {
		word, _ := stateWord(v, t)
		nameW, stateW = max(nameW, min(len(v.Name), 30)), max(stateW, min(len(word), 20))
	}
	for i, v := range s.Services {
		label := ""
		if i == 0 {
			label = "Exposed"
		}
		word, c := stateWord(v, t)
		if v.Registered != "" && v.Registered != v.Name {
			word = fit(word, stateW) + "  as " + t.clean(v.Registered, 80)
		}
		put(label, fit(t.clean(v.Name, 100), nameW)+" -> "+fit(t.clean(v.Local, 60), 15)+"  "+word, c)
	}
	if len(s.Services) == 0 {
		put("Exposed", "nothing: this session colors outgoing calls only", plain)
	}
	out = append(out, "")
	put("Try", m.tryCurl(), bold)
	if s.Proxy != "" {
		put("Proxy", "export HTTP_PROXY="+t.clean(s.Proxy, 100), plain)
	}
	out = append(out, "", "  Requests to lane "+t.clean(string(s.Lane), 80)+" show here as they happen.")
	if m.deeds != nil && m.fixed.commands && !m.list.cleared() {
		out = append(out, "  Nothing after a minute? d looks for what is wrong.")
	}
	return out
}

// tryCurl is a first request.
func (m *model) tryCurl() string {
	t, s := m.fixed.text, &m.status
	target := "SERVICE"
	if len(s.Services) > 0 {
		target = t.clean(s.Services[0].Name, 100)
	}
	if !m.fixed.commands {
		return "curl -x " + t.clean(s.Proxy, 100) + " http://" + target + "/"
	}
	return "lane curl http://" + target + "/"
}

// tinyLines is the screen when there is no room: one line per exchange.
func (m *model) tinyLines(l layout) []string {
	name := "lane"
	if m.known {
		name += " " + m.fixed.text.clean(string(m.status.Lane), 80)
	}
	if m.gone != nil {
		name += " GONE"
	}
	if m.known {
		for _, p := range totalParts(m.status.Counts, true) {
			name += " " + p.text
		}
	}
	out := []string{cut(name+" "+m.rateWord(), m.width)}
	if m.screen == screenList {
		out = append(out, m.tinyRows(l)...)
	} else {
		out = append(out, m.scrolled(l.page)...)
	}
	last := m.tinyBottom()
	rest := max(m.height-len(last), 0)
	for len(out) < rest {
		out = append(out, "")
	}
	return append(out[:rest], last...)
}

// tinyWords are what stands in place of rows where there is none.
func (m *model) tinyWords() []string {
	t := m.fixed.text
	switch {
	case !m.known && m.ended():
		return []string{"The session has ended."}
	case !m.known && m.gone != nil:
		return []string{"No answer for " + age(m.now.Sub(m.goneAt)) + ": " + m.goneWord(), "Trying again each second, q leaves."}
	case !m.known:
		return []string{"Connecting to the session."}
	case m.list.n > 0 || len(m.list.waiting) > 0:
		return []string{"No row fits the filter."}
	case m.gone != nil: // which stands below
		return nil
	case begins(&m.status):
		out := []string{"Starting lane " + t.clean(string(m.status.Lane), 80) + "."}
		for _, step := range m.status.Steps {
			if step.Took == 0 {
				out = append(out, stepTime(m.now.Sub(step.Began).Seconds())+": "+m.stepWords(&step))
			}
		}
		return out
	case m.list.cleared():
		return []string{"No traffic since the list was cleared."}
	}
	return []string{"No traffic yet. Try", m.tryCurl()}
}

func (m *model) tinyRows(l layout) []string {
	var out []string
	if len(m.list.shown) == 0 {
		for _, words := range m.tinyWords() {
			for _, line := range wrap(words, m.width-1, l.rows) {
				out = append(out, cut(" "+line, m.width))
			}
		}
		return out[:min(len(out), l.rows)]
	}
	for i := m.list.top; i < min(m.list.top+l.rows, len(m.list.shown)); i++ {
		e := m.list.at(i)
		r := row(e, []column{
			{colStatus, "", 3}, {colRoute, "", 7}, {colService, "", 10}, {colPath, "", max(m.width-markWidth-3-7-10-3, 1)}}, m.fixed.text, m.fixed.loc)
		var b strings.Builder
		for _, c := range r {
			b.WriteString(c.text)
		}
		s := b.String()
		if i == m.list.cur {
			s = s[:1] + "|" + s[2:]
		}
		out = append(out, strings.TrimRight(cut(s, m.width), " "))
	}
	return out
}
