package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/http1"
	"lane/pkg/lane"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// callerLeft is the error of an exchange that its caller did not see the end of.
const callerLeft = "the caller went away"

// call is one request on its way: its exchange, and the two bodies that count
// their bytes. It is recorded once, when the response's body has ended.
type call struct {
	t       *Transport
	ex      traffic.Exchange
	target  target
	asked   string // the host as asked, with its port
	host    string // what the Host header says: the same, except inside CONNECT
	h2      bool   // it came as HTTP/2 and goes on as HTTP/2
	grpc    bool
	timed   bool   // a gRPC call with a deadline
	upgrade string // protocol to switch to, or ""
	te      bool   // the caller takes trailers
	// head is the request's as it came: the first value of each header.
	head    interface{ Get(name string) string }
	keys    tracemap.Keys
	got     lane.Tag
	pre     preflight
	trailer http.Header // the request's, filled when its body ends
	take    []string    // fields that it loses, in lower case
	give    string      // a field that it gets
	passed  int         // hops before this one
	guarded bool        // a guard has sent it on
	veiled  bool        // the caller is not to know what is inside
	pins    bool        // its strings are parts of a long head
	// severed, if set, says that the caller did not leave: its tunnel broke.
	severed func(caller string, began time.Time) bool

	body reqBody
	res  resBody
	// What is kept of the bodies; nil: nothing is.
	keepReq, keepRes *keeper
	early            early
	hooks            hooks
	w                *writer // nil when the response is not ours to write
	// broken is why the response's body ended too early.
	broken error
	mu     sync.Mutex // guards the end: a client may close a body that it reads
	done   bool
}

// newCall starts the record of a request: it reads what the head says and
// removes from it what belongs to the caller's connection, in this order, so that
// a Connection header cannot take a lane's header away.
func (t *Transport) newCall(front traffic.Front, r *http.Request) *call {
	now := t.now()
	c := &call{t: t, target: targetOf(r), asked: r.Host, head: r.Header}
	if c.asked == "" {
		c.asked = r.URL.Host
	}
	c.keepReq, c.keepRes = t.keepers()
	c.host, c.h2, c.grpc = c.asked, r.ProtoMajor == 2, isGRPC(r.Header)
	c.ex = traffic.Exchange{
		Start: now, Front: front, From: r.RemoteAddr, Method: r.Method, Proto: r.Proto,
		URL: c.url(r),
	}
	c.readTrace()
	if r.ProtoAtLeast(1, 1) {
		c.upgrading(upgradeOf(r.Header))
	}
	if t.keep {
		c.ex.ReqHeader = traffic.HeadOf(r.Header)
	}
	c.readTag(r.Header)
	c.readPreflight()
	c.passed, _ = lane.Hops(r.Header)
	c.guarded = len(r.Header[keyGuard]) > 0
	c.te = keepTrailers(r.Header)
	c.cleanHead(r.Header)
	c.body.c, c.body.in = c, r.Body
	c.trailer = r.Trailer
	c.cutTrailer()
	return c
}

// readTrace reads the ids of the request's trace.
func (c *call) readTrace() {
	c.t.sources.Read(c.head.Get, &c.keys)
	c.ex.TraceID = c.keys.ID().String()
}

// upgrading notes the protocol that a request wants to switch to, if any.
func (c *call) upgrading(proto string) {
	if c.upgrade = proto; proto == "" {
		return
	}
	c.ex.Proto = "upgrade"
	if strings.EqualFold(proto, "websocket") {
		c.ex.Proto = "ws"
	}
}

// url is the URL as asked, without user and password.
func (c *call) url(r *http.Request) string {
	if r.URL.User == nil && r.URL.Host != "" && r.RequestURI != "" && r.RequestURI[0] != '/' && r.RequestURI != "*" {
		return r.RequestURI
	}
	scheme := r.URL.Scheme
	if scheme == "" {
		scheme = "http"
	}
	return scheme + "://" + c.asked + string(c.target)
}

// cleanHead removes what belongs to the connection that the request came by.
func (c *call) cleanHead(h http.Header) {
	stripHop(h, c.upgrade)
	if c.te {
		h["Te"] = []string{"trailers"}
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // net/http would add its own
	}
}

