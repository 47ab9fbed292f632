package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lane/pkg/http1"
	"lane/pkg/lane"
)

var (
	errBodyGone   = errors.New("the request's body has already been sent")
	errWrong101   = errors.New("the server switched protocols without being asked")
	errNoInstance = errors.New("no instance is left")
	errSelf       = errors.New("it is this proxy itself")
)

// DialError is a connection that could not be made: no byte of the request has
// left, so another instance may be tried.
type DialError struct {
	Addr string
	Err  error
}

func (e *DialError) Error() string { return fmt.Sprintf("connect to %s: %v", e.Addr, e.Err) }
func (e *DialError) Unwrap() error { return e.Err }

// dialer makes TCP connections, always with a deadline.
type dialer struct {
	timeout time.Duration
	// order, if set, is dialled in turn instead of the address that is asked for.
	order []string
	// self are never dialled, whatever name led there.
	self *ownAddrs
	// via, if set, makes the connections in place of the network.
	via func(ctx context.Context, addr string) (net.Conn, error)
	// barred, if set, says why an address is not dialled.
	barred func(ctx context.Context, addr string) error
}

// LinkError says that a tunnel broke under a connection, or that there is none, or
// no room in it.
type LinkError struct {
	Err  error
	Busy bool // there is a tunnel, and no room in it
}

func (e *LinkError) Error() string { return e.Err.Error() }
func (e *LinkError) Unwrap() error { return e.Err }

// FarError says that the other end of a tunnel does not connect to a server: in words of
// its own, which belong behind "does not connect to …: ".
type FarError struct {
	Text string
	Hint string // empty: that of any server that takes no connection
	Err  error
}

func (e *FarError) Error() string { return e.Text }
func (e *FarError) Unwrap() error { return e.Err }

func (d dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.via != nil {
		// The context of a dial has the connection's life with some callers.
		dctx, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		conn, err := d.via(dctx, addr)
		if err != nil {
			return nil, &DialError{Addr: addr, Err: err}
		}
		return conn, nil
	}
	nd := net.Dialer{Timeout: d.timeout, ControlContext: func(ctx context.Context, _, resolved string, _ syscall.RawConn) error {
		if d.self.has("", resolved) {
			return errSelf
		}
		if d.barred != nil {
			return d.barred(ctx, resolved)
		}
		return nil
	}}
	if len(d.order) == 0 {
		conn, err := nd.DialContext(ctx, network, addr)
		if err != nil {
			return nil, &DialError{Addr: addr, Err: err}
		}
		return conn, nil
	}
	var first error
	for _, a := range d.order {
		conn, err := nd.DialContext(ctx, network, a)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, &DialError{Addr: d.order[0], Err: first}
}

// newHTTP is a transport that changes nothing and keeps its connections.
func newHTTP(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	return &http.Transport{
		DialContext:           dial,
		MaxIdleConns:          0,
		MaxIdleConnsPerHost:   512,
		IdleConnTimeout:       30 * time.Second, // under what servers commonly allow
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
	}
}

// ways are the two protocols to one kind of servers: what came as HTTP/2 without
// TLS goes on as that, and all else as it always did. A protocol is never changed
// on the way: a gRPC server does not speak the other one.
type ways struct {
	plain *http.Transport
	h2c   *http.Transport
}

// newH2C is a transport that speaks HTTP/2 with prior knowledge. It sends no
// pings of its own: gRPC servers end a connection that has too many.
func newH2C(dial func(context.Context, string, string) (net.Conn, error)) *http.Transport {
	t := newHTTP(dial)
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func newWays(dial func(context.Context, string, string) (net.Conn, error)) ways {
	return ways{newHTTP(dial), newH2C(dial)}
}

func (w *ways) of(h2 bool, scheme string) *http.Transport {
	if h2 && scheme == "http" {
		return w.h2c
	}
	return w.plain
}

func (w *ways) close() {
	w.plain.CloseIdleConnections()
	w.h2c.CloseIdleConnections()
}

// ejected are the instances that have just refused a connection, and where.
type ejected struct {
	hold time.Duration
	live atomic.Int32 // entries, so that the usual case takes no lock
	mu   sync.Mutex
	of   map[string]refusal
}

type refusal struct {
	till time.Time
	addr string
}

func (e *ejected) add(id, addr string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]refusal{}
	}
	e.of[id] = refusal{now.Add(e.hold), addr}
	e.live.Store(int32(len(e.of)))
}

// answered forgets an instance that has just answered: a connection that came too
// late, or was turned away in a rush, must not cost all the others.
func (e *ejected) answered(id string) {
	if e.live.Load() == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of, id)
	e.live.Store(int32(len(e.of)))
}

