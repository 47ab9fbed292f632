package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"lane/pkg/http1"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

const (
	// maxResponseHead bounds the head of a response, in bytes.
	maxResponseHead = 256 << 10
	// patience is how long a server is waited for before the caller is listened
	// to: most answers come sooner, and need no second goroutine.
	patience = 20 * time.Millisecond
	// continueWait is how long a server has to say whether it wants a body that the
	// caller announced.
	continueWait = time.Second
	// switchWait is how long a request's body may last behind an answer that cannot
	// go on, or end, without its end.
	switchWait = 50 * time.Millisecond
	// writeWait is how long a server may take nothing of a body before the caller
	// is looked for.
	writeWait = time.Second
)

// maxHints bounds the informational responses before the final one.
const maxHints = 100

var errHints = errors.New("it sent informational responses without end")

var errLeft = errors.New(callerLeft)

// way is the way of one request of a line to a server and back: HTTP/1.1 on both
// sides, plain, on the line's own goroutine. Heads pass field by field as the
// bytes that they are; only what carries something of ours is written anew, in
// its place. Its memory is used again by the line's next request.
//
//	caller --line.in--> head, edited --> peer         one write with what is there of the body
//	caller <--out------ head, edited <-- peer.in      the same
type way struct {
	c    call
	k    marked
	out  []byte
	res  http1.Response
	down http1.Body
	peer *peer
	sent atomic.Bool // the whole request's body
	// heard is set when the server has said something.
	heard bool
	take  []string // fields that the request loses, in lower case
	give  string   // a field that it gets
	// outside are more fields that it loses, nil: none.
	outside *outside
}

// open starts the record of the line's request. asked is the host as asked, host
// what the Host field says.
func (l *line) open(asked, host, url string, tgt target) *call {
	t, req := l.srv.t, &l.req
	w := &l.way
	c := &w.c
	w.take, w.give, w.outside = nil, "", nil
	*c = call{t: t, target: tgt, asked: asked, host: host, head: &req.Head}
	c.keepReq, c.keepRes = t.keepers()
	w.k.read(&t.marks, &req.Head)
	c.ex = traffic.Exchange{Start: t.now(), Front: l.srv.front, From: l.from, Method: req.Method,
		Proto: "HTTP/1.1", URL: url}
	c.readTrace()
	if req.Minor == 0 {
		c.ex.Proto = "HTTP/1.0"
	}
	c.upgrading(upgradeIn(req))
	if t.keep {
		c.ex.ReqHeader = traffic.HeadText(l.fields)
	}
	c.readTag(w.k.h)
	c.readPreflight()
	c.pins = len(req.Target)+len(l.fields) > maxURL
	c.passed, _ = lane.Hops(w.k.h)
	c.guarded = len(w.k.h[keyGuard]) > 0
	w.k.drop(&req.Head)
	return c
}

// upgradeIn is the protocol that a request wants to switch to, or "".
func upgradeIn(req *http1.Request) string {
	if !req.Switch || req.Minor == 0 {
		return ""
	}
	var h http.Header
	for i := range req.Fields {
		if f := &req.Fields[i]; f.Is("Upgrade") {
			if h == nil {
				h = http.Header{"Connection": {"upgrade"}}
			}
			h["Upgrade"] = append(h["Upgrade"], f.Value)
		}
	}
	return upgradeOf(h)
}

// sendService sends the request to an instance of a service, and the response
// back, with what there is to say beside the decision.
func (l *line) sendService(p *pool, cat *lane.Catalog, ask *lane.Request, dec *lane.Decision, say said) {
	kind, lan := dec.Kind, dec.Lane
	in, err := l.way.c.reach(l.ctx, cat, ask, dec, func(in *lane.Instance) error {
		return l.way.c.ask(in, func(addr string) error { return l.send(p, addr) })
	})
	if err != nil {
		l.fail(err, lan, in)
		return
	}
	dec.Kind, dec.Lane = kind, lan
	c, res := &l.way.c, &l.way.res
	say.decision = c.says(dec, in)
	if p := c.inner(res.Get(lane.HeaderError), res.Status, res.Get("Grpc-Status")); p != nil {
		l.replace(p, say)
		return
	}
	l.respond(p, say)
}

