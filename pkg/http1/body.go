package http1

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

// Limits of a chunked body's framing, in bytes.
const (
	maxChunkLine = 4 << 10
	maxTrailer   = 64 << 10
)

// Framing says how a body ends (RFC 9112, 6.3).
type Framing int

// The framings.
const (
	NoBody Framing = iota
	ByLength
	ByChunks
	ByClose
)

// Framing of a request's body, and its length for ByLength.
func (r *Request) Framing() (Framing, int64) {
	switch {
	case r.Chunked:
		return ByChunks, 0
	case r.Length > 0:
		return ByLength, r.Length
	}
	return NoBody, 0
}

// Framing of a response's body, and its length for ByLength. method is the
// request's.
func (r *Response) Framing(method string) (Framing, int64) {
	switch {
	case method == "HEAD", r.Status < 200, r.Status == 204, r.Status == 304:
		return NoBody, 0
	case r.Chunked:
		return ByChunks, 0
	case r.Length > 0:
		return ByLength, r.Length
	case r.Length == 0:
		return NoBody, 0
	}
	return ByClose, 0
}

// Body reads the body of one message. A Read that fails with a deadline loses
// nothing: it can be repeated.
type Body struct {
	r       *Reader
	framing Framing
	left    int64 // of the body, or of the chunk
	state   state
	// Trailer are the fields behind a chunked body, there when its end was read.
	Trailer []Field
	err     error // why it ended too early, or io.EOF
}

type state int

const (
	inData state = iota
	inSize
	inDataEnd
	inTrailer
)

// Reset begins the body of another message.
func (b *Body) Reset(r *Reader, f Framing, length int64) {
	*b = Body{r: r, framing: f, left: length, Trailer: b.Trailer[:0]}
	switch f {
	case NoBody:
		b.err = io.EOF
	case ByChunks:
		b.state = inSize
	}
}

// Ended reports whether the whole body was read.
func (b *Body) Ended() bool { return errors.Is(b.err, io.EOF) }

// Left is how many bytes a body by length still has, else -1.
func (b *Body) Left() int64 {
	if b.framing == ByLength {
		return b.left
	}
	return -1
}

// Ready reports whether Read has something to give, its end among it, without
// reading from the connection.
func (b *Body) Ready() bool {
	for {
		if b.err != nil {
			return true
		}
		have := b.r.Buffered()
		switch {
		case b.state == inData:
			return len(have) > 0
		case !b.step(have):
			return b.err != nil
		}
	}
}

// Read gives bytes of the body, without its framing.
func (b *Body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if b.err != nil {
			return 0, b.err
		}
		if b.state == inData {
			break
		}
		if !b.step(b.r.Buffered()) && b.err == nil {
			if err := b.r.Fill(maxTrailer); err != nil {
				return 0, b.fail(err)
			}
		}
	}
	if b.framing != ByClose && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	if b.framing != ByClose {
		if b.left -= int64(n); b.left == 0 {
			err = nil // what comes next is not this body's
			if b.framing == ByLength {
				b.err = io.EOF
			} else {
				b.state = inDataEnd
			}
		}
	}
	if err == nil {
		return n, nil
	}
	if b.framing == ByClose && errors.Is(err, io.EOF) {
		b.err = io.EOF
		return n, io.EOF
	}
	return n, b.fail(err)
}

// fail remembers an error that repeating does not help.
func (b *Body) fail(err error) error {
	var wait interface{ Timeout() bool }
	if errors.As(err, &wait) && wait.Timeout() {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	b.err = err
	return err
}

// step takes one piece of a chunked body's framing out of what is buffered. It
// is false if the piece is not all there, or wrong.
func (b *Body) step(have []byte) bool {
	if b.state == inDataEnd {
		switch {
		case len(have) < 2:
			return false
		case have[0] != '\r' || have[1] != '\n':
			b.err = bad("a chunk is longer than it says")
			return false
		}
		b.r.Discard(2)
		b.state = inSize
		return true
	}
	i := bytes.IndexByte(have, '\n')
	limit := maxChunkLine
	if b.state == inTrailer {
		limit = maxTrailer
	}
	switch {
	case i < 0 && len(have) >= limit || i >= limit:
		b.err = bad("a line of the body's framing is too long")
		return false
	case i < 0:
		return false
	case i == 0 || have[i-1] != '\r':
		b.err = bad("a line feed without a carriage return in the body's framing")
		return false
	}
	line := have[:i-1]
	if b.state == inTrailer {
		if len(line) == 0 {
			b.r.Discard(i + 1)
			b.err = io.EOF
			return true
		}
		f, err := parseField(string(line))
		if err == nil && b.left+int64(len(line)) > maxTrailer {
			err = bad("the trailer is too large")
		}
		if err != nil {
			b.err = err
			return false
		}
		b.left += int64(len(line))
		b.Trailer = append(b.Trailer, f)
		b.r.Discard(i + 1)
		return true
	}
	n, ok := chunkSize(line)
	if !ok {
		b.err = bad("a chunk's size is no number")
		return false
	}
	b.r.Discard(i + 1)
	b.left, b.state = n, inData
	if n == 0 {
		b.state = inTrailer
	}
	return true
}

// chunkSize reads the line before a chunk: hexadecimal digits, and extensions
// that are for nobody but us.
func chunkSize(line []byte) (n int64, ok bool) {
	i := 0
	for ; i < len(line); i++ {
		c := line[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			rest := bytes.TrimLeft(line[i:], " \t")
			return n, i > 0 && (len(rest) == 0 || rest[0] == ';') && validValue(string(rest))
		}
		if i == 15 {
			return 0, false
		}
		n = n<<4 | int64(c)
	}
	return n, i > 0
}

// AppendChunkSize appends the line before a chunk of n bytes.
func AppendChunkSize(dst []byte, n int) []byte {
	dst = strconv.AppendUint(dst, uint64(n), 16)
	return append(dst, '\r', '\n')
}
