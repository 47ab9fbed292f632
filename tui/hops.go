package tui

import (
	"slices"

	"lane/pkg/traffic"
)

// hop is one call of a trace in words.
type hop struct {
	mark                 rune
	from, to, at         string // caller and callee; that it is the guard's
	route, status, ms, d string // d is when it began, from the first one
	this                 bool   // the exchange that is open
}

// hopsOf are the exchanges of a trace in the order in which they began.
func hopsOf(all []*traffic.Exchange, open uint64, t text) []hop {
	slices.SortStableFunc(all, func(a, b *traffic.Exchange) int { return a.Start.Compare(b.Start) })
	visits := map[string][]visit{}
	for _, x := range all {
		if x.Guard == traffic.GuardPassed {
			visits[x.TraceID] = append(visits[x.TraceID], visit{x.Service, x.Start, x.Start.Add(x.Took)})
		}
	}
	var out []hop
	for _, x := range all {
		h := hop{mark: traffic.Mark(x), from: t.clean(caller(x, visits), 100), to: t.clean(callee(x), 100), route: traffic.Route(x),
			status: statusWord(x), ms: millis(x.Took), d: "+" + span(x.Start.Sub(all[0].Start)), this: x.Seq == open}
		if x.Front == traffic.FrontGuard {
			h.at = " (at the guard)"
		}
		out = append(out, h)
	}
	return out
}

// hopForm is what a hop's line has beside who called whom, its route and its time.
type hopForm struct{ at, status, began bool }

// hopForms are tried one after the other until one has room for every name: who called
// whom is what the lines are for.
var hopForms = []hopForm{{at: true, status: true, began: true}, {at: true, status: true}, {status: true}, {}}

func (h *hop) names(f hopForm) string {
	s := h.from + " -> " + h.to
	if f.at {
		s += h.at
	}
	return s
}

// namesWithin are both names in w columns: where there is no room for all, each has half of it.
func (h *hop) namesWithin(f hopForm, w int) string {
	s := h.names(f)
	if wide(s) <= w || w < 10 {
		return fit(s, w)
	}
	half := (w - len(" -> ")) / 2
	from := cut(h.from, max(half, w-len(" -> ")-wide(h.to)))
	return fit(from+" -> "+h.to, w)
}

// tail is a hop's line behind the names.
func (h *hop) tail(f hopForm) string {
	s := "  " + fit(h.route, 7)
	if f.status {
		s += fitLeft(h.status, 4)
	}
	s += fitLeft(h.ms, 6) + " ms"
	if f.began {
		s += "  " + fitLeft(h.d, 8)
	}
	return s
}

// hopLines are hops in at most w columns; the open one has the list's bar, and is named
// where there is room.
func hopLines(hops []hop, w int) []cell {
	var form hopForm
	names, room := 0, 0
	for _, form = range hopForms {
		names = 0
		for i := range hops {
			names = max(names, wide(hops[i].names(form)))
		}
		room = w - markWidth - wide((&hop{}).tail(form))
		if names <= room {
			break
		}
	}
	var out []cell
	for i := range hops {
		h := &hops[i]
		bar, c := " ", plain
		if h.this {
			bar = "|"
		}
		if h.mark != traffic.MarkNone {
			c = markClass(h.mark)
		}
		s := string(h.mark) + bar + h.namesWithin(form, min(names, max(room, 1))) + h.tail(form)
		if here := "  <- this one"; h.this && wide(s)+len(here) <= w {
			s += here
		}
		out = append(out, cell{cut(s, w), c})
	}
	return out
}
