package traffic

import (
	"encoding/binary"
	"strings"
)

// Frame is one message of a gRPC body.
type Frame struct {
	Size       int64  // as its head says
	Bytes      []byte // what there is of it, in clear if that could be had
	Whole      bool   // all of it is there
	Compressed bool   // as it was sent
	Clear      bool   // it was not compressed, or is not any more
}

// Messages are the messages of an exchange's gRPC bodies as JSON, one for each
// frame, "" where one could not be read. They have their secrets.
type Messages struct {
	Req  []string `json:"req,omitempty"`
	Res  []string `json:"res,omitempty"`
	Note string   `json:"note,omitempty"` // why not all could be read, in one line
}

// Frames splits a gRPC body: each message stands behind a byte that says whether it
// is compressed, and four bytes of length (the gRPC protocol over HTTP/2,
// "Length-Prefixed-Message"). encoding is what Grpc-Encoding says. rest is how many
// bytes of a frame's head are left over.
func Frames(encoding string, b []byte) (frames []Frame, rest int) {
	const head = 5
	for len(b) >= head {
		n := binary.BigEndian.Uint32(b[1:head])
		f := Frame{Size: int64(n), Compressed: b[0] != 0, Clear: b[0] == 0, Whole: uint64(n) <= uint64(len(b)-head)}
		b = b[head:]
		f.Bytes = b[:min(uint64(n), uint64(len(b)))]
		b = b[len(f.Bytes):]
		if name := strings.ToLower(strings.TrimSpace(encoding)); f.Compressed && f.Whole && name != "" && name != "identity" {
			if out, whole, ok := decoded(encoding, f.Bytes); ok && whole {
				f.Bytes, f.Clear = out, true
			}
		}
		frames = append(frames, f)
	}
	return frames, len(b)
}
