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
type Log struct {
	mu   sync.Mutex
	ring []Exchange
	next uint64        // Seq of the next exchange
	wake chan struct{} // closed at Put when somebody waits
	wait bool

	bodies int    // bytes of bodies that are kept
	bare   uint64 // up to here, no row has a body
}

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
		for s := max(l.bare, l.next-min(l.next, uint64(len(l.ring)))); l.bodies > MaxBodies && s < e.Seq; s++ {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since(rows, after, limit)
}

func (l *Log) since(rows []Exchange, after uint64, limit int) (all []Exchange, lost uint64) {
	from, size := after+1, uint64(len(l.ring))
	if l.next > size && from < l.next-size {
		lost = l.next - size - from
		from = l.next - size
	}
	if from >= l.next {
		return rows, lost
	}
	n := l.next - from
	if limit > 0 {
		n = min(n, uint64(limit))
	}
	rows = slices.Grow(rows, int(n))
	for s := from; s < from+n; s++ {
		rows = append(rows, l.ring[s%size])
	}
	return rows, lost
}

// Next is Since that waits until there is at least one exchange newer than
// after, or ctx ends; its error is then ctx's.
func (l *Log) Next(ctx context.Context, after uint64, limit int) (rows []Exchange, lost uint64, err error) {
	return l.AppendNext(ctx, nil, after, limit)
}

// AppendNext is Next into memory of the caller's, behind what is in it.
func (l *Log) AppendNext(ctx context.Context, rows []Exchange, after uint64, limit int) (all []Exchange, lost uint64, err error) {
	for {
		l.mu.Lock()
		all, lost = l.since(rows, after, limit)
		none := len(all) == len(rows)
		l.wait = l.wait || none
		wake := l.wake
		l.mu.Unlock()
		if !none {
			return all, lost, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return all, lost, ctx.Err()
		}
	}
}
