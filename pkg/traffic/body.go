package traffic

import (
	"mime"
	"strings"
	"unicode/utf8"
)

// Limits of what is kept of bodies, in bytes: of one, and of all in a Log.
const (
	MaxBody   = 64 << 10
	MaxBodies = 32 << 20
)

// Body is what was kept of a body. It is a value: nothing of it changes.
type Body struct {
	Bytes []byte
	Cut   bool // there was more
}

// Keep adds bytes to a body that is on its way, up to MaxBody.
func (b *Body) Keep(p []byte) {
	room := MaxBody - len(b.Bytes)
	if len(p) > room {
		b.Cut = true
		p = p[:room]
	}
	b.Bytes = append(b.Bytes, p...)
}

func (b *Body) size() int {
	if b == nil {
		return 0
	}
	return cap(b.Bytes)
}

// BodyKind is what a body holds, for showing it.
type BodyKind uint8

// The kinds.
const (
	BodyText BodyKind = iota
	BodyJSON
	BodyForm
	BodyGRPC
	BodyBinary
	BodyMultipart
)

// KindOf says what a body is by its Content-Type, its Content-Encoding and, as
// these may be wrong, its bytes.
func KindOf(contentType, encoding string, b []byte) BodyKind {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(contentType))
	}
	switch {
	case media == "application/grpc" || strings.HasPrefix(media, "application/grpc+"):
		return BodyGRPC
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return BodyBinary
	case strings.HasPrefix(media, "multipart/") && delimiter(b, true) != nil: // whatever its files are
		return BodyMultipart
	case !isText(b):
		return BodyBinary
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		return BodyJSON
	case startsJSON(b): // curl -d sends it as a form's
		return BodyJSON
	case media == "application/x-www-form-urlencoded":
		return BodyForm
	}
	return BodyText
}

// isText says that bytes are UTF-8 with hardly anything that no text has: a log that a
// program wrote for a terminal has sequences of its own, and now and then a bell. A body
// may have been cut in the middle of a character.
func isText(b []byte) bool {
	odd, rare := 0, len(b)/64
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		switch {
		case r == 0:
			return false
		case r == 0x1b && (len(b) == 1 || b[1] >= ' ' && b[1] < 0x7f): // begins a sequence
		case r < 0x20 && r != '\n' && r != '\r' && r != '\t' && r != '\f' || r == 0x7f:
			if odd++; odd > rare {
				return false
			}
		}
		b = b[n:]
	}
	return true
}
