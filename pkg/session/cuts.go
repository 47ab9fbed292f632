package session

import (
	"sync"
	"time"
)

// cuts are the callers whom the loss of the tunnel has cut off, by their addresses at the
// guard. They are added before their connections end, so that the guard, for which they
// have left, finds them. It has a lock of its own: the guard asks at each request that
// ends so.
type cuts struct {
	mu sync.Mutex
	of map[string]time.Time
}

const (
	// lateHead is how long behind the cut the guard may yet begin with a request: its
	// head was there, and had not been read.
	lateHead = time.Second
	// cutsKept is how long a guard may take to notice.
	cutsKept = time.Minute
)

// add notes that a caller is cut off, and forgets those of long ago.
func (c *cuts) add(caller string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for who, at := range c.of {
		if now.Sub(at) > cutsKept {
			delete(c.of, who)
		}
	}
	if c.of == nil {
		c.of = map[string]time.Time{}
	}
	c.of[caller] = now
}

// fresh says that an address is a new caller's.
func (c *cuts) fresh(caller string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, caller)
}

// has reports whether a caller was cut off during a request that began then.
func (c *cuts) has(caller string, began time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, cut := c.of[caller]
	return cut && !began.After(at.Add(lateHead))
}