// send sends the request to one address and waits for the head of the response.
func (l *line) send(p *pool, addr string) error {
	w := &l.way
	repeat := again(l.req.Method) && !l.req.Chunked && l.req.Length <= 0
	x := p.take(addr, w.c.ex.Start)
	for {
		reused := x != nil
		if !reused {
			ctx, cancel := context.WithCancel(l.ctx)
			l.listenFor(cancel)
			dial, connected := w.c.connecting(ctx, addr)
			var err error
			x, err = p.connect(dial, addr)
			connected()
			l.hush()
			cancel()
			if l.ear.heardEnd() {
				if x != nil {
					x.conn.Close()
				}
				return errLeft
			}
			if err != nil {
				return err
			}
		}
		w.peer, w.heard = x, false
		err := errLeft
		if l.waitFor(x.conn) {
			err = l.talk(x)
		}
		if err == nil {
			return nil
		}
		x.conn.Close()
		l.hush()
		switch {
		case l.ear.heardEnd():
			return errLeft
		case !reused || w.heard || !repeat:
			return err
		}
		// The server closed a connection that it had kept. Nobody has seen the
		// request, or it does no harm twice (RFC 9110, 9.2.2).
		x = nil
	}
}

// again reports whether a request may be sent twice.
func again(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// talk writes the request and reads the response's head.
func (l *line) talk(x *peer) error {
	w := &l.way
	w.out = l.appendRequest(w.out[:0])
	hints := 0
	hold := l.asked100
	if !hold {
		w.out = l.appendReady(w.out, &l.up, l.req.Chunked, &w.c.body.n, w.c.keepReq)
	}
	if _, err := x.conn.Write(w.out); err != nil {
		return err
	}
	wait := patience
	switch {
	case hold:
		w.sent.Store(false)
		wait = continueWait
	case l.up.Ended():
		w.sent.Store(true)
	default:
		w.sent.Store(false)
		l.listen(func() error { return l.upload(w.peer) })
	}
	x.hurry(wait)
	for {
		head, err := x.in.Head(maxResponseHead, nil)
		switch {
		case err == nil:
			err = http1.ParseResponse(head, &w.res)
		case errors.Is(err, os.ErrDeadlineExceeded):
			x.calm()
			if hold {
				hold = false
				if err := l.goOn(); err != nil {
					return err
				}
				continue
			}
			l.listen(nil)
			continue
		}
		w.heard = w.heard || err == nil || len(x.in.Buffered()) > 0
		if err != nil {
			return err
		}
		if w.res.Status < 200 {
			if hints++; hints > maxHints {
				return errHints
			}
		}
		switch s := w.res.Status; {
		case s == http.StatusContinue:
			if hold {
				hold = false
				if err := l.goOn(); err != nil {
					return err
				}
			}
		case s == http.StatusSwitchingProtocols:
			// A server that switches before it has the request would take the rest of
			// its body for the new protocol.
			if w.c.upgrade == "" || !l.uploaded(switchWait) {
				return errWrong101
			}
			return l.answered(head)
		case s < 200:
			if err := l.hint(); err != nil {
				return err
			}
		default:
			return l.answered(head)
		}
	}
}

// answered notes the head of the final response.
func (l *line) answered(head string) error {
	c := &l.way.c
	c.ex.First = c.t.now().Sub(c.ex.Start)
	c.ex.Status = l.way.res.Status
	if c.t.keep {
		c.ex.ResHeader = traffic.HeadText(head[strings.IndexByte(head, '\n')+1:])
	}
	return nil
}

// goOn tells the caller to send the body that it announced, and passes it on.
func (l *line) goOn() error {
	l.asked100 = false
	if _, err := io.WriteString(l.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
		l.left()
		return err
	}
	l.listen(func() error { return l.upload(l.way.peer) })
	return nil
}

// hint passes an informational response on.
func (l *line) hint() error {
	if l.req.Minor == 0 {
		return nil
	}
	w := &l.way
	w.out = l.appendFields(l.appendStatus(w.out[:0]), func(dst []byte, f *http1.Field) ([]byte, bool) {
		return dst, f.Is("Content-Length") // it has no body
	})
	w.out = append(w.out, "\r\n"...)
	_, err := l.conn.Write(w.out)
	if err != nil {
		l.left()
	}
	return err
}

// appendReady appends what is there of a body, framed as it goes on, without
// waiting for more.
func (l *line) appendReady(dst []byte, b *http1.Body, chunked bool, n *atomic.Int64, k *keeper) []byte {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	for len(dst) < len(*p) && b.Ready() {
		m, err := b.Read((*p)[:len(*p)-len(dst)])
		n.Add(int64(m))
		k.add((*p)[:m])
		if m > 0 {
			dst = appendPiece(dst, (*p)[:m], chunked)
		}
		if err != nil {
			break // its end, or what the next read says again
		}
	}
	if chunked && b.Ended() {
		may := trails
		if b == &l.up {
			may = l.trails
		}
		dst = appendTrailer(dst, b, may)
	}
	return dst
}

func appendPiece(dst, p []byte, chunked bool) []byte {
	if !chunked {
		return append(dst, p...)
	}
	dst = append(http1.AppendChunkSize(dst, len(p)), p...)
	return append(dst, "\r\n"...)
}

// sizeRoom and endRoom are what a chunk needs before and behind its bytes.
const sizeRoom, endRoom = 16, 2

// framed is the piece of n bytes at sizeRoom of a buffer as it is sent, as a chunk
// in its place.
func framed(buf []byte, n int, chunked bool) []byte {
	if !chunked || n == 0 {
		return buf[sizeRoom : sizeRoom+n]
	}
	var size [sizeRoom]byte
	s := http1.AppendChunkSize(size[:0], n)
	from := sizeRoom - len(s)
	copy(buf[from:], s)
	return append(buf[from:sizeRoom+n], "\r\n"...)
}

// appendTrailer appends the end of a chunked body, and the fields behind it that
// may stand there.
func appendTrailer(dst []byte, b *http1.Body, may func(*http1.Field) bool) []byte {
	dst = append(dst, "0\r\n"...)
	for i := range b.Trailer {
		if f := &b.Trailer[i]; may(f) {
			dst = append(append(dst, f.Line...), "\r\n"...)
		}
	}
	return append(dst, "\r\n"...)
}

// upload sends what was not there yet of the request's body.
func (l *line) upload(x *peer) error {
	w := &l.way
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		n, err := l.up.Read((*buf)[sizeRoom : len(*buf)-endRoom])
		w.c.body.n.Add(int64(n))
		w.c.keepReq.add((*buf)[sizeRoom : sizeRoom+n])
		out := framed(*buf, n, l.req.Chunked)
		if errors.Is(err, io.EOF) && l.req.Chunked {
			out = appendTrailer(out, &l.up, l.trails)
		}
		if len(out) > 0 {
			if werr := l.pass(x, out); werr != nil {
				return werr // what the server says is read all the same
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			w.sent.Store(true)
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case err != nil:
			l.broke(err)
			return err
		}
	}
}

// trails reports whether a field may go on behind the request's body.
func (l *line) trails(f *http1.Field) bool {
	w := &l.way
	if given, _, _ := strings.Cut(w.give, ":"); w.give != "" && f.Is(given) {
		return false
	}
	return l.srv.t.marks.trails(f) && !sameWord(w.take, f.Name) && !w.outside.has(f.Name)
}

// pass writes a piece of the request's body. While the server takes nothing the
// caller is not read, and so is looked for in another way.
func (l *line) pass(x *peer, p []byte) error {
	for {
		_ = x.conn.SetWriteDeadline(time.Now().Add(writeWait))
		n, err := x.conn.Write(p)
		if p = p[n:]; !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = x.conn.SetWriteDeadline(time.Time{})
			return err
		}
		if tcp := tcpOf(l.conn); tcp != nil && broken(tcp) {
			l.left()
			return errLeft
		}
	}
}

