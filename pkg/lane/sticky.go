package lane

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// stick keeps of a set the instances of one version: the one that the request's
// sticky key falls to. It goes by versions and not by instances, so that an instance
// that comes back under another ID gives nobody another version. Without a key, or
// where all have the same version, the set stays as it is.
//
// It is rendezvous hashing with weights: each version has its instances' share of the
// keys, and where a share grows, only keys that it gains move.
func (q *query) stick(set []Candidate) []Candidate {
	key := q.req.StickyKey
	if key == "" {
		return set
	}
	several, best, top := false, "", 0.0
	for i := range set {
		v := set[i].Instance.Version
		if i > 0 && (v == set[i-1].Instance.Version || has(set[:i], func(in *Instance) bool { return in.Version == v })) {
			continue
		}
		several = several || i > 0
		weight := 0
		for j := i; j < len(set); j++ {
			if set[j].Instance.Version == v {
				weight += set[j].Instance.Weight
			}
		}
		if s := pull(v, key, weight); i == 0 || s > top || s == top && v < best {
			best, top = v, s
		}
	}
	if !several {
		return set
	}
	return keep(set, func(in *Instance) bool { return in.Version == best })
}

// pull is how strongly a version of that weight draws a key. It knows no service:
// where the shares are the same, a user has the same version of all services.
func pull(version, key string, weight int) float64 {
	var room [256]byte
	sum := sha256.Sum256(append(append(append(room[:0], version...), '|'), key...))
	u := (float64(binary.BigEndian.Uint64(sum[:8])>>11) + 0.5) / (1 << 53) // above 0, below 1
	return -float64(weight) / math.Log(u)
}
