package traffic

import (
	"context"
	"slices"
	"sync"
)

// Log is a bounded ring of exchanges. Put never blocks on a reader; a reader
// that is too slow loses the oldest rows and is told how many.
//
//	Put --> [ring of the newest n] --> Next(after) --> reader
//	                              \--> Batch(after) --> screen
type Log struct {
	mu   sync.Mutex
	ring []Exchange
	next uint64        // Seq of the next exchange
	wake chan struct{} // closed at Put when somebody waits
	wait bool

	bodies int    // bytes of bodies that are kept
	bare   uint64 // up to here, no row has a body
}

// piece is how many rows a reader looks at before a writer may go on: a reader of
// all of the ring must not hold a request up.
const piece = 128

// NewLog makes a log that keeps the newest size exchanges; size is at least 1.
func NewLog(size int) *Log {
	return &Log{ring: make([]Exchange, max(size, 1)), next: 1, wake: make(chan struct{})}
}

// Put records an exchange and returns its sequence number.
func (l *Log) Put(e Exchange) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.next
	old := &l.ring[e.Seq%uint64(len(l.ring))]
	l.strip(old)
	*old = e
	l.next++
	if n := e.ReqBody.size() + e.ResBody.size(); n > 0 {
		l.bodies += n
		for s := max(l.bare, l.oldest()); l.bodies > MaxBodies && s < e.Seq; s++ {
			l.strip(&l.ring[s%uint64(len(l.ring))])
			l.bare = s
		}
	}
	if l.wait {
		close(l.wake)
		l.wake, l.wait = make(chan struct{}), false
	}
	return e.Seq
}

// oldest is the sequence number of the oldest exchange that is kept. The caller
// holds mu.
func (l *Log) oldest() uint64 { return max(l.next-min(l.next, uint64(len(l.ring))), 1) }

// strip lets the bodies of a row go.
func (l *Log) strip(e *Exchange) {
	l.bodies -= e.ReqBody.size() + e.ResBody.size()
	e.ReqBody, e.ResBody = nil, nil
}

// Get is one exchange, if it is still there.
func (l *Log) Get(seq uint64) (Exchange, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.ring[seq%uint64(len(l.ring))]; seq > 0 && e.Seq == seq {
		return e, true
	}
	return Exchange{}, false
}

// Last is the sequence number of the newest exchange, 0 if there is none.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - 1
}

// Since returns, oldest first, at most limit exchanges newer than after (0: no
// limit), and how many of those asked for are no longer there.
func (l *Log) Since(after uint64, limit int) (rows []Exchange, lost uint64) {
	return l.AppendSince(nil, after, limit)
}

// AppendSince is Since into memory of the caller's, behind what is in it.
func (l *Log) AppendSince(rows []Exchange, after uint64, limit int) (all []Exchange, lost uint64) {
	return l.read(rows, after, l.Last(), limit)
}

// read appends the exchanges behind after, up to last.
func (l *Log) read(rows []Exchange, after, last uint64, limit int) (all []Exchange, lost uint64) {
	left := uint64(len(l.ring))
	if limit > 0 {
		left = min(left, uint64(limit))
	}
	if last > after {
		rows = slices.Grow(rows, int(min(left, last-after)))
	}
	n := uint64(len(rows))
	l.pieces(after, last, left, func(e *Exchange) { rows = append(rows, *e) })
	if n = uint64(len(rows)) - n; n > 0 {
		last = rows[len(rows)-1].Seq
	}
	return rows, max(last, after) - after - n
}

// pieces shows the exchanges behind after, up to last, and at most so many, in their
// place in the ring, where nobody may keep them. Some may go meanwhile.
func (l *Log) pieces(after, last, most uint64, show func(*Exchange)) {
	for s := after + 1; s <= last && most > 0; {
		l.mu.Lock()
		s = max(s, l.oldest())
		to := min(s+min(most, piece), last+1)
		for ; s < to; s, most = s+1, most-1 {
			show(&l.ring[s%uint64(len(l.ring))])
		}
		l.mu.Unlock()
	}
}

// Next is Since that waits until there is at least one exchange newer than
// after, or ctx ends; its error is then ctx's.
func (l *Log) Next(ctx context.Context, after uint64, limit int) (rows []Exchange, lost uint64, err error) {
	return l.AppendNext(ctx, nil, after, limit)
}

// AppendNext is Next into memory of the caller's, behind what is in it.
func (l *Log) AppendNext(ctx context.Context, rows []Exchange, after uint64, limit int) (all []Exchange, lost uint64, err error) {
	for {
		last, err := l.newer(ctx, after)
		if err != nil {
			return rows, 0, err
		}
		all, gone := l.read(rows, after, last, limit)
		lost += gone
		if len(all) > len(rows) {
			return all, lost, nil
		}
		after = last // all of these went while they were read
	}
}

// newer waits for an exchange newer than after, and returns the newest.
func (l *Log) newer(ctx context.Context, after uint64) (last uint64, err error) {
	for {
		l.mu.Lock()
		last = l.next - 1
		l.wait = l.wait || last <= after
		wake := l.wake
		l.mu.Unlock()
		if last > after {
			return last, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

// Each shows all exchanges that are there, oldest first, in their place: nothing of
// them may be kept but a copy.
func (l *Log) Each(show func(*Exchange)) {
	l.pieces(0, l.Last(), uint64(len(l.ring)), show)
}
