package tui

import (
	"cmp"
	"slices"
	"strings"

	"lane/pkg/traffic"
)

// order is how the list is sorted.
type order uint8

const (
	byTime order = iota // as they came, the newest last
	bySlow              // the rest: what asks to be looked at comes first
	byStatus
	byService
	bySize
	orders
)

func (o order) String() string {
	return [...]string{"time", "slowest first", "worst status first", "service", "largest first"}[o]
}

// compare says which of two exchanges stands above the other.
func (o order) compare(a, b *traffic.Exchange) int {
	switch o {
	case bySlow:
		return cmp.Compare(b.Took, a.Took)
	case byStatus:
		return cmp.Compare(badness(b), badness(a))
	case byService:
		return strings.Compare(serviceWord(a), serviceWord(b))
	case bySize:
		return cmp.Compare(b.ReqSize+b.ResSize, a.ReqSize+a.ResSize)
	}
	return 0
}

// badness is a status, above all others for what had none.
func badness(e *traffic.Exchange) int {
	if e.Status == 0 {
		return 1000
	}
	return e.Status
}

// sort puts what is shown into the list's order. What is equal stays as it came, the
// newest above.
func (l list) sort() list {
	if l.order == byTime {
		return l
	}
	slices.SortStableFunc(l.shown, func(a, b uint64) int {
		return cmp.Or(l.order.compare(&l.ring[a%ringSize], &l.ring[b%ringSize]), cmp.Compare(b, a))
	})
	return l
}

// sorted is the list in another order; the cursor goes to its first row, or with the
// time's order back to the newest.
func (l list) sorted(o order) list {
	was := l.order
	l.order = o
	l.shown = slices.Clone(l.shown)
	if o == byTime {
		slices.Sort(l.shown)
		l.follow = true
		return l.settle()
	}
	if was == byTime {
		l.follow = false
	}
	l = l.sort()
	l.cur, l.top = 0, 0
	return l.settle()
}