// now lists the IDs that are still to be skipped among the instances of a service, and
// forgets the others: those that are registered elsewhere by now, as a laptop's at another
// relay, have not refused there.
func (e *ejected) now(cat *lane.Catalog, service string, now time.Time) []string {
	if e.live.Load() == 0 {
		return nil
	}
	s := cat.Service(service)
	e.mu.Lock()
	defer e.mu.Unlock()
	var ids []string
	for id, r := range e.of {
		if now.Before(r.till) && !moved(s, id, r.addr) {
			ids = append(ids, id)
		} else {
			delete(e.of, id)
		}
	}
	e.live.Store(int32(len(e.of)))
	return ids
}

// moved reports whether a service has an instance, and not at that address.
func moved(s *lane.Service, id, addr string) (elsewhere bool) {
	if s == nil {
		return false
	}
	for i := range s.Instances {
		switch in := &s.Instances[i]; {
		case in.ID != id:
		case in.Addr == addr:
			return false
		default:
			elsewhere = true
		}
	}
	return elsewhere
}

// reach tries the instances of a decision until one takes the connection. It
// asks the router again without those that refused, and stays inside the same
// set: a lane's request never ends in the baseline because a lane's instance
// was away. On success dec is the decision that served.
func (c *call) reach(ctx context.Context, cat *lane.Catalog, ask *lane.Request, dec *lane.Decision,
	try func(*lane.Instance) error,
) (*lane.Instance, error) {
	kind, lan := dec.Kind, dec.Lane
	last := errNoInstance
	left := false
	for {
		in := lane.Pick(dec, c.t.picks.Add(1))
		if in == nil {
			return nil, last
		}
		c.ex.Tries++
		c.ex.Instance, c.ex.Addr = in.ID, in.Addr
		if !left { // before the answer: many may be waited for
			left = c.t.crossed.sent(ask, dec, in)
		}
		err := try(in)
		if err == nil {
			c.t.ejected.answered(in.ID)
			return in, nil
		}
		if ctx.Err() != nil {
			return in, err
		}
		var refused *DialError
		if !errors.As(err, &refused) {
			return in, err
		}
		last = err
		c.t.ejected.add(in.ID, in.Addr, c.t.now())
		ask.Excluded = append(ask.Excluded, in.ID)
		c.t.router.DecideInto(dec, cat, ask)
		if dec.Kind != kind || dec.Lane != lan {
			return in, last
		}
	}
}

// sendService sends a request to an instance of a service.
func (c *call) sendService(req *http.Request, cat *lane.Catalog, ask *lane.Request, dec *lane.Decision) (*http.Response, error) {
	kind, lan := dec.Kind, dec.Lane
	var resp *http.Response
	in, err := c.reach(req.Context(), cat, ask, dec, func(in *lane.Instance) (err error) {
		resp, err = c.toInstance(req, in)
		return err
	})
	if err != nil {
		return c.lost(req, err, lan, in)
	}
	dec.Kind, dec.Lane = kind, lan
	c.cleanResponse(resp)
	if p := c.inner(resp.Header.Get(lane.HeaderError), resp.StatusCode, resp.Header.Get("Grpc-Status")); p != nil {
		resp.Body.Close()
		return c.replaced(req, p, c.says(dec, in)), nil
	}
	resp.Header[lane.HeaderDecision] = []string{c.says(dec, in)}
	return c.answered(resp), nil
}

// sendOut sends a request to a host that is no service.
func (c *call) sendOut(req *http.Request, dec *lane.Decision) (*http.Response, error) {
	resp, err := c.toHost(req)
	if err != nil {
		return c.lost(req, err, "", nil)
	}
	c.cleanResponse(resp)
	resp.Header[lane.HeaderDecision] = []string{dec.Header(nil)}
	return c.answered(resp), nil
}

// roundTrip is the I/O: the same request to one address.
func (c *call) roundTrip(via *ways, req *http.Request, scheme, addr string, through bool) (*http.Response, error) {
	out := req.WithContext(c.watch(req.Context(), addr))
	out.URL = c.target.url(scheme, addr, c.asked, through)
	out.Host, out.RequestURI, out.Close = c.host, "", false
	if c.asks() {
		c.pre.passOn(out.Header)
	}
	c.timed = len(out.Header["Grpc-Timeout"]) > 0
	out.Body = c.body.out()
	if out.Body == http.NoBody {
		out.ContentLength = 0
	} else {
		out.GetBody = c.body.again
	}
	resp, err := via.of(c.h2, scheme).RoundTrip(out)
	var refused *DialError
	c.watched(errors.As(err, &refused))
	if err != nil {
		return nil, err
	}
	c.early.over()
	if resp.StatusCode == http.StatusSwitchingProtocols && c.upgrade == "" {
		resp.Body.Close()
		return nil, errWrong101
	}
	return resp, nil
}

