package tunnel

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stream is one connection inside a link. Each direction ends by itself: after
// CloseWrite the other end reads io.EOF, and may go on writing. Close ends both:
// what the other end still writes fails at once, and what was written to it before
// arrives. Abort cuts both, and the other end's Read and Write return the *Refusal.
// A lost link is ErrLost and never io.EOF.
type Stream interface {
	net.Conn
	CloseWrite() error
	Abort(code int, text string)
}

var _ Stream = (*stream)(nil)

// chunk is how many bytes of one stream go into the connection at once: the next
// stream's turn comes after them.
const chunk = 32 << 10

// share makes a stream's turn smaller when many write and may, so that together they queue
// no more than 128 KiB, or half a megabyte when they are 256. A ping waits behind
// that, and on a slow line its answer must come in time.
func share(writers int64) int {
	return min(chunk, max(128<<10/int(max(writers, 1)), 2<<10))
}

// stream adds to a stream of the session what that has not: an end that the other
// side is told of, with a reason, and one that says when it was the link's.
type stream struct {
	raw rawStream
	mux *mux
	own bool // opened at this end, so it holds one of the mux's slots
	// toll is what its bytes pass behind its header; nil: they are free. It is set
	// before anybody else reads or writes.
	toll *toll

	unread  int          // bytes, under the mux's lock
	granted atomic.Int64 // bytes that the other end will take, as far as is known
	last    atomic.Int64 // when a byte last went through, in the mux's time
	gotEOF  atomic.Bool
	stopped chan struct{} // closed when the other end does not want to read on
	cut     chan struct{} // closed when it was aborted, here or there, or the link is lost
	shut    chan struct{} // closed by Close and Abort

	readBy, writeBy atomic.Int64 // deadlines, in Unix nanoseconds; 0: none

	mu        sync.Mutex
	err       error // why it was cut
	wroteEOF  bool
	closed    bool
	isStopped bool
}

func newStream(raw rawStream, m *mux, own bool) *stream {
	s := &stream{raw: raw, mux: m, own: own, stopped: make(chan struct{}), cut: make(chan struct{}), shut: make(chan struct{})}
	s.touch()
	return s
}

func (s *stream) touch() { s.last.Store(s.mux.now()) }

func (s *stream) Read(p []byte) (int, error) {
	if err := s.failed(); err != nil {
		return 0, err
	}
	if t := s.toll; t != nil {
		t.wait(s, t.quota.in, &s.readBy)
	}
	if late(&s.readBy) {
		return 0, first(s.failed(), os.ErrDeadlineExceeded)
	}
	n, err := s.raw.Read(p)
	if n > 0 {
		s.touch()
		s.mux.in.Add(uint64(n))
		if t := s.toll; t != nil {
			t.came(n)
		}
		s.mux.taken(s, n)
	}
	if err == nil {
		return n, nil
	}
	if why := s.failed(); why != nil {
		return n, why
	}
	if errors.Is(err, io.EOF) {
		// The end of the session looks like that of the stream.
		if s.mux.ended() {
			return n, ErrLost
		}
		s.gotEOF.Store(true)
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	written := 0
	for {
		if err := s.failed(); err != nil {
			return written, err
		}
		if t := s.toll; t != nil {
			t.wait(s, t.quota.out, &s.writeBy)
		}
		if late(&s.writeBy) {
			return written, first(s.failed(), os.ErrDeadlineExceeded)
		}
		n, err := s.turn(p[written:])
		written += n
		s.mux.out.Add(uint64(n))
		if n > 0 {
			s.touch()
			if t := s.toll; t != nil {
				t.went(n)
			}
		}
		if err != nil {
			if why := s.failed(); why != nil {
				err = why
			} else if s.mux.ended() {
				err = ErrLost
			} else if s.givenUp() {
				err = errStopped
			}
			return written, err
		}
		if written == len(p) {
			return written, nil
		}
	}
}

// turn writes as much as is this stream's share. Where the other end has granted
// nothing, it waits for that, and queues nothing.
func (s *stream) turn(p []byte) (int, error) {
	granted := s.granted.Load()
	if granted <= 0 {
		n, err := s.raw.Write(p[:min(len(p), 2<<10)])
		s.granted.Add(-int64(n))
		return n, err
	}
	n := min(int64(len(p)), int64(share(s.mux.writers.Add(1))), granted)
	defer s.mux.writers.Add(-1)
	w, err := s.raw.Write(p[:n])
	s.granted.Add(-int64(w))
	return w, err
}

// failed is why the stream was cut; an own Close counts.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil && s.closed {
		return net.ErrClosed
	}
	return s.err
}

