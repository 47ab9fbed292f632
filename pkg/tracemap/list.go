package tracemap

import "sync"

// trimmed is how many expired traces one request throws out, so that a burst
// is gone soon and no request pays for all of it.
const trimmed = 4

// list holds the traces by the time of their last inbound request, so that the
// oldest is the next to expire, and the next to go when there are too many.
type list struct {
	mu             sync.Mutex
	oldest, newest *trace
	size           int
	last           int64 // no trace is newer: clocks are read before the lock is had
}

// append puts a new trace at the end.
func (l *list) append(t *trace, now int64) {
	l.mu.Lock()
	l.push(t, now)
	l.mu.Unlock()
}

// join makes a trace the newest, gives it a set of the keys of another request of
// it, and returns all of its keys; none for a trace that is gone.
func (l *list) join(t *trace, keys *Keys, set uint, now int64) []Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.at.Load() == gone {
		return nil
	}
	t.grow(keys, set)
	l.remove(t)
	l.push(t, now)
	return t.keys
}

// trim takes out the oldest traces that are too many, and at most n of those
// that came before a time. They are chained by newer.
func (l *list) trim(size, n int, before int64) (first *trace, evicted, expired uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for t := l.oldest; t != nil; t = l.oldest {
		switch old := t.at.Load() <= before; {
		case old && n > 0:
			expired++
			n--
		case l.size > size:
			evicted++
		default:
			return first, evicted, expired
		}
		l.remove(t)
		t.at.Store(gone)
		t.older, t.newer, first = nil, first, t
	}
	return first, evicted, expired
}

func (l *list) push(t *trace, now int64) {
	l.last = max(l.last, now)
	t.at.Store(l.last)
	t.older, t.newer = l.newest, nil
	if l.newest != nil {
		l.newest.newer = t
	} else {
		l.oldest = t
	}
	l.newest = t
	l.size++
}

func (l *list) remove(t *trace) {
	if t.older != nil {
		t.older.newer = t.newer
	} else {
		l.oldest = t.newer
	}
	if t.newer != nil {
		t.newer.older = t.older
	} else {
		l.newest = t.older
	}
	l.size--
}
