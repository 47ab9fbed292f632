package traffic

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"
)

// Shown is a body as it may be seen by others than the user: on a screen, in a file, on
// a line that is copied.
type Shown struct {
	// Bytes are the body, its secrets masked, and as it was before Content-Encoding.
	Bytes []byte
	Kind  BodyKind
	// Len is how long they were before anything was masked.
	Len int
	// Masked says that there was something to mask.
	Masked bool
	// Coding is what was taken off, and Charset that it was UTF-16; empty: nothing.
	Coding, Charset string
	// Cut says that there was more.
	Cut bool
	// Left is why there are no bytes: the body is not empty, and nobody can tell what
	// in it is secret.
	Left string
}

// Show is what of a body may be shown, whose message had this head.
func Show(b *Body, h Head) Shown {
	media, coding := h.Get("Content-Type"), h.codings()
	if coding == "" && !isFile(media) {
		coding = sniffed(b.Bytes)
	}
	s := Shown{Cut: b.Cut, Coding: coding}
	raw, whole, ok := decoded(coding, b.Bytes)
	if !ok && isText(b.Bytes) { // whatever its head says
		raw, whole, ok, s.Coding = b.Bytes, true, true, ""
	}
	if !ok {
		s.Kind = BodyBinary
		s.Left = "it is compressed (" + Printable(coding) + "), and cannot be read to mask its secrets"
		return s
	}
	s.Cut = s.Cut || !whole
	if plain, ok := unUTF16(raw); ok && !isFile(media) {
		raw, s.Charset = plain, "UTF-16"
	}
	s.Kind = KindOf(media, "", raw)
	if s.Kind == BodyBinary && h.Cut() && coding == "" {
		s.Left = "its head was too long to be kept, and what it is cannot be told to mask its secrets"
		return s
	}
	switch {
	case s.Kind == BodyGRPC:
		s.Bytes = raw
	case s.Kind == BodyBinary && isFile(media):
		s.Bytes = raw
	default:
		if delim := boundary(media); delim != nil && bytes.Contains(raw, delim) {
			s.Bytes = maskParts(delim, raw, 0)
		} else {
			s.Bytes = maskBody(s.Kind, raw, 0)
		}
	}
	s.Len, s.Masked = len(raw), !bytes.Equal(s.Bytes, raw)
	return s
}

// Comparable is a body as it was before it was compressed, if that can be read, and what
// of it may be printed: of JSON that is JSON with its secrets masked, of which MaskAt
// masks each value by its path as well.
func Comparable(h Head, b []byte) (plain, shown []byte) {
	plain = b
	if out, ok := Decoded(h.codings(), b); ok {
		plain = out
	}
	if json.Valid(plain) {
		return plain, MaskBody(BodyJSON, plain)
	}
	s := Show(&Body{Bytes: b}, h)
	if s.Left != "" {
		return plain, []byte("(" + s.Left + ")")
	}
	return plain, append([]byte{}, s.Bytes...) // never nil
}

// codings are all that a head says of how its body is compressed; empty: it is not.
func (h Head) codings() string {
	var all []string
	for _, f := range h.Raw() {
		if !strings.EqualFold(f.Name, "Content-Encoding") {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = strings.ToLower(strings.TrimSpace(name)); name != "" && name != "identity" {
				all = append(all, name)
			}
		}
	}
	return strings.Join(all, ", ")
}

// sniffed is the coding that bytes begin with, of a text whose head does not say it.
func sniffed(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b, 8}):
		return "gzip"
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// boundary is the line between the parts of what calls itself multipart.
func boundary(contentType string) []byte {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(media, "multipart/") || params["boundary"] == "" {
		return nil
	}
	return []byte("--" + params["boundary"])
}

// isFile says that bytes of this media type are none that have names in them. What is
// not known here may be a text with a stray byte, or in another charset.
func isFile(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		media, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		media = strings.TrimSpace(media)
	}
	kind, sub, _ := strings.Cut(media, "/")
	switch kind {
	case "image", "audio", "video", "font", "model":
		return !strings.HasSuffix(sub, "+xml")
	case "application":
		for _, word := range []string{"octet-stream", "zip", "zstd", "tar", "pdf", "wasm", "protobuf", "msgpack", "cbor", "avro", "archive", "bzip", "7z", "officedocument", "ms-", "msword", "thrift", "parquet", "grpc"} {
			if strings.Contains(sub, word) {
				return true
			}
		}
	}
	return false
}
