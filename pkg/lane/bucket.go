package lane

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// buckets is how finely a share of keys can be given.
const buckets = 10000

// Bucket is where a key falls, 0 to 9999, for one salt: the rule's ID, or the
// lane's name. The same key has the same bucket everywhere and for ever.
func Bucket(salt, key string) int {
	var room [256]byte
	sum := sha256.Sum256(append(append(append(room[:0], salt...), '|'), key...))
	return int(binary.BigEndian.Uint64(sum[:8]) % buckets)
}

// InShare reports whether a key is in the first share (0 to 1) of the buckets.
// A larger share keeps every key that a smaller one has.
func InShare(salt, key string, share float64) bool {
	return key != "" && Bucket(salt, key) < int(math.Round(share*buckets))
}

// Key is what a share of requests is taken by: the sticky key, else the trace
// ID, else nothing. A client's address or chance is no key, so that one user
// sees one system.
func (r *Request) Key() string {
	if r.StickyKey != "" {
		return r.StickyKey
	}
	return r.TraceID
}

func (q *query) inRatio() bool {
	return InShare(string(q.d.Lane), q.req.Key(), q.r.p.DegradeRatio)
}