func (s *stream) givenUp() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

var errStopped = refuse(499, "the other end does not read on")

func (s *stream) CloseWrite() error {
	s.mu.Lock()
	done := s.wroteEOF
	s.wroteEOF = true
	s.mu.Unlock()
	if !done {
		s.raw.CloseWrite()
	}
	return nil
}

// closeRead tells the other end that nothing more is read here.
func (s *stream) closeRead() {
	if !s.gotEOF.Load() && s.failed() == nil {
		s.mux.send(message{Type: msgStop, Stream: s.raw.ID()})
	}
}

// Close may be called by anybody at any time; a blocked Read or Write returns.
func (s *stream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.shut)
	cut := s.err != nil
	s.mu.Unlock()
	s.wake()
	_ = s.CloseWrite()
	if !s.gotEOF.Load() && !cut {
		s.mux.send(message{Type: msgStop, Stream: s.raw.ID()})
	}
	s.mux.forget(s)
	return nil
}

func (s *stream) Abort(code int, text string) {
	why := refuse(code, "%s", text)
	if !s.fail(why) {
		_ = s.Close()
		return
	}
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.shut)
	}
	s.mu.Unlock()
	s.mux.send(message{Type: msgAbort, Stream: s.raw.ID(), Code: code, Text: clip(text, maxNote)})
	s.mux.later(s.bury)
}

// bury ends the own direction of an aborted stream when the other end has
// confirmed the message: it would take this end for a proper one otherwise.
func (s *stream) bury() {
	late := time.NewTimer(s.mux.timing.handshake)
	defer late.Stop()
	select {
	case <-s.stopped:
	case <-s.mux.sess.Done():
	case <-late.C:
	}
	_ = s.CloseWrite()
	s.mux.forget(s)
}

// fail cuts the stream, for err. It reports whether nobody had done so before.
func (s *stream) fail(err error) bool {
	s.mu.Lock()
	if s.err != nil || s.closed {
		s.mu.Unlock()
		return false
	}
	s.err = err
	close(s.cut)
	s.mu.Unlock()
	s.wake()
	return true
}

// stop is called when the other end has closed: what is written now would be for
// nobody. Ending the own direction frees the stream at both ends.
func (s *stream) stop() {
	s.mu.Lock()
	if s.isStopped {
		s.mu.Unlock()
		return
	}
	s.isStopped = true
	close(s.stopped)
	s.mu.Unlock()
	_ = s.raw.SetWriteDeadline(past)
	_ = s.CloseWrite()
}

// past wakes whoever waits with a deadline that has been.
var past = time.Unix(1, 0)

func (s *stream) wake() {
	_ = s.raw.SetReadDeadline(past)
	_ = s.raw.SetWriteDeadline(past)
}

func (s *stream) SetDeadline(t time.Time) error {
	return first(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

func (s *stream) SetReadDeadline(t time.Time) error {
	return s.deadline(s.raw.SetReadDeadline, &s.readBy, t)
}

func (s *stream) SetWriteDeadline(t time.Time) error {
	return s.deadline(s.raw.SetWriteDeadline, &s.writeBy, t)
}

// deadline never takes back the one that wakes a stream that has ended.
func (s *stream) deadline(set func(time.Time) error, by *atomic.Int64, t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return s.err
	case s.closed:
		return net.ErrClosed
	}
	if by.Store(0); !t.IsZero() {
		by.Store(t.UnixNano())
	}
	return set(t)
}

// late says that a deadline has passed. Behind it nothing is read or written, as of any
// connection; a session would give what lies ready, and who sets a deadline to be woken
// would read on without waiting at the toll.
func late(by *atomic.Int64) bool {
	at := by.Load()
	return at != 0 && time.Now().UnixNano() >= at
}

func (s *stream) LocalAddr() net.Addr  { return addr("tunnel") }
func (s *stream) RemoteAddr() net.Addr { return addr(s.mux.peer) }

// addr is where a stream comes from: the link's name, which nobody can dial.
type addr string

func (addr) Network() string  { return "tunnel" }
func (a addr) String() string { return string(a) }

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func clip(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return s
}
