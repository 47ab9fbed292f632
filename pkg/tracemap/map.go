package tracemap

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
)

// What a Map holds by itself.
const (
	DefaultSize = 100_000
	DefaultTTL  = 10 * time.Minute
)

// maxKeys is how many ids are held together: all that one request can bear. A
// trace that comes in with more is held as several, of which the newest goes on.
const maxKeys = len(auto)

// Options are the bounds of a Map; what is zero has its default.
type Options struct {
	Size int // traces
	TTL  time.Duration
	Now  func() time.Time
}

// Map knows with which tag a trace came in. Any number of goroutines may use it;
// it has none of its own.
//
//	key --hash--> shard --> trace <--> trace <--> trace     by the last inbound
//	key --hash--> shard ----^          oldest ... newest    request of each
//
// Locks are taken in one order: shards by their number, then the list.
type Map struct {
	size  int
	ttl   time.Duration
	now   func() time.Duration
	seed  maphash.Seed
	parts [shards]shard
	list  list

	evicted, expired, conflicts atomic.Uint64
}

const shards = 64 // bits of a set in lock

// trace is what came in under one set of keys.
type trace struct {
	at           atomic.Int64 // the last inbound request, as the map's clock says; gone once it has left the list
	tag          lane.Name    // never changes
	older, newer *trace
	// keys grows under the list's lock until the trace is gone; what is in it stays.
	keys []Key
	room [2]Key
}

const gone = -1

// New makes an empty map.
func New(o Options) *Map {
	m := &Map{size: o.Size, ttl: o.TTL, seed: maphash.MakeSeed()}
	if m.size <= 0 {
		m.size = DefaultSize
	}
	if m.ttl <= 0 {
		m.ttl = DefaultTTL
	}
	if now := o.Now; now != nil {
		start := now()
		m.now = func() time.Duration { return max(now().Sub(start), 0) }
	} else {
		start := time.Now()
		m.now = func() time.Duration { return time.Since(start) }
	}
	for i := range m.parts {
		p := &m.parts[i]
		p.hex, p.uuid, p.other = map[uint64]*trace{}, map[[2]uint64]*trace{}, map[Key]*trace{}
	}
	return m
}

// Put is told of an inbound request, and returns the tag that its trace has from
// now on. The first tag of a trace stays: another one that comes later was
// rewritten on the way. A request without a tag ("") gets that of its trace, if
// that is known under any of its keys; the other keys then lead there too.
// Explicit baseline is a tag like any other.
func (m *Map) Put(keys *Keys, came lane.Name) lane.Name {
	if keys.n == 0 {
		return ""
	}
	now, tag := int64(m.now()), came
	var at [maxKeys]uint8
	set := m.lock(keys, &at)
	t, left := m.find(keys, &at, now)
	for t != nil {
		if own := m.list.join(t, keys, left, now); own != nil {
			tag, left = t.tag, m.index(t, own, keys, &at, left)
			if left != 0 { // it is full: another one takes over
				left |= m.leading(t, keys, &at)
			}
			break
		}
		t, left = m.find(keys, &at, now) // that one has just been thrown out
	}
	if left != 0 && tag != "" {
		t := newTrace(keys, left, tag)
		m.list.append(t, now)
		m.index(t, t.keys, keys, &at, left)
	}
	m.unlock(set)
	if came != "" && came != tag {
		m.conflicts.Add(1)
	}
	m.drop(m.list.trim(m.size, trimmed, now-int64(m.ttl)))
	return tag
}

// Get is the tag of an outbound request's trace, by the first of its keys that
// is known; "" if none is.
func (m *Map) Get(keys *Keys) lane.Name {
	if keys.n == 0 {
		return ""
	}
	now := int64(m.now())
	for i := range keys.n {
		k := &keys.keys[i]
		s := &m.parts[m.shard(k)]
		s.mu.Lock()
		t := s.get(k)
		s.mu.Unlock()
		if t != nil && m.live(t, now) {
			return t.tag
		}
	}
	return ""
}