// cutTrailer takes out of the request's trailer what must not stand there: what is
// read in a head, or written into one here, would be said a second time behind it.
func (c *call) cutTrailer() {
	for name := range c.trailer {
		f := http1.Field{Name: name}
		if !c.t.marks.trails(&f) || sameWord(c.take, name) || c.give != "" && f.Is(c.give) {
			delete(c.trailer, name)
		}
	}
}

// decided takes what a decision says into the record, and counts it. A retry
// inside the same set is the same decision: it is counted once.
func (c *call) decided(d *lane.Decision) {
	c.ex.Service, c.ex.Lane, c.ex.Kind, c.ex.Reason = d.Service, d.Named(), d.Kind, d.Reason
	if len(d.Warnings) > 0 {
		c.ex.Warnings = append(c.ex.Warnings, d.Warnings...)
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		c.t.counts.Add(m.Name, m.Label, m.Value)
	}
	if c.t.meter != nil {
		c.t.meter.Decided(d)
	}
}

// count counts what happens to a request of a lane outside of its decision.
func (c *call) count(service string, l lane.Name, name, label, value string) {
	c.t.counts.Add(name, label, value)
	if c.t.meter != nil {
		c.t.meter.Count(service, l, name, value)
	}
}

// refuse answers with an error of ours. dec is the decision that says so, or
// nil if there was none.
func (c *call) refuse(req *http.Request, p *Problem, dec *lane.Decision) (*http.Response, error) {
	if dec == nil || dec.Code != p.Code {
		c.t.counts.Add(traffic.CountErrors, "code", string(p.Code))
	}
	p.TraceID = c.ex.TraceID
	if p.Service == "" {
		p.Service = c.ex.Service
	}
	c.ex.Service, c.ex.Code, c.ex.Reason = p.Service, p.Code, p.Reason
	if p.Lane != "" {
		c.ex.Lane = p.Lane
	}
	if c.ex.Kind == "" {
		c.ex.Kind = lane.KindError
	}
	d := lane.Decision{Kind: lane.KindError, Code: p.Code, Reason: p.Reason, Service: p.Service, Lane: p.Lane}
	if c.veiled {
		p.veil()
	}
	resp := p.response(req, d.Header(nil))
	if c.grpc {
		p.asGRPC(resp)
	}
	c.body.release()
	return c.answered(resp), nil
}

// answered notes the response's head and puts the counting body in.
func (c *call) answered(resp *http.Response) *http.Response {
	c.ex.First = c.t.now().Sub(c.ex.Start)
	c.ex.Status = resp.StatusCode
	if c.t.keep {
		c.ex.ResHeader = traffic.HeadOf(resp.Header)
	}
	if c.w != nil {
		c.w.empty = resp.ContentLength == 0
		if b, ok := c.w.ResponseWriter.(*bridge); ok && resp.ProtoMajor == 1 {
			b.words = resp.Status
		}
	}
	c.res.c, c.res.in = c, resp.Body
	if rw, ok := resp.Body.(io.ReadWriteCloser); ok && resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = &upgradedBody{resBody: &c.res, rw: rw}
		return resp
	}
	resp.Body = &c.res
	return resp
}

// finish records the exchange, once. why is what ended it too early, or "".
func (c *call) finish(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done {
		return
	}
	c.done = true
	if why != "" {
		c.ex.Err = why
	}
	c.cutOff()
	if c.ex.Took == 0 {
		c.ex.Took = c.t.now().Sub(c.ex.Start)
	}
	c.ex.ReqSize = c.body.n.Load()
	c.ex.ResSize = c.res.n.Load()
	c.ex.ReqBody, c.ex.ResBody = c.keepReq.take(c.ex.ReqSize), c.keepRes.take(c.ex.ResSize)
	bound(&c.ex)
	if c.pins {
		letGo(&c.ex)
	}
	c.t.counts.Add(traffic.CountRequests, "", "")
	if c.t.meter != nil {
		c.t.meter.Done(&c.ex)
	}
	c.t.log.Put(c.ex)
}

// tunnelLost is what the end of an exchange reads that a lost tunnel has cut off. A relay
// that has died answers nobody: what the caller got is not known at this end.
const tunnelLost = "the tunnel to the relay broke under the request: a relay that lives answers 502 " + string(CodeRelayLost)

