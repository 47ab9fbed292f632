package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"lane/pkg/traffic"
)

// door is a connection inside CONNECT: what was read of it already comes first.
type door struct {
	stream
	target string // what CONNECT named
}

// doors is the listener of the inner server: it accepts what is handed in.
type doors struct {
	ch     chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*doors)(nil)

func newDoors() *doors { return &doors{ch: make(chan net.Conn), closed: make(chan struct{})} }

func (d *doors) Accept() (net.Conn, error) {
	select {
	case c := <-d.ch:
		return c, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *doors) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func (d *doors) Addr() net.Addr { return &net.TCPAddr{} }

// give hands a connection in, or closes it when nobody accepts any more.
func (d *doors) give(c net.Conn) {
	select {
	case d.ch <- c:
	case <-d.closed:
		c.Close()
	}
}

// handIn gives a connection to the inner server, which closes it from now on.
func (f *Forward) handIn(c *call, w *writer, h *held, conf *tls.Config) {
	if h.settled() == kindTLS {
		f.open(c, w, h, conf)
		return
	}
	w.given = true
	f.srv.handOver(h.Conn)
	f.serveInside(&door{replay(h.Conn, string(h.buf)), c.asked}, c.asked, nil)
}

// serveInside gives the inside of a tunnel to the inner server: over is its TLS,
// or nil.
func (f *Forward) serveInside(conn net.Conn, target string, over *tls.Conn) {
	l := newLine(f.inner, conn)
	l.target = target
	if over != nil {
		state := over.ConnectionState()
		l.tls = &state
	}
	f.inner.take(l)
}

// lineInside serves a request that came inside CONNECT as HTTP/1.
func (f *Forward) lineInside(l *line) {
	req := &l.req
	asked := strings.TrimSuffix(l.target, ":80")
	if l.tls != nil || req.Method == http.MethodConnect || req.Target[0] != '/' && req.Target != "*" || !plainHost(asked) {
		l.handle(f.inside, l.target)
		return
	}
	host := req.Host
	if host == "" {
		host = asked
	}
	tgt := target(req.Target)
	f.send(l, asked, host, "http://"+asked+req.Target, tgt, func() { l.handle(f.inside, l.target) })
}

type doorKey struct{}

// withDoor lets the inner server's handler see what CONNECT named: net/http has
// no other way from a connection to its requests.
func withDoor(ctx context.Context, c net.Conn) context.Context {
	_ = c.SetReadDeadline(time.Now().Add(headWait)) // the preface is waited for without one
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, doorKey{}, c.(*door).target)
}

// inside serves a request that came inside CONNECT: as if it had come in absolute
// form, for the host that CONNECT named. The Host header stays as it is.
func (f *Forward) inside(w *writer, r *http.Request) {
	if r.Method == http.MethodConnect {
		refuseTarget(w, "no tunnel inside a tunnel", "send this CONNECT on a connection of its own to the proxy")
		return
	}
	if r.URL.IsAbs() && f.t.self.has(r.URL.Scheme, r.URL.Host) {
		f.page(w, r)
		return
	}
	target, _ := r.Context().Value(doorKey{}).(string)
	host := r.Host
	r.URL.Scheme = "http"
	if r.TLS != nil {
		r.URL.Scheme = "https"
	}
	r.Host = strings.TrimSuffix(target, ":"+defaultPort(r.URL.Scheme))
	r.URL.Host = r.Host
	c := f.t.newCall(traffic.FrontForward, r)
	if host != "" {
		c.host = host
	}
	if why := f.misdirected(r, target); why != "" {
		f.answer(c, w, r, &Problem{Code: CodeBadTarget, Message: why, Hint: "open a tunnel of its own to it", status: http.StatusMisdirectedRequest}, nil)
		return
	}
	f.proxy(w, r, c)
}
