package proxy

import (
	"io"
	"sync"
)

// detached is the body of an HTTP/1 caller on its way to a server that may speak
// HTTP/2. That transport waits, when it has the whole answer, for the body's last
// read to end, and an HTTP/1 body that waits for the caller cannot be interrupted:
// who answers before the upload has ended would never be heard. A read of this one
// ends with Close; the one below it ends with the caller, or with the handler.
type detached struct {
	in   io.ReadCloser
	next chan piece
	gone chan struct{}

	begin, end sync.Once
	have       piece
}

// piece is what one read gave.
type piece struct {
	buf  *[]byte
	left []byte
	err  error
}

func detach(in io.ReadCloser) *detached {
	return &detached{in: in, next: make(chan piece), gone: make(chan struct{})}
}

// pump reads until the body ends or nobody wants it.
func (d *detached) pump() {
	for {
		buf := buffers.Get().(*[]byte)
		n, err := d.in.Read(*buf)
		select {
		case d.next <- piece{buf, (*buf)[:n], err}:
		case <-d.gone:
			buffers.Put(buf)
			return
		}
		if err != nil {
			return
		}
	}
}

// Read gives what was read; it is called by one goroutine at a time. The first one
// begins it: before, a caller that waits for 100 Continue has not been told to send.
func (d *detached) Read(p []byte) (int, error) {
	d.begin.Do(func() { go d.pump() })
	for len(d.have.left) == 0 {
		if d.have.err != nil {
			return 0, d.have.err
		}
		if d.have.buf != nil {
			buffers.Put(d.have.buf)
			d.have.buf = nil
		}
		select {
		case d.have = <-d.next:
		case <-d.gone:
			return 0, errBodyGone
		}
	}
	n := copy(p, d.have.left)
	d.have.left = d.have.left[n:]
	return n, nil
}

// Close ends a read. The body itself is closed by the server that it is from.
func (d *detached) Close() error {
	d.end.Do(func() { close(d.gone) })
	return nil
}

// endRead ends whatever reads the caller's body, when its connection's deadline
// has passed.
func (b *reqBody) endRead() {
	b.in.Close()
	if d, ok := b.in.(*detached); ok {
		d.in.Close() // waits for the read below
	}
}