// cutOff tells a caller that left from one whose tunnel broke: at the guard both look the
// same. A connection that has switched protocols ends without an error in both cases.
func (c *call) cutOff() {
	left := strings.HasPrefix(c.ex.Err, callerLeft) || c.ex.Err == "" && c.ex.Status == http.StatusSwitchingProtocols
	if c.severed == nil || !left || !c.severed(c.ex.From, c.ex.Start) {
		return
	}
	c.ex.Code, c.ex.Err = CodeRelayLost, tunnelLost
	c.t.counts.Add(traffic.CountErrors, "code", string(CodeRelayLost))
}

// reqBody counts a request's body. Closing it before a byte was read only marks
// it: a dial that failed closes the body of a request that is to be tried again.
type reqBody struct {
	c    *call
	in   io.ReadCloser
	n    atomic.Int64
	read atomic.Bool
	// owned is set when nobody else closes in; a server closes its own.
	owned bool
}

// out is the body to send on: http.NoBody must stay what it is, net/http asks
// for it by identity.
func (b *reqBody) out() io.ReadCloser {
	if b.in == nil || b.in == http.NoBody {
		return http.NoBody
	}
	if b.c.h2 {
		return &attempt{b: b}
	}
	return b
}

// attempt is the body in one try over HTTP/2. That transport reads it on a
// goroutine of its own, and waits for it to end when the response has ended: a
// read after Close must fail, even where Close came first, or the call hangs until
// its caller's deadline (golang/go#78973).
type attempt struct {
	b      *reqBody
	closed atomic.Bool
}

func (a *attempt) Read(p []byte) (int, error) {
	a.b.read.Store(true)
	if a.closed.Load() {
		return 0, errBodyGone
	}
	return a.b.Read(p)
}

func (a *attempt) Close() error {
	a.closed.Store(true)
	return a.b.Close()
}

func (b *reqBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	n, err := b.in.Read(p)
	b.n.Add(int64(n))
	b.c.keepReq.add(p[:n])
	if err == io.EOF {
		b.c.cutTrailer() // it is whole now, and read next
	}
	return n, err
}

func (b *reqBody) Close() error {
	if b.in == nil || !b.read.Load() {
		return nil
	}
	return b.in.Close()
}

// again is the same body for another connection, if nothing of it has gone.
func (b *reqBody) again() (io.ReadCloser, error) {
	if b.read.Load() {
		return nil, errBodyGone
	}
	return b.out(), nil
}

// release closes a body that was never sent.
func (b *reqBody) release() {
	if b.owned && b.in != nil {
		b.in.Close()
	}
}

// resBody counts a response's body and ends the record with it.
type resBody struct {
	c  *call
	in io.ReadCloser
	n  atomic.Int64
}

func (b *resBody) Read(p []byte) (int, error) {
	n, err := b.in.Read(p)
	b.n.Add(int64(n))
	b.c.keepRes.add(p[:n])
	if err == nil {
		return n, nil
	}
	why := ""
	if err != io.EOF {
		b.c.broken = err
		why = "the server broke off: " + cause(err)
		if errors.Is(err, context.Canceled) {
			why = callerLeft
		}
	}
	b.c.finish(why)
	return n, err
}

func (b *resBody) Close() error {
	err := b.in.Close()
	b.c.finish(callerLeft) // unless its end was read
	return err
}

// upgradedBody is the stream of a connection that switched protocols.
type upgradedBody struct {
	*resBody
	rw io.ReadWriteCloser
}

var _ io.ReadWriteCloser = (*upgradedBody)(nil)

func (b *upgradedBody) Read(p []byte) (int, error) {
	n, err := b.rw.Read(p)
	b.n.Add(int64(n))
	return n, err
}

func (b *upgradedBody) Write(p []byte) (int, error) {
	n, err := b.rw.Write(p)
	b.c.body.n.Add(int64(n))
	return n, err
}

// Close ends the stream and the record.
func (b *upgradedBody) Close() error {
	err := b.rw.Close()
	b.c.finish("")
	return err
}

// CloseWrite tells the other side that nothing more comes.
func (b *upgradedBody) CloseWrite() error {
	if cw, ok := b.rw.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return b.rw.Close()
}
