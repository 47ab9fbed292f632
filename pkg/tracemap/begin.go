package tracemap

import (
	"encoding/base64"
	"math/rand/v2"
	"strconv"
)

// Start is the beginning of a trace: the fields that say so, and the ID as it is
// read out of them.
type Start struct {
	ID     string
	fields [4]Field
	n      int
}

// Field is a header, its name in lower case.
type Field struct{ Name, Value string }

// Fields are what a request gets.
func (s *Start) Fields() []Field { return s.fields[:s.n] }

func (s *Start) add(name, value string) {
	s.fields[s.n] = Field{name, value}
	s.n++
}

// Begin makes a new trace: in the one header that is read, in the form that it has,
// or else as a traceparent and an x-request-id, which are one number, so that who
// has the one finds the other. It is random and no secret: to know a trace's id
// helps nobody whose ids do not count, and two must not be one. The trace is said
// to be recorded, unless Unsampled: otherwise every service that records what its
// caller does would record nothing.
func (s *Sources) Begin() Start {
	hi, lo := rand.Uint64()&^0xf000|0x4000, rand.Uint64()&^(3<<62)|2<<62 // version 4 of UUIDs (RFC 9562, 5.4)
	parent := rand.Uint64() | 1
	var room [32 + 36 + 55]byte
	b := appendHex(appendHex(room[:0], hi), lo)
	b = appendUUID(b, b)
	b = appendHex(append(append(append(b, "00-"...), b[:32]...), '-'), parent)
	flag := "1"
	if s.unsampled {
		flag = "0"
	}
	all := string(append(append(b, "-0"...), flag...))
	id, uuid, w3c := all[:32], all[32:68], all[68:]
	span := w3c[36:52]
	out := Start{ID: id}
	if s.only.header == "" {
		out.add("traceparent", w3c)
		out.add("x-request-id", uuid)
		return out
	}
	switch s.only.form {
	case formTraceparent:
		out.add("traceparent", w3c)
	case formB3:
		out.add("b3", id+"-"+span+"-"+flag)
	case formB3TraceID:
		out.add("x-b3-traceid", id)
		out.add("x-b3-spanid", span)
		out.add("x-b3-sampled", flag)
	case formUber:
		out.add("uber-trace-id", id+":"+span+":0:"+flag)
	case formSky:
		text := base64.StdEncoding.EncodeToString
		trace, here := text([]byte(id)), text([]byte("lane-gateway"))
		out.add("sw8", flag+"-"+trace+"-"+trace+"-0-"+here+"-"+here+"-"+here+"-"+here)
	case formDatadog:
		out.add("x-datadog-trace-id", strconv.FormatUint(lo, 10))
		out.add("x-datadog-parent-id", strconv.FormatUint(parent, 10))
		out.add("x-datadog-sampling-priority", flag)
		out.add("x-datadog-tags", "_dd.p.tid="+id[:16])
	case formAmazon:
		out.add("x-amzn-trace-id", "Root=1-"+id[:8]+"-"+id[8:]+";Parent="+span+";Sampled="+flag)
	default: // any text
		out.ID = uuid
		out.add(s.Only(), uuid)
	}
	return out
}

// appendUUID appends 32 digits in the form of a UUID.
func appendUUID(b, digits []byte) []byte {
	for i, part := range [...][2]int{{0, 8}, {8, 12}, {12, 16}, {16, 20}, {20, 32}} {
		if i > 0 {
			b = append(b, '-')
		}
		b = append(b, digits[part[0]:part[1]]...)
	}
	return b
}

// appendHex appends 16 digits.
func appendHex(b []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&15])
	}
	return b
}
