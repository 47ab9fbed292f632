package tracemap

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// maxText is how long an id of any text may be. A longer one is refused: cut,
// it could be taken for another.
const maxText = 128

// digit is the value of a hex digit, or 0xff.
var digit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range uint8(10) {
		t['0'+i] = i
	}
	for i := range uint8(6) {
		t['a'+i], t['A'+i] = 10+i, 10+i
	}
	return t
}()

// hex reads 1 to 16 digits.
func hex(s string) (n uint64, ok bool) {
	if s == "" || len(s) > 16 {
		return 0, false
	}
	for i := range len(s) {
		d := digit[s[i]]
		if d == 0xff {
			return 0, false
		}
		n = n<<4 | uint64(d)
	}
	return n, true
}

// hex128 reads 32 digits.
func hex128(s string) (hi, lo uint64, ok bool) {
	if len(s) != 32 {
		return 0, 0, false
	}
	hi, ok = hex(s[:16])
	lo, ok2 := hex(s[16:])
	return hi, lo, ok && ok2
}

// parseHexID reads 16 or 32 digits that are not all zero.
func parseHexID(s string) (ID, bool) {
	if len(s) == 16 {
		lo, ok := hex(s)
		return ID{kind: kindHex64, lo: lo}, ok && lo != 0
	}
	hi, lo, ok := hex128(s)
	return ID{kind: kindHex128, hi: hi, lo: lo}, ok && hi|lo != 0
}

// parseTraceparent reads W3C Trace Context: version-trace-parent-flags in lower
// case. A later version may go on behind another "-".
func parseTraceparent(s string) (ID, bool) {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return ID{}, false
	}
	for i := range 55 {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return ID{}, false
		}
	}
	version, ok := hex(s[:2])
	if !ok || version == 0xff || len(s) > 55 && (version == 0 || s[55] != '-') {
		return ID{}, false
	}
	parent, okParent := hex(s[36:52])
	_, okFlags := hex(s[53:55])
	id, ok := parseHexID(s[3:35])
	return id, ok && okFlags && okParent && parent != 0
}

// parseB3 reads Zipkin's single header: trace-span[-sampled[-parent]], or the
// sampling decision alone, which has no id.
func parseB3(s string) (ID, bool) {
	trace, rest, ok := strings.Cut(s, "-")
	if !ok {
		return ID{}, false
	}
	span, rest, more := strings.Cut(rest, "-")
	if !isHex16(span) {
		return ID{}, false
	}
	if more {
		sampled, parent, more := strings.Cut(rest, "-")
		if sampled != "0" && sampled != "1" && sampled != "d" || more && !isHex16(parent) {
			return ID{}, false
		}
	}
	return parseHexID(trace)
}

func isHex16(s string) bool {
	_, ok := hex(s)
	return ok && len(s) == 16
}

// parseUber reads Jaeger's trace:span:parent:flags. Zeros on the left may lack;
// some clients escape the colons.
func parseUber(s string) (ID, bool) {
	trace, rest, ok1 := cutColon(s)
	span, rest, ok2 := cutColon(rest)
	parent, flags, ok3 := cutColon(rest)
	_, okSpan := hex(span)
	_, okParent := hex(parent)
	_, okFlags := hex(flags)
	if !ok1 || !ok2 || !ok3 || !okSpan || !okParent || !okFlags || len(flags) > 2 || len(trace) > 32 {
		return ID{}, false
	}
	id := ID{kind: kindHex128}
	if n := len(trace) - 16; n > 0 {
		if id.hi, ok1 = hex(trace[:n]); !ok1 {
			return ID{}, false
		}
		trace = trace[n:]
	}
	id.lo, ok1 = hex(trace)
	return id, ok1 && id.hi|id.lo != 0
}

// cutColon cuts at the first ":" or "%3A".
func cutColon(s string) (before, after string, ok bool) {
	for i := range len(s) {
		switch {
		case s[i] == ':':
			return s[:i], s[i+1:], true
		case s[i] == '%' && len(s) > i+2 && s[i+1] == '3' && s[i+2]|0x20 == 'a':
			return s[:i], s[i+3:], true
		}
	}
	return s, "", false
}

