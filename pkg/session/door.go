package session

import (
	"errors"
	"net"
	"sync"
)

// door is a guard's listener on one address, and for a while on two, while its service
// moves from one to the other.
type door struct {
	first   net.Addr
	in      chan came
	quit    chan struct{}
	running sync.WaitGroup

	mu     sync.Mutex
	lns    map[net.Listener]bool
	closed bool
}

// came is what a listener has accepted.
type came struct {
	conn net.Conn
	err  error
}

var _ net.Listener = (*door)(nil)

func newDoor(ln net.Listener) *door {
	d := &door{first: ln.Addr(), in: make(chan came), quit: make(chan struct{}), lns: map[net.Listener]bool{}}
	d.open(ln)
	return d
}

// open takes what comes to another listener, too.
func (d *door) open(ln net.Listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = ln.Close() // nothing has come to it
		return
	}
	d.lns[ln] = true
	d.running.Go(func() {
		for {
			conn, err := ln.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case d.in <- came{conn, err}:
			case <-d.quit:
				if conn != nil {
					_ = conn.Close()
				}
				return
			}
		}
	})
}

// shut ends every listener but one. What they have accepted goes on.
func (d *door) shut(but net.Listener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for ln := range d.lns {
		if ln != but {
			_ = ln.Close()
			delete(d.lns, ln)
		}
	}
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.in:
		return c.conn, c.err
	case <-d.quit:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It returns when nothing is accepted any more.
func (d *door) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return net.ErrClosed
	}
	d.closed = true
	close(d.quit)
	var err error
	for ln := range d.lns {
		err = errors.Join(err, ln.Close())
	}
	d.mu.Unlock()
	d.running.Wait()
	return err
}

// Addr implements net.Listener.
func (d *door) Addr() net.Addr { return d.first }
