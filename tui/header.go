package tui

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// part is a piece of the header.
type part struct {
	text  string
	class class
}

// extra is something that the header says where there is room for it.
type extra uint8

const (
	extraOwner extra = iota
	extraServices
	extraPaused // that the list alone is
	extraTotals // in words
	extraIndex
	extraUptime
	extraProxy
	extraFigures
	extraRelay // its name
)

// extras are those of this screen; the first ones give way first.
func (m *model) extras() []extra {
	switch {
	case m.width < wideWidth: // S shows the services
		return []extra{extraTotals, extraServices, extraPaused}
	case m.layout().services == 0:
		return []extra{extraOwner, extraTotals, extraIndex, extraUptime, extraProxy, extraRelay, extraPaused, extraServices}
	}
	return []extra{extraOwner, extraServices, extraTotals, extraIndex, extraUptime, extraProxy, extraFigures, extraRelay, extraPaused}
}

// header says whose session this is and how it is, and how many fallbacks and
// errors it has had: those of rows that have left the screen too.
func (m *model) header() string {
	say := m.extras()
	left, right := m.headerLeft(say), m.headerRight(say)
	for len(say) > 0 && leftWidth(left)+rightWidth(right) > m.width {
		say = say[1:]
		left, right = m.headerLeft(say), m.headerRight(say)
	}
	room := m.width - rightWidth(right)
	var b strings.Builder
	used := 1
	b.WriteByte(' ')
	for i, p := range left {
		sep := ""
		if i > 0 {
			sep = partSep
		}
		free := room - used - len(sep)
		if free < 4 {
			break
		}
		s := cut(p.text, free)
		b.WriteString(sep + m.paint(p.class, s))
		used += len(sep) + ansi.StringWidth(s)
	}
	b.WriteString(strings.Repeat(" ", max(room-used, 0)))
	for _, p := range right {
		b.WriteString("  " + m.paint(p.class, p.text))
	}
	return b.String() + " "
}

// headerLeft is whose session this is, and how it is.
func (m *model) headerLeft(say []extra) []part {
	if !m.known {
		return []part{{"lane", bold}, {"connecting", plain}}
	}
	var parts []part
	add := func(s string, c class) { parts = append(parts, part{s, c}) }
	s, t := m.status, m.fixed.text
	add("lane "+t.clean(string(s.Lane), 80), bold)
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
		word := "PAUSED"
		if slices.Contains(say, extraPaused) {
			word += " (view only)"
		}
		add(word, warnText)
	}
	if s.Env != "" && m.width >= envWidth {
		add("env "+t.clean(s.Env, 40), plain)
	}
	begins := s.State == control.SessionStarting
	switch {
	case len(s.Services) == 0 && begins: // there are none yet
	case !slices.Contains(say, extraServices):
	case len(s.Services) == 0:
		add("colors calls only", plain)
	default:
		add(plural(len(s.Services), "service"), plain)
	}
	if m.gone == nil && !(begins && s.Registry.State == registryUnknown) {
		if s.Relay != nil {
			add(m.relayPart(say))
		}
		word, c := registryWord(s.Registry, m.now)
		if s.Registry.Index > 0 && s.Registry.State == registryFresh && slices.Contains(say, extraIndex) {
			word += " idx " + strconv.FormatUint(s.Registry.Index, 10)
		}
		add(word, c)
	}
	if s.Proxy != "" && slices.Contains(say, extraProxy) {
		add("proxy "+t.clean(strings.TrimPrefix(s.Proxy, "http://"), 80), plain)
	}
	if s.Owner != "" && slices.Contains(say, extraOwner) {
		add(t.clean(lane.Holder(s.Owner, s.Host), 80), faint)
	}
	return parts
}

// relayPart is the tunnel: its relay's name, how it is, and for how long it has stood.
func (m *model) relayPart(say []extra) (string, class) {
	r := m.status.Relay
	word, c := relayWord(r, m.now)
	if r.Name != "" && slices.Contains(say, extraRelay) {
		word = "relay " + m.fixed.text.clean(hostOf(r.Name), 40) + strings.TrimPrefix(word, "relay")
	}
	if r.State == control.RelayOK && !r.Since.IsZero() && slices.Contains(say, extraUptime) {
		word += " up " + hours(m.now.Sub(r.Since))
	}
	return word, c
}

// hostOf is a name without its port: all of it, if it has none.
func hostOf(name string) string {
	if host, _, err := net.SplitHostPort(name); err == nil {
		return host
	}
	return name
}

// hours is a time that runs: 01:12:40.
func hours(d time.Duration) string {
	n := int(max(d, 0) / time.Second)
	return fmt.Sprintf("%02d:%02d:%02d", n/3600, n/60%60, n%60)
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

// headerRight are the session's totals and the rate of now, and the figures of all
// calls where the services' stand below the list too.
func (m *model) headerRight(say []extra) []part {
	var out []part
	if m.known {
		out = totalParts(m.status.Counts, !slices.Contains(say, extraTotals))
	}
	out = append(out, part{m.rateWord(), plain})
	if f := &m.graph.all; f.n > 0 && m.known && slices.Contains(say, extraFigures) {
		p95 := f.quantile(.95)
		if !strings.HasSuffix(p95, "s") {
			p95 += "ms"
		}
		out = append(out, part{"p95 " + p95, plain}, part{"err " + f.errors(), plain})
	}
	return out
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
		return count(uint64(r+0.5)) + " rows/s"
	}
	return strconv.FormatFloat(r, 'f', 1, 64) + " rows/s"
}
