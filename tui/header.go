package tui

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// part is a piece of the header.
type part struct {
	text  string
	class class
}

// header says whose session this is and how it is, and how many fallbacks and
// errors it has had: those of rows that have left the screen too.
func (m *model) header() string {
	var parts []part
	services := -1 // the part that is left out first: s shows it
	add := func(s string, c class) { parts = append(parts, part{s, c}) }
	if !m.known {
		add("lane", bold)
		add("connecting", plain)
	} else {
		s := m.status
		add("lane "+m.fixed.text.clean(string(s.Lane), 80), bold)
		switch {
		case m.ended():
			add("SESSION ENDED", badText)
		case m.gone != nil:
			add("SESSION GONE "+age(m.now.Sub(m.goneAt)), badText)
		case s.State == control.SessionDraining:
			add("DRAINING", warnText)
		case s.State == control.SessionStarting:
			add("STARTING", warnText)
		case s.State == control.SessionWaking:
			add("WAKING", warnText)
		}
		if s.Killed != "" {
			add("KILLED", badText)
		}
		if m.list.paused {
			add("PAUSED (view only)", warnText)
		}
		if s.Env != "" && m.width >= envWidth {
			add("env "+m.fixed.text.clean(s.Env, 40), plain)
		}
		services = len(parts)
		begins := s.State == control.SessionStarting
		if len(s.Services) == 0 && begins {
			services = -1 // there are none yet
		} else if len(s.Services) == 0 {
			add("colors calls only", plain)
		} else {
			add(plural(len(s.Services), "service"), plain)
		}
		if m.gone == nil && !(begins && s.Registry.State == registryUnknown) {
			word, c := registryWord(s.Registry, m.now)
			add(word, c)
			if s.Relay != nil {
				add(relayWord(s.Relay, m.now))
			}
		}
		if m.width >= wideWidth {
			if s.Proxy != "" {
				add("proxy "+m.fixed.text.clean(s.Proxy, 80), plain)
			}
			if s.Owner != "" {
				add(m.fixed.text.clean(lane.Holder(s.Owner, s.Host), 80), faint)
			}
		}
	}

	right := append(m.headerRight(false), m.headerFigures()...)
	if leftWidth(parts)+rightWidth(right) > m.width {
		right = m.headerRight(false)
	}
	if services >= 0 && leftWidth(parts)+rightWidth(right) > m.width {
		// The totals stay, the rest gives way.
		right = m.headerRight(true)
		if leftWidth(parts)+rightWidth(right) > m.width {
			parts = append(parts[:services:services], parts[services+1:]...)
		}
	}
	room := m.width - rightWidth(right)
	var b strings.Builder
	used := 1
	b.WriteByte(' ')
	for i, p := range parts {
		sep := ""
		if i > 0 {
			sep = partSep
		}
		left := room - used - len(sep)
		if left < 4 {
			break
		}
		s := cut(p.text, left)
		b.WriteString(sep + m.paint(p.class, s))
		used += len(sep) + ansi.StringWidth(s)
	}
	b.WriteString(strings.Repeat(" ", max(room-used, 0)))
	for _, p := range right {
		b.WriteString("  " + m.paint(p.class, p.text))
	}
	return b.String() + " "
}

const partSep = " | "

// envWidth is from where the header names the environment.
const envWidth = 100

// leftWidth and rightWidth are what the two sides of the header need, with their
// blanks.
func leftWidth(parts []part) int {
	w := 1 - len(partSep)
	for _, p := range parts {
		w += len(partSep) + ansi.StringWidth(p.text)
	}
	return w
}

func rightWidth(parts []part) int {
	w := 1
	for _, p := range parts {
		w += 2 + ansi.StringWidth(p.text)
	}
	return w
}

// headerRight are the session's totals and the rate of now.
func (m *model) headerRight(short bool) []part {
	var out []part
	if m.known {
		out = totalParts(m.status.Counts, short)
	}
	return append(out, part{m.rateWord(), plain})
}

// headerFigures are those of all calls, where the services' stand below the list too.
func (m *model) headerFigures() []part {
	f := &m.graph.all
	if f.n == 0 || !m.known || m.layout().services == 0 {
		return nil
	}
	return []part{{"p95 " + f.quantile(.95) + " ms", plain}, {f.errors() + " failed", plain}}
}

// totalParts are a session's fallbacks, none of them too, and its errors if there
// are any. Errors are those of lane's own: a server error of a service is in the
// list, and is none of the session.
func totalParts(c control.Counts, short bool) []part {
	fb, errs := sum(c.Fallbacks), sum(laneErrors(c))
	fell, failed := pluralOf(fb, "fallback"), pluralOf(errs, "lane error")
	if short {
		fell, failed = count(fb)+" fb", count(errs)+" ERR"
	}
	out := []part{{fell, plain}}
	if fb > 0 {
		out[0].class = warnText
	}
	if errs > 0 {
		out = append(out, part{failed, badText})
	}
	return out
}

// laneErrors are a session's errors by code. That the guard turned a request
// away, as it was told to, has a code and is no error.
func laneErrors(c control.Counts) map[string]uint64 {
	out := make(map[string]uint64, len(c.Errors))
	for code, n := range c.Errors {
		if code != "E_GUARD_REJECTED" {
			out[code] = n
		}
	}
	return out
}

func sum(by map[string]uint64) uint64 {
	var n uint64
	for _, v := range by {
		n += v
	}
	return n
}

func (m *model) rateWord() string {
	r := m.rate.perSecond()
	if r >= 10 || r == 0 {
		return count(uint64(r+0.5)) + " req/s"
	}
	return strconv.FormatFloat(r, 'f', 1, 64) + " req/s"
}
