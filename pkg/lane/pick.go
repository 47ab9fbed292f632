package lane

import (
	"crypto/sha256"
	"encoding/binary"
)

// Pick takes one of the decision's instances for n, nil if it has none. Over
// equally spread n, a counter as well as random numbers, each instance gets its
// share; a counter spreads them evenly also over few requests.
func Pick(d *Decision, n uint64) *Instance {
	if len(d.Chosen) == 0 {
		return nil
	}
	// Steps of the golden ratio: of all strides, the one that fills the range
	// most evenly. An odd factor maps random numbers one to one.
	const golden = 0x9E3779B97F4A7C15
	at := float64(n*golden>>11) / (1 << 53)
	var last *Instance
	for i := range d.Chosen {
		c := &d.Chosen[i]
		if c.Weight <= 0 {
			continue
		}
		last = c.Instance
		if at -= c.Weight; at < 0 {
			return last
		}
	}
	if last == nil { // shares that are no shares; a decision never has these
		return d.Chosen[0].Instance
	}
	return last // rounding left a rest
}

// PickByKey takes the instance for a key by rendezvous hashing, so that a change
// of the set moves only the keys of the instance that came or went. Of the
// weights it heeds only zero.
func PickByKey(d *Decision, key string) *Instance {
	var best *Instance
	var top uint64
	for i := range d.Chosen {
		c := &d.Chosen[i]
		sum := sha256.Sum256([]byte(c.Instance.ID + "|" + key))
		h := binary.BigEndian.Uint64(sum[:8])
		if c.Weight <= 0 {
			h = 0
		}
		if best == nil || h > top {
			best, top = c.Instance, h
		}
	}
	return best
}
