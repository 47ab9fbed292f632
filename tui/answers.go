package tui

import (
	"strings"

	"lane/pkg/compare"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// answers is the pane of two answers to one request: the old one and that of a
// replay, or those of baseline and lane.
type answers struct {
	of    traffic.Exchange
	names [2]string
	both  [2]Answer
	sides bool // baseline and lane
}

// answersText is the pane in lines of at most w columns.
func (m *model) answersText(w int) []cell {
	a := &m.answers
	p := &page{t: m.fixed.text, w: w}
	what := "SENT AGAIN"
	if a.sides {
		what = "LANE AGAINST BASELINE"
	}
	p.put(0, what+"  "+a.of.Method+" "+traffic.MaskURL(traffic.AskedURL(&a.of)), bold)
	p.blank()
	const label = 10
	half := max((w-label-1)/2, 4)
	line := func(name, x, y string, c class) {
		x, y = p.t.clean(x, p.most()), p.t.clean(y, p.most())
		if x != y && c == plain {
			c = bold
		}
		p.lines = append(p.lines, cell{fit(name, label) + fit(x, half) + " " + cut(y, half), c})
	}
	old, now := &a.both[0], &a.both[1]
	line("", a.names[0], a.names[1], faint)
	line("Status", statusOf(old), statusOf(now), plain)
	x, xAt := decisionWord(old.Decision)
	y, yAt := decisionWord(now.Decision)
	line("Decision", x, y, plain)
	line("Instance", xAt, yAt, plain)
	line("Time", span(old.Took), span(now.Took), faint)
	line("Body", bodyWord(old), bodyWord(now), plain)
	p.blank()
	was, is := plainAnswer(old), plainAnswer(now)
	diff := compare.Diff(was, is, compare.Ignored())
	if a.sides && byBaseline(now) {
		p.put(0, "The lane did not serve it: the baseline was compared with itself"+behind(now)+".", warnText)
	}
	if len(diff) == 0 {
		same := "No difference in status, headers and body."
		if was.NoBody || is.NoBody {
			same = "No difference in status and headers; the bodies were not compared: the old one was not kept (lane up --bodies)."
		}
		p.put(0, same, bold)
	} else {
		p.put(0, plural(len(diff), "difference")+":", bold)
		for _, d := range diff {
			where := d.Where
			if d.ByIndex { // too many items are equal to find what was inserted
				where += " (by index)"
			}
			p.put(0, where, warnText)
			was, is := traffic.MaskBoth(d.Where, d.Old, d.New)
			if was != "" {
				p.put(2, "- "+was, plain)
			}
			if is != "" {
				p.put(2, "+ "+is, plain)
			}
		}
		if was.NoBody || is.NoBody {
			p.put(0, "The bodies were not compared: the old one was not kept (lane up --bodies).", faint)
		}
	}
	p.blank()
	p.put(0, "Not compared: "+strings.Join(compare.Ignored(), ", ")+".", faint)
	return p.lines
}

// byBaseline says that an answer to a request of the lane is none of the lane's; lane's own
// errors are nobody's.
func byBaseline(a *Answer) bool {
	kind, _, _ := strings.Cut(a.Decision, ";")
	return a.Err == "" && firstOf(a.Header, lane.HeaderError) == "" && kind != string(lane.KindLaneMatch) && kind != ""
}

// behind is where the lane may have served all the same: after a fallback the tag goes on.
func behind(a *Answer) string {
	if strings.HasPrefix(a.Decision, string(lane.KindFallback)) {
		return ", unless a service behind it is in the lane"
	}
	return ""
}

// plainAnswer is an answer with its body as it was before it was compressed. JSON is
// masked where it differs, by the path to that; in another text a name may stand far
// from what it names, so that all of it is masked.
func plainAnswer(a *Answer) compare.Answer {
	out := a.Answer
	if !out.NoBody {
		out.Body, out.Shown = traffic.Comparable(traffic.HeadOf(out.Header), out.Body)
	}
	return out
}

func firstOf(h map[string][]string, name string) string {
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

func statusOf(a *Answer) string {
	if a.Err != "" {
		return a.Err
	}
	s := traffic.Exchange{Status: a.Status, Code: lane.Code(firstOf(a.Header, lane.HeaderError))}
	return traffic.Outcome(&s)
}

// decisionWord is an X-Lane-Decision in short: what was decided, and why; and the
// instance.
func decisionWord(d string) (what, instance string) {
	parts := strings.Split(d, "; ")
	what = parts[0]
	for _, p := range parts[1:] {
		if reason, ok := strings.CutPrefix(p, "reason="); ok {
			what += ", " + reason
		} else if at, ok := strings.CutPrefix(p, "instance="); ok {
			instance = at
		}
	}
	return what, instance
}

func bodyWord(a *Answer) string {
	if a.NoBody {
		return "not kept"
	}
	return size(int64(len(a.Body)))
}
