package tui

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"lane/pkg/control"
	"lane/pkg/lane"
)

// serviceLines are the services, a title first, in n lines; each column is as
// wide as what is in it, within limits.
func (m *model) serviceLines(n int) []string {
	most := [...]int{24, 22, 18, 36, 6, 6, 6, 60}
	rows := [][len(most)]string{{"SERVICE", "LOCAL", "STATE", "EXPOSED VIA", "  IN/s", " OUT/s", "   ERR", "FALLBACKS (last " + m.graphWindow() + ")"}}
	looks := []class{faint}
	t, services := m.fixed.text, m.status.Services
	for _, s := range services[:min(len(services), n-1)] {
		word, c := stateWord(s, t)
		f := m.graph.in(s.Name)
		out := m.graph.out(s.Name)
		rows = append(rows, [...]string{t.clean(s.Name, 200), t.clean(s.Local, 200), word, t.clean(m.exposedVia(&s), 200),
			fitLeft(f.perSecond(m.graph.span()), 6), fitLeft(out.perSecond(m.graph.span()), 6), fitLeft(f.errors(), 6),
			t.clean(m.consequence(&s), 200)})
		looks = append(looks, c)
	}
	var widths [len(most)]int
	for _, r := range rows {
		for i, v := range r {
			widths[i] = max(widths[i], min(ansi.StringWidth(v), most[i]))
		}
	}
	var out []string
	for i, r := range rows {
		var b strings.Builder
		for j, v := range r {
			b.WriteString(" " + fit(v, widths[j]) + " ")
		}
		out = append(out, m.paint(looks[i], cut(strings.TrimRight(b.String(), " "), m.width)))
	}
	if more := len(services) - (n - 1); more > 0 {
		out[n-1] = " and " + plural(more+1, "more service") + ": S shows all"
	}
	return out
}

// graphWindow is the time that the figures below the list are of, in short.
func (m *model) graphWindow() string {
	if m.graph.n == 0 {
		return lasted(graphSpan)
	}
	return lasted(m.graph.span().long)
}

// exposedVia is the way by which callers come to a service, and under which name they find
// it if that is not its own.
func (m *model) exposedVia(v *control.Service) string {
	other := v.Registered != "" && v.Registered != v.Name
	s := "direct"
	if !other {
		s += " " + v.Guard
	}
	if r := m.status.Relay; r != nil {
		s = "relay " + hostOf(r.Name)
		if r.Name == "" {
			s = "relay " + strings.TrimPrefix(r.URL, "wss://")
		}
	}
	if other {
		s += " as " + v.Registered
	}
	return s
}

// consequence is what a service's state means for those who call it, or else where its own
// calls fell back.
func (m *model) consequence(v *control.Service) string {
	back := m.graph.fallsBack(v.Name)
	if v.State == control.StateLocalClosed {
		back = strings.TrimSuffix("its lane callers get errors; "+back, "; ")
	}
	return back
}