// cleanResponse removes what belongs to the connection to the server, and keeps
// our server from adding what the other has not said. Where it is a browser's, it is
// made ready for that.
func (c *call) cleanResponse(resp *http.Response) {
	up := ""
	if resp.StatusCode == http.StatusSwitchingProtocols {
		up = resp.Header.Get("Upgrade")
	}
	stripHop(resp.Header, up)
	if _, ok := resp.Header["Content-Type"]; !ok {
		resp.Header["Content-Type"] = nil // no sniffing
	}
	c.forBrowser(resp)
	if code := resp.Header.Get(lane.HeaderError); code != "" {
		c.ex.Note = "answered by an inner hop: " + code
	}
}

// lost is the answer when the request got no response. in is the instance that
// was tried last, nil for an external host.
func (c *call) lost(req *http.Request, err error, lan lane.Name, in *lane.Instance) (*http.Response, error) {
	c.early.over()
	if ctxErr := req.Context().Err(); ctxErr != nil {
		c.body.release()
		c.finish(callerLeft + " before the answer")
		return nil, ctxErr
	}
	where, id := c.asked, ""
	if in != nil {
		where, id = c.ex.Service+" at "+in.Addr, in.ID
	}
	p := &Problem{Code: lane.CodeUpstreamConnect, Service: c.ex.Service, Lane: lan, Reason: c.ex.Reason}
	var refused *DialError
	var link *LinkError
	var handshake *HandshakeError
	var far *FarError
	switch {
	case errors.Is(err, errSelf):
		p.Code, p.Message = lane.CodeLoopDetected, where+" is this proxy itself"
		p.Hint = "a proxy variable or a registered address points at the proxy"
	case errors.As(err, &handshake):
		p.untrusted(where, handshake, in)
	case errors.As(err, &link):
		p.linkLost(link, errors.As(err, &refused))
	case errors.As(err, &refused):
		p.Message = "cannot connect to " + where + ": " + cause(refused.Err)
		p.Hint = "nothing was sent; check that it listens there and can be reached from here"
		if id != "" {
			p.Hint = "instance " + id + " is registered there but takes no connection; it is skipped for a few seconds"
		}
		if errors.As(err, &far) {
			p.Message = "the relay does not connect to " + c.ex.Service + ": " + far.Text
			p.Hint = cmp.Or(far.Hint, p.Hint)
		}
	case unreadable(err):
		p.Message = where + " gave an answer that cannot be passed on: " + cause(err)
		p.Hint = "does it speak HTTP there? The request was sent and is not repeated; it may have had its effect"
	default:
		p.Message = where + " ended the connection without an answer: " + cause(err)
		p.Hint = "the request was sent and is not repeated; it may have had its effect"
	}
	p.public = c.ex.Service + " cannot be reached, or has ended the connection without an answer"
	p.rpc = c.rpcOfReset(err)
	c.ex.Err = p.Message
	return c.refuse(req, p, nil)
}

// linkLost says that the tunnel, and no server, is what failed.
func (p *Problem) linkLost(link *LinkError, unsent bool) {
	p.Code, p.status = CodeRelayLost, http.StatusBadGateway
	// The first word is how a relay's design names it; all else goes by the code.
	p.Message, p.Hint = "lane-relay-lost: the tunnel broke under the request", "the request was sent and is not repeated; it may have had its effect"
	switch {
	case link.Busy:
		p.status, p.Message, p.Hint = http.StatusServiceUnavailable, "the tunnel has no room for one more request", "nothing was sent; ask again"
	case unsent:
		p.Message, p.Hint = "there is no tunnel to "+p.Service+" now", "nothing was sent; the tunnel comes back within seconds if the other end lives"
	}
	p.Message += " (" + cause(link.Err) + ")"
}

// unreadable reports whether there was an answer, and it is none of HTTP's.
func unreadable(err error) bool {
	var wrong *http1.Error
	return errors.As(err, &wrong) || errors.Is(err, errHints) || errors.Is(err, errWrong101)
}

// cause is the innermost useful words of a network error.
func cause(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		if dns.IsNotFound {
			return "no such host"
		}
		return dns.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		var sys *os.SyscallError
		switch {
		case op.Timeout():
			return "timed out"
		case errors.As(op.Err, &sys):
			return sys.Err.Error()
		}
		return op.Err.Error()
	}
	switch {
	case errors.Is(err, io.EOF):
		return "connection closed"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed out"
	}
	return err.Error()
}

// Cause is the innermost useful words of a network error.
func Cause(err error) string { return cause(err) }
