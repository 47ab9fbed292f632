package tui

import (
	"maps"
	"slices"
	"sort"

	"lane/pkg/traffic"
)

// ringSize is how many exchanges the list keeps.
const ringSize = 5000

// list is the pane of exchanges: a bounded ring, the positions in it that the
// filter chooses, and a window on those.
//
//	add --> [ring] --filter--> shown [.....top [visible] .....cur.....]
//	   \--> waiting, while paused
type list struct {
	ring   []traffic.Exchange // the row at position p is ring[p%ringSize]; grows up to that
	next   uint64             // position of the next row; the oldest is next-n
	n      int                // rows in the ring
	filter traffic.Filter
	order  order
	shown  []uint64 // positions that the filter chooses, oldest first or in another order

	// names is how wide the widest name so far is, whatever the filter chooses.
	// It only grows: a column that followed what is visible would jump.
	names int
	text  text

	cur    int // selected, in shown
	top    int // first visible, in shown
	height int // visible rows
	follow bool

	// before is the position that was selected when the filter was set, and moved says
	// that the user has gone elsewhere since.
	before uint64
	moved  bool

	// marked are rows that the user marked, by their Seq.
	marked map[uint64]bool

	paused  bool
	waiting []traffic.Exchange // came while paused
	arrived uint64             // rows that came while paused, those that are gone too
}

func newList(t text) list {
	return list{follow: true, text: t}
}

// add takes rows in; while paused they wait, so that what is on the screen stays.
func (l list) add(rows []traffic.Exchange) list {
	for i := range rows {
		rows[i].ReqBody, rows[i].ResBody = nil, nil // the session bounds those, not this ring
	}
	if l.paused {
		l.arrived += uint64(len(rows))
		l.waiting = append(l.waiting, rows...)
		if over := len(l.waiting) - ringSize; over > 0 {
			l.waiting = append([]traffic.Exchange(nil), l.waiting[over:]...)
		}
		return l
	}
	keep := l.place()
	for i := range rows {
		if len(l.ring) < ringSize {
			l.ring = append(l.ring, rows[i])
		} else {
			l.ring[l.next%ringSize] = rows[i]
		}
		if l.names < svcMost {
			l.names = max(l.names, nameWidth(&rows[i], l.text))
		}
		if l.filter.Match(&rows[i]) {
			l.shown = append(l.shown, l.next)
		}
		l.next++
		l.n = min(l.n+1, ringSize)
	}
	oldest := l.next - uint64(l.n)
	if l.order != byTime {
		return l.reordered(keep, oldest)
	}
	gone := 0
	for ; gone < len(l.shown) && l.shown[gone] < oldest; gone++ {
	}
	l.shown = l.shown[gone:]
	l.cur, l.top = l.cur-gone, l.top-gone
	return l.settle()
}

// reordered sorts rows in that came, without those older than oldest; the cursor stays
// on the row at position keep, at the same height, unless it stands on the first one:
// there the order itself is what is watched.
func (l list) reordered(keep, oldest uint64) list {
	l.shown = slices.DeleteFunc(slices.Clone(l.shown), func(p uint64) bool { return p < oldest })
	l = l.sort()
	if l.cur > 0 {
		if at := slices.Index(l.shown, keep); at >= 0 {
			l.cur, l.top = at, l.top+at-l.cur
		}
	}
	return l.settle()
}

// settle puts the cursor on a row and the window around the cursor.
func (l list) settle() list {
	last := len(l.shown) - 1
	if l.follow {
		l.cur = last
	}
	l.cur = max(min(l.cur, last), 0)
	l.top = min(l.top, l.cur, max(last-l.height+1, 0))
	l.top = max(l.top, l.cur-l.height+1, 0)
	return l
}

func (l list) resize(height int) list {
	l.height = max(height, 1)
	return l.settle()
}

// at is the row at index i of shown.
func (l *list) at(i int) *traffic.Exchange { return &l.ring[l.shown[i]%ringSize] }