// uploaded waits for the end of the request's body, which may come long after the
// response: as long as it takes, or for limit, if that is not 0. False: it has not
// gone whole, and the server's connection is of no use any more.
func (l *line) uploaded(limit time.Duration) bool {
	w := &l.way
	if sent := l.ear.sent; sent != nil && !w.sent.Load() {
		var over <-chan time.Time
		if limit > 0 {
			t := time.NewTimer(limit)
			defer t.Stop()
			over = t.C
		}
		select {
		case <-sent:
		case <-over:
			w.peer.conn.Close()
			return false
		}
	}
	return w.sent.Load()
}

// finishRequest ends what belongs to the request's own body once the response has
// ended, and gives the connection back if it can be used again. limit is how long
// the body may last, 0 as long as it takes.
func (l *line) finishRequest(p *pool, whole bool, limit time.Duration, why string) {
	w := &l.way
	x, sent := w.peer, false
	if why == "" {
		sent = l.uploaded(limit)
	} else {
		x.conn.Close() // what is still sent to it ends
	}
	switch {
	case sent || why != "" || l.asked100:
	case l.ear.heardEnd():
		why = callerLeft
	default:
		w.c.ex.Note = cmp.Or(w.c.ex.Note, "the server answered, and did not take the whole request")
	}
	l.hush()
	w.peer = nil    // not before: an upload writes to it
	w.c.finish(why) // not before: an upload counts its bytes
	keep := w.res.Minor > 0 && !w.res.Close || w.res.Minor == 0 && w.res.Keep
	if whole && keep && sent && len(x.in.Buffered()) == 0 && !l.ear.heardEnd() {
		p.put(x, w.c.ex.Start.Add(w.c.ex.Took))
		return
	}
	x.conn.Close()
}