// servicesText is the session in full: what it exposes and where, what it has
// counted, and where its own ends are.
func (m *model) servicesText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	if !m.known {
		p.put(0, "The session has not answered yet.", plain)
		return p.lines
	}
	s := m.status
	if m.gone != nil {
		why := "the session does not answer."
		if m.ended() {
			why = "the session has ended."
		}
		p.put(0, "As it was "+age(m.now.Sub(m.goneAt))+" ago: "+why, badText)
		p.blank()
	}
	for _, v := range s.Services {
		word, c := stateWord(v, p.t)
		if c == plain {
			c = bold
		}
		p.put(0, v.Name+": "+word+note(v.Note, p.t), c)
		p.field("Local", v.Local, plain)
		p.field("Guard", v.Guard, plain)
		p.field("Registry", registered(v), plain)
		p.field("Claim", m.claimWord(&v), classOfClaim(v.Claim))
		if f := m.graph.in(v.Name); f.n > 0 {
			p.field("Traffic", f.perSecond(m.graph.span())+" requests/s in the lane, "+f.errors()+" failed, p50 "+f.quantile(.5)+" ms, p95 "+f.quantile(.95)+" ms, in "+m.spanWord(), plain)
		} else {
			p.field("Traffic", "none in the lane in the last 5 minutes", plain)
		}
		if back := m.graph.fallsBack(v.Name); back != "" {
			p.field("Its calls", "fell back to the baseline at "+back, warnText)
		}
		p.blank()
	}
	if len(s.Services) == 0 {
		p.put(0, "No service: this session colors outgoing calls only.", bold)
		p.blank()
	}

	n := s.Counts
	p.put(0, "Session, "+age(m.now.Sub(s.Started))+" since "+s.Started.In(m.fixed.loc).Format("2006-01-02 15:04:05"), bold)
	p.field("Requests", count(n.Exchanges)+", "+count(n.Matched)+" routed to the lane, "+count(n.External)+" to other hosts", plain)
	p.field("Fallbacks", breakdown(n.Fallbacks), classIf(n.Fallbacks, warnText))
	if n.Killed > 0 {
		p.field("Killed", pluralOf(n.Killed, "request")+" under a kill switch (no fallbacks, counted by themselves)", warnText)
	}
	p.field("Errors", breakdown(laneErrors(n))+" (lane's own; 5xx of services are not counted)", classIf(laneErrors(n), badText))
	if len(s.Services) > 0 {
		p.field("At guard", breakdown(n.Guard), plain)
	}
	if r := s.Relay; r != nil {
		word, c := relayWord(r, m.now)
		at := r.URL
		if r.Name != "" {
			at += " (" + r.Name + ")"
		}
		p.field("Relay", at+", "+strings.TrimPrefix(word, "relay ")+note(r.Error, p.t), c)
	}
	if s.Owner != "" {
		p.field("Owner", lane.Holder(s.Owner, s.Host)+", process "+strconv.Itoa(s.PID), plain)
	}
	p.field("Env", s.Env, plain)
	word, c := registryWord(s.Registry, m.now)
	word = strings.TrimPrefix(word, "consul ")
	if n := s.Registry.Index; n > 0 {
		word += ", index " + strconv.FormatUint(n, 10)
	}
	p.field("Consul", s.Registry.Address+", "+word+note(s.Registry.Error, p.t), c)
	p.field("Proxy", s.Proxy, plain)
	p.field("Command", s.Child, plain)
	p.field("Log", s.Log, plain)
	for _, warning := range s.Warnings {
		p.put(0, "! "+warning, warnText)
	}
	return p.lines
}

// claimWord says who holds a service in this lane, and since when.
func (m *model) claimWord(v *control.Service) string {
	c := v.Claim
	if c == nil {
		return ""
	}
	since := ""
	if c.Since != "" {
		since = " since " + claimTime(c.Since, m.now, m.fixed.loc)
	}
	switch c.State {
	case control.ClaimHeld:
		if m.ended() {
			return "was held by this session" + since + ", until its end"
		}
		s := "held by this session" + since
		if c.Relay != "" {
			s = "held for this session by the relay" + since
		}
		if c.From != "" {
			s += ", taken over from " + c.From
		}
		return s
	case control.ClaimJoined:
		if m.ended() {
			return "held by " + c.Holder + since
		}
		return "held by " + c.Holder + since + "; this session stands beside them"
	case control.ClaimLost:
		return "lost: callers do not find it here any more"
	}
	return strings.TrimSpace(c.State + " " + c.Holder + since)
}

func classOfClaim(c *control.Claim) class {
	if c != nil && c.State == control.ClaimLost {
		return badText
	}
	return plain
}

// claimTime is a claim's time as its holder's own clock had it, with the date only if
// that is another one.
func claimTime(s string, now time.Time, loc *time.Location) string {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return s
	}
	return clock(at, now, loc)
}

// registered says under which name a service is in the registry, and who finds
// it there.
func registered(v control.Service) string {
	switch {
	case v.Registered == "":
		return ""
	case v.Mode == "shared":
		return v.Registered + " (shared: all callers find it)"
	case v.Mode == "isolated":
		return v.Registered + " (isolated: only lane-aware callers find it)"
	case v.Mode == "":
		return v.Registered
	}
	return v.Registered + " (" + v.Mode + ")"
}

// mostFirst are the names of numbers, that of the largest first.
func mostFirst(by map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(by), func(a, b string) int {
		return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b))
	})
}

// breakdown is a total and its parts, the largest first: 3: a 2, b 1.
func breakdown(by map[string]uint64) string {
	var parts []string
	for _, k := range mostFirst(by) {
		if by[k] > 0 {
			parts = append(parts, k+" "+count(by[k]))
		}
	}
	out := count(sum(by))
	if len(parts) > 0 {
		out += ": " + strings.Join(parts, ", ")
	}
	return out
}

func classIf(by map[string]uint64, c class) class {
	if sum(by) > 0 {
		return c
	}
	return plain
}
