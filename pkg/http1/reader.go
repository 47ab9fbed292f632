package http1

import (
	"bytes"
	"errors"
	"io"
)

const bufferSize = 8 << 10

// ErrHeadTooLarge is returned for a head that is longer than it may be.
var ErrHeadTooLarge = &Error{Status: 431, Why: "the head is too large"}

// Reader reads one side of a connection through a buffer that grows for a long
// head. A read that fails with a deadline loses nothing: it can be repeated.
type Reader struct {
	src  io.Reader
	buf  []byte
	r, w int // buf[r:w] is not consumed yet
}

// NewReader makes a Reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Buffered is what has been read and not consumed. It is valid until the next
// call.
func (r *Reader) Buffered() []byte { return r.buf[r.r:r.w] }

// Discard consumes n buffered bytes.
func (r *Reader) Discard(n int) {
	if r.r += n; r.r == r.w {
		r.r, r.w = 0, 0
	}
}

// Fill reads once more into the buffer, and waits for at least one byte. The
// buffer never grows over limit bytes; a full one is ErrHeadTooLarge.
func (r *Reader) Fill(limit int) error {
	switch {
	case r.r > 0 && r.w == len(r.buf):
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	case r.w == len(r.buf) && len(r.buf) >= limit && len(r.buf) > 0:
		return ErrHeadTooLarge
	case r.w == len(r.buf):
		grown := make([]byte, min(max(bufferSize, 2*len(r.buf)), max(limit, bufferSize)))
		copy(grown, r.buf[:r.w])
		r.buf = grown
	}
	for range 100 {
		n, err := r.src.Read(r.buf[r.w:])
		r.w += n
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// Read gives what is buffered, else reads past the buffer.
func (r *Reader) Read(p []byte) (int, error) {
	if r.r == r.w {
		r.shrink()
		return r.src.Read(p)
	}
	n := copy(p, r.buf[r.r:r.w])
	r.Discard(n)
	return n, nil
}

// shrink lets go of a buffer that a long head made large.
func (r *Reader) shrink() {
	if len(r.buf) > 4*bufferSize {
		r.buf = nil
	}
}

// Head waits for a whole head and consumes it: the first line, the fields and
// the empty line that ends them. Of an empty line before it, which old programs
// send after a body, it makes nothing (RFC 9112, 2.2).
//
// wait is called before it waits for more than is buffered.
//
// Its end is found as a lenient program would find it: a head with bare line
// feeds is to be refused now, and not waited for.
func (r *Reader) Head(limit int, wait func()) (string, error) {
	if r.r == r.w {
		r.shrink()
	}
	seen := 0
	for {
		b := r.buf[r.r:r.w]
		if seen == 0 && len(b) >= 2 && b[0] == '\r' && b[1] == '\n' {
			r.Discard(2)
			b = b[2:]
		}
		if n := headEnd(b, seen); n > 0 {
			if n > limit {
				return "", ErrHeadTooLarge
			}
			head := string(b[:n])
			r.Discard(n)
			return head, nil
		}
		if err := beginning(b); err != nil {
			return "", err
		}
		if seen = max(len(b)-3, 0); len(b) >= limit {
			return "", ErrHeadTooLarge
		}
		if wait != nil {
			wait()
			wait = nil
		}
		if err := r.Fill(limit); err != nil {
			if errors.Is(err, io.EOF) && r.r != r.w {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
	}
}

// beginning refuses what no head begins with, which would be waited for in vain.
func beginning(b []byte) error {
	switch {
	case len(b) == 0, b[0] == '\r', b[0] == '\n', tokens[b[0]]:
		return nil
	case b[0] == recordHandshake, b[0] == recordAlert:
		return bad("it is TLS, where HTTP is spoken without it")
	}
	return bad("it does not begin as HTTP does")
}

// Types of the record that a TLS connection begins with (RFC 8446, 5.1).
const recordHandshake, recordAlert = 0x16, 0x15

// headEnd is the length of the head that b begins with, 0 if its end is not
// there. from is where no end begins before.
func headEnd(b []byte, from int) int {
	for i := from; ; {
		n := bytes.IndexByte(b[i:], '\n')
		if n < 0 {
			return 0
		}
		i += n + 1
		switch {
		case i < len(b) && b[i] == '\n':
			return i + 1
		case i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n':
			return i + 2
		}
	}
}