// respond sends the response to the caller, and ends the record.
func (l *line) respond(p *pool, say said) {
	w, c := &l.way, &l.way.c
	if code := w.res.Get(lane.HeaderError); code != "" {
		c.ex.Note = "answered by an inner hop: " + code
	}
	if w.res.Status == http.StatusSwitchingProtocols {
		l.joinUp(say)
		return
	}
	framing, length := w.res.Framing(l.req.Method)
	w.down.Reset(w.peer.in, framing, length)
	unknown := framing == http1.ByChunks || framing == http1.ByClose // its length
	chunked, untilEnd := unknown && l.req.Minor > 0, unknown && l.req.Minor == 0
	l.last = l.last || l.asked100 || l.srv.closing() || untilEnd
	w.out = l.appendResponse(w.out[:0], &say, chunked)
	w.out = l.appendReady(w.out, &w.down, chunked, &c.res.n, c.keepRes)
	if w.down.Ended() && w.sent.Load() {
		c.finish("") // before the caller has it: who looks then finds it
	}
	_, err := l.conn.Write(w.out)
	switch {
	case err != nil:
		l.left()
	case !w.down.Ended():
		err = l.download(chunked)
	}
	c.ex.Took = c.t.now().Sub(c.ex.Start)
	why := ""
	switch {
	case err == nil: // a caller that has it all may leave
	case l.ear.heardEnd():
		why = callerLeft
	default:
		// A body that breaks off must not look complete.
		why = "the server broke off: " + cause(err)
		l.last = true
		if tcp := tcpOf(l.conn); tcp != nil && !chunked && w.down.Left() < 0 {
			_ = tcp.SetLinger(0) // its end is the connection's: it has to be a failure
		}
	}
	limit := time.Duration(0)
	if untilEnd {
		limit = switchWait
	}
	l.finishRequest(p, why == "" && framing != http1.ByClose, limit, why)
}

// download passes on what was not there yet of the response's body. Its error is
// the server's, unless the caller has left.
func (l *line) download(chunked bool) error {
	w, c := &l.way, &l.way.c
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	x := w.peer
	for {
		n, err := w.down.Read((*buf)[sizeRoom : len(*buf)-endRoom])
		c.res.n.Add(int64(n))
		c.keepRes.add((*buf)[sizeRoom : sizeRoom+n])
		out := framed(*buf, n, chunked)
		if chunked && errors.Is(err, io.EOF) {
			out = appendTrailer(out, &w.down, trails)
		}
		if len(out) > 0 {
			if _, werr := l.conn.Write(out); werr != nil {
				l.left()
				return werr
			}
		}
		switch {
		case err == nil && !w.down.Ended():
		case err == nil, errors.Is(err, io.EOF):
			if !chunked || err != nil {
				return nil
			}
		case errors.Is(err, os.ErrDeadlineExceeded):
			x.calm()
			l.listen(nil)
		default:
			return err
		}
	}
}

// joinUp joins the two connections after 101.
func (l *line) joinUp(say said) {
	w, c := &l.way, &l.way.c
	x := w.peer
	l.hush()
	w.peer = nil
	l.taken = true
	l.srv.hijacked(l.conn, l.late)
	defer l.srv.release(l.conn)
	defer x.conn.Close()
	w.out = l.appendResponse(w.out[:0], &say, false)
	_ = l.conn.SetDeadline(time.Time{})
	x.calm()
	if _, err := l.conn.Write(w.out); err != nil {
		c.finish(callerLeft)
		return
	}
	up, down := join(replay(l.conn, string(l.in.Buffered())), replay(x.conn, string(x.in.Buffered())))
	c.body.n.Store(up)
	c.res.n.Store(down)
	c.finish("")
}

// fail answers when no server has answered. in is the instance that was tried
// last, nil for an external host.
func (l *line) fail(err error, lan lane.Name, in *lane.Instance) {
	c := &l.way.c
	if p := l.badBody(); p != nil {
		l.last = true
		l.refuse(c, p, nil)
		return
	}
	if l.ear.heardEnd() || l.ctx.Err() != nil {
		c.finish(callerLeft + " before the answer")
		l.last = true
		return
	}
	if resp, err := c.lost(l.net(), err, lan, in); err == nil {
		l.answer(c, resp)
	}
}
