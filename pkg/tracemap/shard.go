package tracemap

import "sync"

// shard is a part of the index. Keys of numbers have maps of their own: these
// are a third of the size, and it is memory that a look-up waits for.
type shard struct {
	mu    sync.Mutex
	hex   map[uint64]*trace
	uuid  map[[2]uint64]*trace
	other map[Key]*trace
	_     [32]byte // a cache line for each
}

func (s *shard) get(k *Key) *trace {
	switch k.kind {
	case kindHex64:
		return s.hex[k.lo]
	case kindUUID:
		return s.uuid[[2]uint64{k.hi, k.lo}]
	default:
		return s.other[*k]
	}
}

func (s *shard) set(k *Key, t *trace) {
	switch k.kind {
	case kindHex64:
		s.hex[k.lo] = t
	case kindUUID:
		s.uuid[[2]uint64{k.hi, k.lo}] = t
	default:
		s.other[*k] = t
	}
}

// drop takes out a key of a trace, if no newer trace has it.
func (s *shard) drop(k *Key, t *trace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.get(k) != t {
		return
	}
	switch k.kind {
	case kindHex64:
		delete(s.hex, k.lo)
	case kindUUID:
		delete(s.uuid, [2]uint64{k.hi, k.lo})
	default:
		delete(s.other, *k)
	}
}