// parseSky reads the eight fields of SkyWalking's header, of which the second is
// the id in base64. Base64 of this alphabet has no "-", and in its canonical
// form one text only: it is the id as well as what it stands for.
func parseSky(s string) (ID, bool) {
	if len(s) >= 2048 || strings.Count(s, "-") != 7 || s[0] != '0' && s[0] != '1' || s[1] != '-' {
		return ID{}, false
	}
	trace, rest, _ := strings.Cut(s[2:], "-")
	segment, rest, _ := strings.Cut(rest, "-")
	span, _, _ := strings.Cut(rest, "-")
	if _, err := strconv.ParseUint(span, 10, 31); err != nil || segment == "" {
		return ID{}, false
	}
	var room [maxText/3*3 + 3]byte
	if trace == "" || len(trace) > base64.StdEncoding.EncodedLen(maxText) || strings.ContainsAny(trace, "\r\n") {
		return ID{}, false
	}
	n, err := base64.StdEncoding.Strict().Decode(room[:], []byte(trace))
	if err != nil || n > maxText || !printable(room[:n]) {
		return ID{}, false
	}
	return ID{kind: kindSky, text: trace}, true
}

// parseDatadog reads the right half of the id, a decimal number.
func parseDatadog(s string) (ID, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return ID{}, false
		}
	}
	if len(s) > 20 {
		return ID{}, false
	}
	lo, err := strconv.ParseUint(s, 10, 64)
	return ID{kind: kindHex64, lo: lo}, err == nil && lo != 0
}

// withHigh adds the left half of a Datadog id, which is among other tags.
func withHigh(id ID, tags string) ID {
	for tags != "" {
		var tag string
		tag, tags, _ = strings.Cut(tags, ",")
		v, ok := strings.CutPrefix(trim(tag), "_dd.p.tid=")
		if !ok {
			continue
		}
		if hi, ok := hex(v); ok && len(v) == 16 && hi != 0 {
			return ID{kind: kindHex128, hi: hi, lo: id.lo}
		}
		return id
	}
	return id
}

// parseAmazon reads Root=1-time-random among the fields of X-Ray.
func parseAmazon(s string) (ID, bool) {
	for s != "" {
		var field string
		field, s, _ = strings.Cut(s, ";")
		v, ok := strings.CutPrefix(trim(field), "Root=")
		if !ok {
			continue
		}
		if len(v) != 35 || v[:2] != "1-" || v[10] != '-' {
			return ID{}, false
		}
		date, ok1 := hex(v[2:10])
		left, ok2 := hex(v[11:19])
		lo, ok3 := hex(v[19:])
		hi := date<<32 | left
		return ID{kind: kindHex128, hi: hi, lo: lo}, ok1 && ok2 && ok3 && hi|lo != 0
	}
	return ID{}, false
}

// parseRequestID reads any text. Envoy writes its sampling decision into the
// version digit of a UUID in x-request-id, and may do so at any hop: there the
// digit says nothing about the trace.
func parseRequestID(s string, envoy bool) (ID, bool) {
	first, _, _ := strings.Cut(s, ",")
	if id, ok := parseUUID(trim(first)); ok {
		if envoy {
			id.hi = id.hi&^0xf000 | 0x4000
		}
		return id, true
	}
	if s == "" || len(s) > maxText || !printable(s) {
		return ID{}, false
	}
	return ID{kind: kindOpaque, text: s}, true
}

func parseUUID(s string) (ID, bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, false
	}
	a, ok1 := hex(s[:8])
	b, ok2 := hex(s[9:13])
	c, ok3 := hex(s[14:18])
	d, ok4 := hex(s[19:23])
	e, ok5 := hex(s[24:])
	return ID{kind: kindUUID, hi: a<<32 | b<<16 | c, lo: d<<48 | e}, ok1 && ok2 && ok3 && ok4 && ok5
}

func printable[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
