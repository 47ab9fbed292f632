package traffic

import (
	"context"
	"time"
)

// Batch is what came since a screen looked last: rows that a person may scroll
// through, and of what nobody could read as it came by, the figures alone.
type Batch struct {
	Rows []Exchange // oldest first
	Lost uint64     // exchanges that are no longer there
	Left []Tally    // exchanges that are no rows, by what they have in common
	More uint64     // exchanges beyond those of the tallies
}

// Tally stands for exchanges of one service and lane that went the same way for the
// same reason.
type Tally struct {
	N      uint64
	Failed uint64
	First  time.Time // when the first one began
	Last   *Exchange // the one that came last, without its heads and bodies
}

// Missing is how many exchanges are no rows.
func (b *Batch) Missing() uint64 {
	n := b.Lost + b.More
	for i := range b.Left {
		n += b.Left[i].N
	}
	return n
}

// Newest is the newest exchange that the batch knows of, after if it knows none.
func (b *Batch) Newest(after uint64) uint64 {
	if n := len(b.Rows); n > 0 {
		return b.Rows[n-1].Seq
	}
	return after
}

const (
	// fewRows are the rows of a batch that has too many.
	fewRows = 100
	// talliesMost bounds the tallies of a batch: services and lanes are words of
	// others.
	talliesMost = 64
)

// Batch waits for exchanges newer than after, or for the end of ctx, and returns
// them all if they are at most most. Of more, the newest hundred are rows and the
// rest is counted: rows that nobody can read cost a session as much as those that
// somebody does. most = 0 is no limit.
func (l *Log) Batch(ctx context.Context, after uint64, most int) (Batch, error) {
	var b Batch
	return b, l.BatchInto(ctx, &b, after, most)
}

// BatchInto is Batch into memory that is used again: all of b is written anew.
func (l *Log) BatchInto(ctx context.Context, b *Batch, after uint64, most int) error {
	*b = Batch{Rows: b.Rows[:0], Left: b.Left[:0]}
	for {
		last, err := l.newer(ctx, after)
		if err != nil {
			return err
		}
		rest := after
		if n := min(last-after, uint64(len(l.ring))); most > 0 && n > uint64(most) {
			rest = last - min(n, fewRows)
			counted := uint64(0)
			l.pieces(after, rest, n, func(e *Exchange) { b.tally(e); counted++ })
			b.Lost += rest - after - counted
		}
		var lost uint64
		b.Rows, lost = l.read(b.Rows, rest, last, 0)
		b.Lost += lost
		if len(b.Rows) > 0 {
			return nil
		}
		after = last // all of these went while they were read
	}
}

// tally counts an exchange that is no row.
func (b *Batch) tally(e *Exchange) {
	for i := len(b.Left) - 1; i >= 0; i-- {
		if t := &b.Left[i]; t.of(e) {
			t.add(e)
			return
		}
	}
	if len(b.Left) == talliesMost {
		b.More++
		return
	}
	b.Left = append(b.Left, Tally{First: e.Start, Last: new(Exchange)})
	b.Left[len(b.Left)-1].add(e)
}

// of says that a tally counts exchanges like this one: all that their route and its
// reason are told by is the same.
func (t *Tally) of(e *Exchange) bool {
	o := t.Last
	return o.Service == e.Service && o.Lane == e.Lane && o.Kind == e.Kind && o.Reason == e.Reason && o.Code == e.Code && o.Guard == e.Guard
}

func (t *Tally) add(e *Exchange) {
	t.N++
	if e.Failed() {
		t.Failed++
	}
	if e.Start.Before(t.First) {
		t.First = e.Start
	}
	*t.Last = *e
	t.Last.ReqHeader, t.Last.ResHeader, t.Last.ReqBody, t.Last.ResBody = Head{}, Head{}, nil, nil
}
