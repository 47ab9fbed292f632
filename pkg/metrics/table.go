package metrics

import (
	"maps"
	"sync/atomic"
)

// table is a map that is read without a lock, for each request and by whoever
// shows it, and copied for each change, which is rare: names come and go with
// deployments.
//
// What is retired leaves in two steps: it is found by nobody from now on, and is
// still shown once, because a request that has just found it may yet add to it.
// The zero value is ready. put and retire are called by one goroutine at a time,
// the others at any time.
type table[K comparable, V any] struct {
	now atomic.Pointer[content[K, V]]
}

// content is a table at one time; it never changes.
type content[K comparable, V any] struct{ live, leaving map[K]*V }

func (t *table[K, V]) load() content[K, V] {
	if c := t.now.Load(); c != nil {
		return *c
	}
	return content[K, V]{}
}

func (t *table[K, V]) get(k K) *V {
	if c := t.now.Load(); c != nil {
		return c.live[k]
	}
	return nil
}

// size is how many there are, without those that leave.
func (t *table[K, V]) size() int { return len(t.load().live) }

// put returns what is there under k, and makes it otherwise.
func (t *table[K, V]) put(k K, fresh func() *V) *V {
	c := t.load()
	if v := c.live[k]; v != nil {
		return v
	}
	v := c.leaving[k] // still shown, so it must not stand there twice
	if v == nil {
		v = fresh()
	} else {
		c.leaving = maps.Clone(c.leaving)
		delete(c.leaving, k)
	}
	if c.live = maps.Clone(c.live); c.live == nil {
		c.live = map[K]*V{}
	}
	c.live[k] = v
	t.now.Store(&c)
	return v
}

// each visits all, those that leave too.
func (t *table[K, V]) each(visit func(K, *V)) {
	c := t.load()
	for k, v := range c.live {
		visit(k, v)
	}
	for k, v := range c.leaving {
		visit(k, v)
	}
}

// retire forgets those that left the last time, and lets those go for which out
// is true. It returns how many were forgotten.
func (t *table[K, V]) retire(out func(K, *V) bool) (forgotten int) {
	c := t.load()
	forgotten = len(c.leaving)
	leaving := map[K]*V{}
	for k, v := range c.live {
		if out(k, v) {
			leaving[k] = v
		}
	}
	if forgotten == 0 && len(leaving) == 0 {
		return 0
	}
	if len(leaving) > 0 {
		c.live = maps.Clone(c.live)
		for k := range leaving {
			delete(c.live, k)
		}
	}
	c.leaving = leaving
	t.now.Store(&c)
	return forgotten
}
