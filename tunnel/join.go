package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Join copies between two connections until both directions have ended, then
// closes both. Each direction ends by itself: an end of file becomes a CloseWrite
// of the other connection, and where a reader has gone, what flows the other way
// still arrives. A cut is passed on as a cut, never as an end. Join returns the
// first error, or why ctx ended. While nothing comes it holds 8 KiB.
func Join(ctx context.Context, a, b net.Conn) error {
	return JoinTelling(ctx, a, b, func(error) {})
}

// JoinTelling is Join that tells why it closes both, nil for an end, before it does so:
// who sees one of them end can have heard of it.
func JoinTelling(ctx context.Context, a, b net.Conn, tell func(why error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	cut := make(chan struct{})
	ended := context.AfterFunc(ctx, func() {
		defer close(cut)
		tell(context.Cause(ctx))
		cutOff(a, context.Cause(ctx))
		cutOff(b, context.Cause(ctx))
	})
	var (
		wg   sync.WaitGroup
		once sync.Once
		err  error
	)
	for _, d := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			whole, why := direction(d[0], d[1])
			if why == nil {
				return
			}
			once.Do(func() { err = why })
			if whole {
				cancel(why)
			}
		})
	}
	wg.Wait()
	if ended() {
		tell(err)
		_ = a.Close()
		_ = b.Close()
	} else {
		<-cut
		err = first(err, context.Cause(ctx))
	}
	cancel(nil)
	return err
}

// direction copies what comes from one connection to the other. whole says that
// the error is one of both directions.
func direction(to, from net.Conn) (whole bool, err error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	s, ok := to.(*stream)
	if ok {
		wg.Go(func() {
			select {
			case <-s.stopped: // nothing may come out of "from" for long
				_ = from.SetReadDeadline(past)
			case <-done:
			}
		})
	}
	readErr, writeErr := move(to, from)
	switch {
	case writeErr != nil, ok && s.givenUp():
		if f, ok := from.(*stream); ok {
			f.closeRead()
		}
		return false, first(writeErr, errStopped)
	case readErr != nil:
		return true, readErr
	}
	if h, ok := to.(interface{ CloseWrite() error }); ok {
		return false, h.CloseWrite()
	}
	return false, nil
}

// cutOff ends a connection so that its other end can tell it from a proper end.
func cutOff(c net.Conn, why error) {
	switch c := c.(type) {
	case Stream:
		r := asRefusal(why, 502)
		c.Abort(r.Code, r.Text)
	case *net.TCPConn:
		_ = c.SetLinger(0) // RST instead of FIN
		_ = c.Close()
	default:
		_ = c.Close()
	}
}

var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// move copies until an end of file or an error. Most connections wait most of the
// time: they get a large buffer when a small one has been filled, and give it back
// when it was not needed.
func move(to, from net.Conn) (readErr, writeErr error) {
	small := make([]byte, 4<<10)
	buf := small
	var large *[chunk]byte
	defer func() {
		if large != nil {
			buffers.Put(large)
		}
	}()
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		case large == nil && n == len(small):
			large = buffers.Get().(*[chunk]byte)
			buf = large[:]
		case large != nil && n < len(small):
			buffers.Put(large)
			large, buf = nil, small
		}
	}
}
