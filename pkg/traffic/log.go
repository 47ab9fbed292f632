package traffic

import (
	"context"
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
	l.ring[e.Seq%uint64(len(l.ring))] = e
	l.next++
	if l.wait {
		close(l.wake)
		l.wake, l.wait = make(chan struct{}), false
	}
	return e.Seq
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
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since(after, limit)
}

func (l *Log) since(after uint64, limit int) (rows []Exchange, lost uint64) {
	from, size := after+1, uint64(len(l.ring))
	if l.next > size && from < l.next-size {
		lost = l.next - size - from
		from = l.next - size
	}
	if from >= l.next {
		return nil, lost
	}
	n := l.next - from
	if limit > 0 {
		n = min(n, uint64(limit))
	}
	rows = make([]Exchange, 0, n)
	for s := from; s < from+n; s++ {
		rows = append(rows, l.ring[s%size])
	}
	return rows, lost
}

// Next is Since that waits until there is at least one exchange newer than
// after, or ctx ends; its error is then ctx's.
func (l *Log) Next(ctx context.Context, after uint64, limit int) (rows []Exchange, lost uint64, err error) {
	for {
		l.mu.Lock()
		rows, lost = l.since(after, limit)
		l.wait = l.wait || len(rows) == 0
		wake := l.wake
		l.mu.Unlock()
		if len(rows) > 0 {
			return rows, lost, nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, lost, ctx.Err()
		}
	}
}
