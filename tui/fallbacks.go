package tui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// fell is one reason for which one service's requests of a lane were served by
// the baseline: how many, since when, and whether it goes on. A kill switch is one
// too, though nobody counts that as a fallback.
type fell struct {
	service string
	lane    lane.Name
	reason  lane.Reason

	n      uint64
	failed uint64 // of those: the baseline's answer was none, or an error
	since  time.Time
	last   time.Time
	// ended is when the lane served the service itself again; zero while it did
	// not.
	ended     time.Time
	killed    bool // a kill switch sent them there: they are no fallbacks, and stand apart
	why       string
	what, run string            // what would end it
	of        *traffic.Exchange // the words are still to be made of it
}

// fallbacks is the pane of fallbacks. It counts every exchange that has come, those
// that have left the ring too, and those that never were rows. It is bounded:
// services and lanes are words of others.
type fallbacks struct {
	all  []fell // in the order in which they began
	more uint64 // requests beyond the bound
}

const fallbacksMost = 200

// add counts a batch in: what came before its rows, and these. Each end is shown only
// until it falls back again.
func (f fallbacks) add(left []traffic.Tally, rows []traffic.Exchange) fallbacks {
	f.all = slices.Clone(f.all)
	for i := range left {
		f.one(left[i])
	}
	for i := range rows {
		e := &rows[i]
		t := traffic.Tally{N: 1, First: e.Start, Last: e}
		if e.Failed() {
			t.Failed = 1
		}
		f.one(t)
	}
	for i := range f.all { // once for each: words cost more than counting
		if x := &f.all[i]; x.of != nil {
			x.why = traffic.Why(x.of)
			x.what, x.run = traffic.EndsWhen(x.of)
			x.of = nil
		}
	}
	return f
}

func (f *fallbacks) one(t traffic.Tally) {
	if r := traffic.Route(t.Last); r == traffic.RouteLane && t.Last.Guard == "" {
		f.end(t.Last)
	} else if r == traffic.RouteFallback || r == traffic.RouteKilled {
		f.count(t)
	}
}

func (f *fallbacks) count(t traffic.Tally) {
	e := t.Last
	i := slices.IndexFunc(f.all, func(x fell) bool {
		return x.service == e.Service && x.lane == e.Lane && x.reason == e.Reason
	})
	if i < 0 {
		if len(f.all) == fallbacksMost {
			f.more += t.N
			return
		}
		// The words stay for as long as the screen: they must not keep what they came with.
		x := fell{service: strings.Clone(e.Service), lane: lane.Name(strings.Clone(string(e.Lane))), reason: lane.Reason(strings.Clone(string(e.Reason))), killed: traffic.Route(e) == traffic.RouteKilled, since: t.First}
		f.all = append(f.all, x)
		i = len(f.all) - 1
	}
	x := &f.all[i]
	if !x.ended.IsZero() && e.Start.After(x.ended) {
		x.since, x.ended, x.n, x.failed = e.Start, time.Time{}, 0, 0
	}
	x.n += t.N
	x.failed += t.Failed
	if t.First.Before(x.since) {
		x.since = t.First
	}
	if e.Start.After(x.last) {
		x.last = e.Start
	}
	x.of = e
}

// end notes that the lane has served a service.
func (f *fallbacks) end(e *traffic.Exchange) {
	for i := range f.all {
		x := &f.all[i]
		if x.service == e.Service && x.lane == e.Lane && x.ended.IsZero() && e.Start.After(x.last) && whole(x.reason) {
			x.ended = e.Start
		}
	}
}

// whole says that a reason holds for all requests of a service and lane: one
// that the lane serves ends it. A share of the requests, and a tag that is not
// valid, go on beside it.
func whole(r lane.Reason) bool {
	return r != lane.ReasonProportional && r != lane.ReasonTagInvalidDropped
}

