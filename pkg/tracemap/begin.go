package tracemap

import "math/rand/v2"

// Start is the beginning of a trace, as its headers say it.
type Start struct {
	ID          string // as the String of an ID is
	Traceparent string
	RequestID   string
}

// uuid are the parts of an id that a UUID has hyphens between.
var uuid = [...][2]int{{0, 8}, {8, 12}, {12, 16}, {16, 20}, {20, 32}}

// Begin makes the ids of a new trace: one number, as W3C's id and as the UUID of a
// request, so that who has the one finds the other. It is random and no secret: to
// know a trace's id helps nobody whose ids do not count, and two must not be one.
// The flag says that the trace is recorded: without it, every service that
// records what its caller does would record nothing.
func Begin() Start {
	hi, lo := rand.Uint64()&^0xf000|0x4000, rand.Uint64()&^(3<<62)|2<<62 // version 4 (RFC 9562, 5.4)
	var room [55 + 36]byte
	b := appendHex(appendHex(append(room[:0], "00-"...), hi), lo)
	b = append(appendHex(append(b, '-'), rand.Uint64()|1), "-01"...)
	id := b[3:35]
	for i, part := range uuid {
		if i > 0 {
			b = append(b, '-')
		}
		b = append(b, id[part[0]:part[1]]...)
	}
	s := string(b)
	return Start{ID: s[3:35], Traceparent: s[:55], RequestID: s[55:]}
}

// appendHex appends 16 digits.
func appendHex(b []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&15])
	}
	return b
}
