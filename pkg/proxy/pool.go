package proxy

import (
	"context"
	"net"
	"sync"
	"time"

	"lane/pkg/http1"
)

// Limits of the connections that wait to be used again.
const (
	maxIdle = 512 // to one address
	// idleFor is under what servers commonly allow.
	idleFor = 30 * time.Second
)

// peer is a connection to a server that speaks HTTP/1.1.
type peer struct {
	conn  net.Conn
	addr  string
	in    *http1.Reader
	look  *look
	since time.Time // idle since
	till  time.Time // the read deadline that is set, zero for none
}

// hurry lets reading fail with a deadline between wait and twice that from now:
// to set it anew for each request would cost more than the difference is worth.
func (x *peer) hurry(wait time.Duration) {
	now := time.Now()
	if left := x.till.Sub(now); left < wait || left > 2*wait {
		x.till = now.Add(2 * wait)
		_ = x.conn.SetReadDeadline(x.till)
	}
}

// calm takes the deadline back.
func (x *peer) calm() {
	if !x.till.IsZero() {
		x.till = time.Time{}
		_ = x.conn.SetReadDeadline(x.till)
	}
}

// pool keeps connections to servers. Whoever takes one writes and reads on it
// himself: there is no goroutine for a connection, busy or idle.
type pool struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// once keeps none: whether a connection inside a tunnel has ended cannot be seen
	// without reading, and to open one costs no round trip.
	once bool

	mu     sync.Mutex
	idle   map[string][]*peer // the last one was used last
	sweep  *time.Timer
	closed bool
}

// take gives an idle connection to addr, nil if there is none. Each is looked at,
// also one that was used just now: bytes that came behind an answer must not be
// the answer to somebody else.
func (p *pool) take(addr string, now time.Time) *peer {
	for {
		x := p.last(addr)
		if x == nil || now.Sub(x.since) < idleFor && !x.look.ended() {
			return x
		}
		x.conn.Close()
	}
}

func (p *pool) last(addr string) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.idle[addr]
	n := len(list) - 1
	if n < 0 {
		return nil
	}
	x := list[n]
	list[n] = nil
	p.idle[addr] = list[:n]
	return x
}

// connect makes a new connection.
func (p *pool) connect(ctx context.Context, addr string) (*peer, error) {
	conn, err := p.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &peer{conn: conn, addr: addr, in: http1.NewReader(conn), look: newLook(conn)}, nil
}

// put keeps a connection for later.
func (p *pool) put(x *peer, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.once || len(p.idle[x.addr]) >= maxIdle {
		x.conn.Close()
		return
	}
	x.since = now
	if p.idle == nil {
		p.idle = map[string][]*peer{}
	}
	p.idle[x.addr] = append(p.idle[x.addr], x)
	if p.sweep == nil {
		p.sweep = time.AfterFunc(idleFor, p.expire)
	}
}

// expire closes what was idle for too long. It comes again while there is
// something idle.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	till := time.Now().Add(-idleFor)
	for addr, list := range p.idle {
		n := 0
		for n < len(list) && list[n].since.Before(till) {
			list[n].conn.Close()
			n++
		}
		switch {
		case n == len(list):
			delete(p.idle, addr)
		case n > 0:
			p.idle[addr] = append(list[:0:0], list[n:]...)
		}
	}
	p.sweep = nil
	if len(p.idle) > 0 {
		p.sweep = time.AfterFunc(idleFor, p.expire)
	}
}

// close ends all that is idle, now and later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, list := range p.idle {
		for _, x := range list {
			x.conn.Close()
		}
	}
	p.idle = nil
}
