package proxy

import (
	"context"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"
)

// lookup is how long names took to resolve while a connection was made. The resolver may
// answer when nobody waits for the connection any more, on a goroutine of its own.
type lookup struct {
	now   func() time.Time
	began atomic.Int64
	took  atomic.Int64
}

func (l *lookup) start(httptrace.DNSStartInfo) { l.began.Store(l.now().UnixNano()) }
func (l *lookup) done(httptrace.DNSDoneInfo)   { l.took.Add(max(l.now().UnixNano()-l.began.Load(), 0)) }

// byName reports whether the host of an address has to be looked up.
func byName(addr string) bool {
	host, _ := splitHost(addr)
	_, err := netip.ParseAddr(host)
	return err != nil
}

// connecting notes what a connection costs that is made for a request of this record. It
// is for new ones alone: a request on one that stands pays nothing for being measured.
func (c *call) connecting(ctx context.Context, addr string) (context.Context, func()) {
	began := c.t.now()
	if !byName(addr) {
		return ctx, func() { c.connected(c.t.now().Sub(began), 0) }
	}
	names := &lookup{now: c.t.now}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSStart: names.start, DNSDone: names.done}),
		func() { c.connected(c.t.now().Sub(began), time.Duration(names.took.Load())) }
}

// connected takes the time of a connection into the record, of which dns went for its name.
func (c *call) connected(took, dns time.Duration) {
	dns = min(dns, took)
	c.ex.DNS += dns
	c.ex.Conn += took - dns
}

// hooks are what net/http tells of a request on its way: of the connection that it got,
// and of informational responses.
type hooks struct {
	names lookup
	trace httptrace.ClientTrace
	used  bool

	began time.Time
	made  time.Duration // what a connection took that was made; 0: one that stood was used
}

// got is called by the request's own goroutine, also where another one has dialled.
func (h *hooks) got(i httptrace.GotConnInfo) {
	if !i.Reused {
		h.made = h.names.now().Sub(h.began)
	}
}

// watch returns a context that has net/http tell what happens to the request.
func (c *call) watch(ctx context.Context, addr string) context.Context {
	h := &c.hooks
	trace := &h.trace
	if h.used { // a dial of the try before may still look at what that one had
		trace = new(httptrace.ClientTrace)
	} else {
		h.used, h.names.now = true, c.t.now
	}
	h.began, h.made = c.t.now(), 0
	trace.GotConn = h.got
	if c.early.w != nil {
		trace.Got1xxResponse = c.early.got
	}
	if byName(addr) {
		trace.DNSStart, trace.DNSDone = h.names.start, h.names.done
	}
	return httptrace.WithClientTrace(ctx, trace)
}

// watched takes what was told into the record: of a connection that came about, and of
// one that did not.
func (c *call) watched(refused bool) {
	h := &c.hooks
	took := h.made
	if refused {
		took = c.t.now().Sub(h.began)
	}
	if took > 0 {
		c.connected(took, time.Duration(h.names.took.Swap(0)))
	}
}