// fallbacksText is the pane in lines of at most w columns: those that go on
// first, the most frequent before the others.
func (m *model) fallbacksText(w int) []cell {
	p := &page{t: m.fixed.text, w: w}
	all := slices.Clone(m.fell.all)
	slices.SortStableFunc(all, func(a, b fell) int {
		if a.ended.IsZero() != b.ended.IsZero() {
			if a.ended.IsZero() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.service, b.service), a.since.Compare(b.since))
	})
	nameW := 7
	for i := range all {
		nameW = max(nameW, min(len(p.t.clean(all[i].service, 200)), 30))
	}
	killed := slices.DeleteFunc(slices.Clone(all), func(x fell) bool { return !x.killed })
	all = slices.DeleteFunc(all, func(x fell) bool { return x.killed })
	titles := "  " + fit("SERVICE", nameW) + "   COUNT  FAILED  SINCE        LAST"
	switch {
	case len(all) > 0:
		p.lines = append(p.lines, cell{titles, faint})
		m.fellLines(p, all, nameW)
	case len(killed) > 0:
		p.put(0, "No fallbacks: every tagged request that was seen was served in its lane, was sent to the baseline by a kill switch, or is an error of its own.", bold)
		p.blank()
	default:
		p.put(0, "No fallbacks: every tagged request that was seen was served in its lane, or is an error of its own.", bold)
		p.blank()
	}
	if len(killed) > 0 {
		p.put(0, "UNDER A KILL SWITCH: no fallbacks, counted by themselves", bold)
		p.lines = append(p.lines, cell{titles, faint})
		m.fellLines(p, killed, nameW)
	}
	if m.fell.more > 0 {
		p.put(0, "and "+pluralOf(m.fell.more, "request")+" of further services and lanes", warnText)
	}
	m.fallbacksEnd(p)
	return p.lines
}

func (m *model) fellLines(p *page, all []fell, nameW int) {
	for i := range all {
		m.fellOne(p, &all[i], nameW)
	}
}

func (m *model) fellOne(p *page, x *fell, nameW int) {
	failed := "-"
	if x.failed > 0 {
		failed = count(x.failed)
	}
	mark, c := "> ", warnText
	switch {
	case x.killed:
		mark = "  "
	case !x.ended.IsZero():
		mark, c = "  ", plain
	}
	p.lines = append(p.lines, cell{cut(mark+fit(p.t.clean(x.service, 200), nameW)+" "+fitLeft(count(x.n), 7)+" "+fitLeft(failed, 7)+
		"  "+fit(clock(x.since, m.now, m.fixed.loc), 11)+"  "+clock(x.last, m.now, m.fixed.loc), p.w), c})
	say := func(label, s string, c class) {
		for i, l := range wrap(p.t.clean(s, p.most()), p.w-10, 2) {
			if i > 0 {
				label = ""
			}
			p.lines = append(p.lines, cell{"    " + fit(label, 6) + l, c})
		}
	}
	say("why", x.why, plain)
	if !x.ended.IsZero() {
		say("over", "the lane has served it since "+clock(x.ended, m.now, m.fixed.loc), plain)
		p.blank()
		return
	}
	say("ends", x.what, plain)
	if x.run != "" && m.fixed.commands {
		say("run", x.run, bold)
	}
	p.blank()
}

// fallbacksEnd says what counts, and what the session itself has counted, which
// may be older than what is seen here.
func (m *model) fallbacksEnd(p *page) {
	if m.known {
		p.put(0, "The session since its start: "+breakdown(m.status.Counts.Fallbacks)+".", plain)
		if n := m.status.Counts.Killed; n > 0 {
			p.put(0, "Under a kill switch: "+count(n)+", which are none of these.", plain)
		}
	}
	p.put(0, "A fallback is a request with a lane's tag that the baseline served. BASE is none: it asked for no lane.", faint)
	switch {
	case m.list.cleared():
		p.put(0, "The list was cleared: none of them is in it any more.", faint)
	case m.fixed.commands:
		p.put(0, "In the list: /route:fb shows those it still has; n and N go to the next.", faint)
	}
}

// clock is a time of day; with the date where that is another one than now's.
func clock(t, now time.Time, loc *time.Location) string {
	if t.IsZero() {
		return "-"
	}
	t, now = t.In(loc), now.In(loc)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("2 Jan 15:04")
	}
	return t.Format("15:04:05")
}
