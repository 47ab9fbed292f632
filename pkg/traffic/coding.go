package traffic

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decodedMost bounds what becomes of a compressed body, and codingsMost how many times
// it may have been compressed.
const (
	decodedMost = 1 << 20
	codingsMost = 3
)

// Decoded is a body as it was before Content-Encoding; ok is false for one that
// is unknown or broken. Of a body that was cut it is what can be read.
func Decoded(encoding string, b []byte) (out []byte, ok bool) {
	out, _, ok = decoded(encoding, b)
	return out, ok
}

// decoded takes codings off, the last first; whole says that nothing is missing at the
// end.
func decoded(encoding string, b []byte) (out []byte, whole, ok bool) {
	names := strings.Split(encoding, ",")
	whole = true
	if len(names) > codingsMost {
		return nil, false, false
	}
	for i := len(names) - 1; i >= 0; i-- {
		name := strings.ToLower(strings.TrimSpace(names[i]))
		if name == "" || name == "identity" {
			continue
		}
		var all bool
		if b, all, ok = decodedOnce(name, b); !ok {
			return nil, false, false
		}
		whole = whole && all
	}
	return b, whole, true
}

func decodedOnce(name string, b []byte) (out []byte, whole, ok bool) {
	var r io.Reader
	var err error
	switch name {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(bytes.NewReader(b))
	case "deflate": // zlib's form; some send the bare stream
		if r, err = zlib.NewReader(bytes.NewReader(b)); err != nil {
			r, err = flate.NewReader(bytes.NewReader(b)), nil
		}
	case "br":
		r = brotli.NewReader(bytes.NewReader(b))
	case "zstd":
		var d *zstd.Decoder
		d, err = zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(32<<20), zstd.WithDecoderMaxWindow(8<<20))
		if err == nil {
			defer d.Close()
			r = d
		}
	default:
		return nil, false, false
	}
	if err != nil {
		return nil, false, false
	}
	out, err = io.ReadAll(io.LimitReader(r, decodedMost+1))
	if len(out) > decodedMost {
		return out[:decodedMost], false, true
	}
	return out, err == nil, err == nil || len(out) > 0
}

// unUTF16 is a text in UTF-16, which has a mark at its begin or ASCII in it, as UTF-8.
func unUTF16(b []byte) (out []byte, ok bool) {
	if len(b) < 4 {
		return nil, false
	}
	var little bool
	switch {
	case b[0] == 0xff && b[1] == 0xfe:
		b, little = b[2:], true
	case b[0] == 0xfe && b[1] == 0xff:
		b = b[2:]
	case b[0] != 0 && b[1] == 0 && b[2] != 0 && b[3] == 0:
		little = true
	case b[0] == 0 && b[1] != 0 && b[2] == 0 && b[3] != 0:
	default:
		return nil, false
	}
	units := make([]uint16, len(b)/2) // the last byte may have been cut off
	for i := range units {
		lo, hi := b[2*i+1], b[2*i]
		if little {
			lo, hi = hi, lo
		}
		units[i] = uint16(hi)<<8 | uint16(lo)
	}
	out = []byte(string(utf16.Decode(units)))
	return out, isText(out)
}