// selected is the row under the cursor, nil if there is none.
func (l *list) selected() *traffic.Exchange {
	if len(l.shown) == 0 {
		return nil
	}
	return l.at(l.cur)
}

// place is the position of the selected row in the ring.
func (l *list) place() uint64 {
	if len(l.shown) == 0 {
		return 0
	}
	return l.shown[l.cur]
}

// origin is the position to go back to when the filter ends: the one at which it was
// set, unless the user has gone to another one since.
func (l *list) origin() uint64 {
	if l.filter.Empty() || l.moved || l.follow {
		return l.place()
	}
	return l.before
}

// choose sets the filter; the cursor goes to the row at position keep, or to the
// next one that the filter leaves.
func (l list) choose(f traffic.Filter, keep uint64) list {
	l.filter, l.before, l.moved = f, keep, false
	l.shown = nil
	for p := l.next - uint64(l.n); p < l.next; p++ {
		if f.Match(&l.ring[p%ringSize]) {
			l.shown = append(l.shown, p)
		}
	}
	if l.order != byTime {
		l = l.sort()
		l.cur = max(slices.Index(l.shown, keep), 0)
		return l.settle()
	}
	l.cur = sort.Search(len(l.shown), func(i int) bool { return l.shown[i] >= keep })
	return l.settle()
}

// move moves the cursor. Going up ends following; going down never starts it,
// so that a row that is read does not run away.
func (l list) move(by int) list {
	if len(l.shown) == 0 {
		return l // nowhere to go, and what comes next is as welcome as before
	}
	if by < 0 {
		l.follow = false
	}
	l.cur += by
	l.moved = true
	return l.settle()
}

// newest goes to the end and follows; a paused list goes on, and one in another order
// only goes to its end.
func (l list) newest() list {
	l = l.resume()
	l.follow = l.order == byTime
	l.cur = len(l.shown) - 1
	l.moved = l.moved || len(l.shown) > 0
	return l.settle()
}

// stay ends following at the row on which the cursor stands.
func (l list) stay() list {
	l.follow, l.moved = false, true
	return l
}

// problem goes to the next (by = 1) or previous (-1) error or fallback, and
// reports whether there is one.
func (l list) problem(by int) (list, bool) {
	for i := l.cur + by; i >= 0 && i < len(l.shown); i += by {
		if m := traffic.Mark(l.at(i)); m == traffic.MarkError || m == traffic.MarkFallback {
			l.cur, l.follow, l.moved = i, false, true
			return l.settle(), true
		}
	}
	return l, false
}

func (l list) pause() list {
	l.paused, l.waiting, l.arrived = true, nil, 0
	return l
}

func (l list) resume() list {
	rows := l.waiting
	l.paused, l.waiting, l.arrived = false, nil, 0
	return l.add(rows)
}

// rows goes through all rows, oldest first.
func (l *list) rows(yield func(*traffic.Exchange) bool) {
	for p := l.next - uint64(l.n); p < l.next; p++ {
		if !yield(&l.ring[p%ringSize]) {
			return
		}
	}
}

// mark marks a row, or unmarks it. The map is copied: an export may read it.
func (l list) mark(seq uint64) list {
	marked := maps.Clone(l.marked)
	if marked == nil {
		marked = map[uint64]bool{}
	}
	if marked[seq] {
		delete(marked, seq)
	} else if len(marked) < ringSize {
		marked[seq] = true
	}
	l.marked = marked
	return l
}

// forget lets all rows go that are here: their numbers go on.
func (l list) forget() list {
	l.n, l.shown, l.cur, l.top, l.marked, l.follow = 0, nil, 0, 0, nil, l.order == byTime
	l.waiting, l.arrived = nil, 0
	return l.settle()
}

// cleared says that there are no rows because the user has let them go.
func (l *list) cleared() bool { return l.n == 0 && l.next > 0 }

// clear forgets all rows and keeps the settings.
func (l list) clear() list {
	l.names, l.marked = 0, nil
	l.ring, l.next, l.n, l.shown, l.waiting, l.arrived, l.cur, l.top = nil, 0, 0, nil, nil, 0, 0, 0
	return l
}