// Stats are the figures of a Map.
type Stats struct {
	Size      int    // traces that are held
	Evicted   uint64 // thrown out because there were too many
	Expired   uint64 // thrown out because of their age
	Conflicts uint64 // requests whose tag was not their trace's
}

// Stats counts, and lets go of what has expired.
func (m *Map) Stats() Stats {
	m.drop(m.list.trim(m.size, m.size, int64(m.now()-m.ttl)))
	m.list.mu.Lock()
	size := m.list.size
	m.list.mu.Unlock()
	return Stats{Size: size, Evicted: m.evicted.Load(), Expired: m.expired.Load(), Conflicts: m.conflicts.Load()}
}

func (m *Map) live(t *trace, now int64) bool {
	at := t.at.Load()
	return at != gone && now-at < int64(m.ttl)
}

// shard is a key's. A sender can aim at one: that costs waiting, not memory.
func (m *Map) shard(k *Key) uint8 {
	if k.text != "" {
		return uint8(maphash.String(m.seed, k.text) % shards)
	}
	return uint8(((k.hi ^ k.lo) * 0x9e3779b97f4a7c15) >> 58)
}

// lock locks the shards of all keys, so that a trace is seen under all of its
// keys or under none. at gets each key's shard.
func (m *Map) lock(keys *Keys, at *[maxKeys]uint8) (set uint64) {
	for i := range keys.n {
		at[i] = m.shard(&keys.keys[i])
		set |= 1 << at[i]
	}
	for s := set; s != 0; s &= s - 1 {
		m.parts[bits.TrailingZeros64(s)].mu.Lock()
	}
	return set
}

func (m *Map) unlock(set uint64) {
	for s := set; s != 0; s &= s - 1 {
		m.parts[bits.TrailingZeros64(s)].mu.Unlock()
	}
}

// find is the trace of the first key that has one, and the set of those keys that
// lead nowhere.
func (m *Map) find(keys *Keys, at *[maxKeys]uint8, now int64) (first *trace, left uint) {
	for i := range keys.n {
		t := m.parts[at[i]].get(&keys.keys[i])
		switch {
		case t == nil || !m.live(t, now):
			left |= 1 << i
		case first == nil:
			first = t
		}
	}
	return first, left
}

// leading is the set of keys that lead to a trace.
func (m *Map) leading(t *trace, keys *Keys, at *[maxKeys]uint8) (set uint) {
	for i := range keys.n {
		if m.parts[at[i]].get(&keys.keys[i]) == t {
			set |= 1 << i
		}
	}
	return set
}

// index lets a trace be found under those keys of a set that are its own, and
// returns the others. The set's texts are the request's, the trace has copies.
func (m *Map) index(t *trace, own []Key, keys *Keys, at *[maxKeys]uint8, set uint) (left uint) {
	for i := range keys.n {
		if set&(1<<i) == 0 {
			continue
		}
		if j := slices.Index(own, keys.keys[i]); j >= 0 {
			m.parts[at[i]].set(&own[j], t)
		} else {
			left |= 1 << i
		}
	}
	return left
}

// drop takes traces that have left the list, chained by newer, out of the shards.
func (m *Map) drop(t *trace, evicted, expired uint64) {
	if t == nil {
		return
	}
	m.evicted.Add(evicted)
	m.expired.Add(expired)
	for ; t != nil; t = t.newer {
		for i := range t.keys {
			m.parts[m.shard(&t.keys[i])].drop(&t.keys[i], t)
		}
	}
}

// newTrace copies what it keeps: keys and tags are parts of a head that is read
// over by the next request.
func newTrace(keys *Keys, set uint, tag lane.Name) *trace {
	t := &trace{tag: lane.Name(strings.Clone(string(tag)))}
	t.keys = t.room[:0]
	t.grow(keys, set)
	return t
}

// grow adds the keys of a set that the trace does not have, as far as there is
// room.
func (t *trace) grow(keys *Keys, set uint) {
	for i := range keys.n {
		if k := keys.keys[i]; set&(1<<i) != 0 && len(t.keys) < maxKeys && !slices.Contains(t.keys, k) {
			k.text = strings.Clone(k.text)
			t.keys = append(t.keys, k)
		}
	}
}
