// Package wiretest stands between two ends of TCP connections and makes them slow,
// frozen or cut, as a network does, for tests and measurements. It reads nothing
// of what it carries, and never runs outside of them.
package wiretest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Wire forwards connections to one address.
type Wire struct {
	l      net.Listener
	conf   Config
	target atomic.Pointer[string]
	taken  atomic.Int64
	ctx    context.Context //nolint:containedctx // it is the wire's own life
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	thawed chan struct{} // closed while it is not frozen
	conns  map[net.Conn]bool
}

// Config is how a Wire is. The zero value is a good one.
type Config struct {
	Delay time.Duration // of each direction: half of a round trip
	Rate  int           // bytes per second in each direction; 0: no bound
	Idle  time.Duration // after which a connection without a byte is closed; 0: never
}

// queued bounds what a direction has under way, in pieces. A slow line holds less,
// as a router does.
const (
	queued     = 1024
	queuedSlow = 2
	pieceBytes = 64 << 10
)

// New starts a wire to an address.
func New(target string, c Config) (*Wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &Wire{l: l, conf: c, thawed: make(chan struct{}), conns: map[net.Conn]bool{}}
	close(w.thawed)
	w.target.Store(&target)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.wg.Go(w.accept)
	return w, nil
}

// Addr is where the wire begins.
func (w *Wire) Addr() string { return w.l.Addr().String() }

// Taken is how many connections have come.
func (w *Wire) Taken() int { return int(w.taken.Load()) }

// To leads connections that come from now on to another address.
func (w *Wire) To(target string) { w.target.Store(&target) }

// Freeze lets nothing through, and closes nothing: a cable that has been pulled.
func (w *Wire) Freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.thawed:
		w.thawed = make(chan struct{})
	default:
	}
}

// Thaw lets everything through again, what has waited too.
func (w *Wire) Thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.thawed:
	default:
		close(w.thawed)
	}
}

// Cut resets all connections.
func (w *Wire) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		_ = c.Close()
	}
}

// Close ends the wire, and waits for it.
func (w *Wire) Close() {
	w.cancel()
	_ = w.l.Close()
	w.Cut()
	w.wg.Wait()
}

func (w *Wire) hold(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
	if w.ctx.Err() != nil {
		_ = c.Close()
	}
}

func (w *Wire) drop(c net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
	_ = c.Close()
}

func (w *Wire) accept() {
	for {
		a, err := w.l.Accept()
		if err != nil {
			return
		}
		w.taken.Add(1)
		w.wg.Go(func() { w.forward(a) })
	}
}

func (w *Wire) forward(a net.Conn) {
	w.hold(a)
	defer w.drop(a)
	b, err := new(net.Dialer).DialContext(w.ctx, "tcp", *w.target.Load())
	if err != nil {
		return
	}
	w.hold(b)
	defer w.drop(b)
	idle := time.AfterFunc(time.Hour, func() { _ = a.Close(); _ = b.Close() })
	defer idle.Stop()
	touch := func() {
		if w.conf.Idle > 0 {
			idle.Reset(w.conf.Idle)
		}
	}
	touch()
	var wg sync.WaitGroup
	wg.Go(func() { w.direction(a, b, touch) })
	wg.Go(func() { w.direction(b, a, touch) })
	wg.Wait()
}

type piece struct {
	bytes []byte
	due   time.Time
}

func (w *Wire) direction(to, from net.Conn, touch func()) {
	size, length := pieceBytes, queued
	if w.conf.Rate > 0 {
		size, length = pieceBytes/8, queuedSlow
		if t, ok := from.(*net.TCPConn); ok {
			_ = t.SetReadBuffer(pieceBytes)
		}
		if t, ok := to.(*net.TCPConn); ok {
			_ = t.SetWriteBuffer(pieceBytes)
		}
	}
	pieces := make(chan piece, length)
	done := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(done)
	wg.Go(func() {
		defer close(pieces)
		for {
			b := make([]byte, size)
			n, err := from.Read(b)
			if n > 0 {
				touch()
				select {
				case pieces <- piece{b[:n], time.Now().Add(w.conf.Delay)}:
				case <-done:
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				_ = to.Close()
				return
			}
			if !w.flows() {
				return
			}
		}
	})
	var free time.Time // when the last piece has left, at the wire's rate
	for p := range pieces {
		at := p.due
		if w.conf.Rate > 0 {
			if free.Before(time.Now()) {
				free = time.Now()
			}
			free = free.Add(time.Duration(len(p.bytes)) * time.Second / time.Duration(w.conf.Rate))
			if free.After(at) {
				at = free
			}
		}
		if !w.until(at) || !w.flows() {
			return
		}
		if _, err := to.Write(p.bytes); err != nil {
			_ = from.Close()
			return
		}
	}
	if h, ok := to.(interface{ CloseWrite() error }); ok && w.flows() {
		_ = h.CloseWrite()
	}
}

// until waits for a moment. It reports whether the wire still stands.
func (w *Wire) until(at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.ctx.Done():
		return false
	}
}

// flows waits while the wire is frozen.
func (w *Wire) flows() bool {
	w.mu.Lock()
	thawed := w.thawed
	w.mu.Unlock()
	select {
	case <-thawed:
		return true
	case <-w.ctx.Done():
		return false
	}
}
