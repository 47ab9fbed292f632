package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/http1"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// maxRequestHead bounds the head of a request, in bytes.
const maxRequestHead = 128 << 10

const (
	// afterRefusal is how long what a refused caller still sends is waited for: to
	// close at once would take the answer away from it. One that goes on sending is
	// heard for lingers in all.
	afterRefusal = 500 * time.Millisecond
	lingers      = 5 * time.Second
	// beforeRefusal is how long an answer of ours waits for a small body that is on
	// its way.
	beforeRefusal = 50 * time.Millisecond
)

// line is a caller's HTTP/1 connection. It reads each head as the bytes that it
// is, and serves one request after another on one goroutine.
type line struct {
	srv    *server
	conn   net.Conn
	from   string
	in     *http1.Reader
	target string               // what CONNECT named, for a line inside it
	tls    *tls.ConnectionState // of what we opened
	ctx    context.Context      //nolint:containedctx // it lives exactly as long as the line
	cancel func()

	state    atomic.Int32
	idleTill time.Time // the read deadline that is set
	req      http1.Request
	fields   string // the head's text behind its first line
	up       http1.Body
	last     bool // nothing is read after this request
	late     bool // it began behind the server's mark
	asked100 bool // the caller waits for 100 before its body

	way   way // the request's way through our own engine
	ear   ear
	taken bool // the connection is somebody else's now
	said  said // what an answer of ours says beside
}

// States of a line. An idle one can be ended at any time.
const (
	lineBusy int32 = iota
	lineIdle
	lineOver
)

func newLine(s *server, conn net.Conn) *line {
	return &line{srv: s, conn: conn, in: http1.NewReader(conn), from: conn.RemoteAddr().String()}
}

// endIdle ends the line if it has no request.
func (l *line) endIdle() {
	if l.state.CompareAndSwap(lineIdle, lineOver) {
		l.conn.Close()
	}
}

func (l *line) end() {
	if !l.taken {
		l.conn.Close()
	}
}

// cut ends the line whatever it waits for.
func (l *line) cut() {
	l.conn.Close()
	l.cancel()
	l.left()
}

// serve serves requests until one side has enough.
func (l *line) serve() {
	for l.await() {
		head, err := l.in.Head(maxRequestHead, func() { _ = l.conn.SetReadDeadline(time.Now().Add(headWait)); l.idleTill = time.Time{} })
		switch {
		case err == nil && head == preface && l.srv.h2c:
			l.handH2(head)
			return
		case err == nil:
			err = http1.ParseRequest(head, &l.req)
		}
		if err != nil {
			l.malformed(err)
			return
		}
		if !l.request(head) {
			return
		}
	}
}

// preface is how HTTP/2 with prior knowledge begins, as far as it looks like a
// head (RFC 9113, 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\n"

// await waits for the first byte of a request.
func (l *line) await() bool {
	if len(l.in.Buffered()) > 0 {
		return !l.srv.closing()
	}
	l.state.Store(lineIdle)
	if l.srv.closing() {
		return false
	}
	if now := time.Now(); l.idleTill.Sub(now) < idleWait/2 {
		l.idleTill = now.Add(idleWait)
		_ = l.conn.SetReadDeadline(l.idleTill)
	}
	err := l.in.Fill(maxRequestHead)
	return l.state.CompareAndSwap(lineIdle, lineBusy) && err == nil
}

// handH2 gives the connection to the server of HTTP/2.
func (l *line) handH2(head string) {
	rest := head + string(l.in.Buffered())
	_ = l.conn.SetReadDeadline(time.Time{})
	l.taken = true
	l.srv.doors.give(&door{replay(l.conn, rest), l.target})
}

// request serves one request; false ends the line.
func (l *line) request(head string) (more bool) {
	if !l.srv.begin(l) {
		return false
	}
	defer func() {
		// A handler of net/http's kind says in this way that the caller is not to
		// take what it got for complete. Anything else is a fault of ours, which
		// must not end the connections of others.
		if err := recover(); err != nil {
			if e, ok := err.(error); !ok || !errors.Is(e, http.ErrAbortHandler) {
				l.srv.logger.Error("panic while serving", "err", err, "stack", string(debug.Stack()))
			}
			l.left() // ends the server's connection, too
			l.hush()
			more = false
		}
		if !l.srv.done(l, l.taken) {
			more = false
		}
	}()
	l.fields = head[strings.IndexByte(head, '\n')+1:]
	framing, length := l.req.Framing()
	l.up.Reset(l.in, framing, length)
	l.asked100 = l.req.Expect && framing != http1.NoBody
	l.last = l.req.Close || l.req.Minor == 0 && !l.req.Keep
	l.srv.lines(l)
	l.shrink()
	switch {
	case l.taken:
		return false
	case l.badBody() != nil:
		l.linger()
		return false
	case l.ear.heardEnd():
		return false
	case l.up.Ended():
		return !l.last
	case l.asked100:
		l.linger() // whether the body comes nobody knows
		return false
	}
	// What is left of a body that nobody wanted.
	return l.discard() && !l.last
}

// shrink lets go of memory that only a very long head has needed.
func (l *line) shrink() {
	if cap(l.req.Fields) > 256 {
		l.req.Fields, l.way.k = nil, marked{}
	}
	if cap(l.way.res.Fields) > 256 {
		l.way.res.Fields = nil
	}
	if cap(l.way.out) > 64<<10 {
		l.way.out = nil
	}
}

// maxDiscard is how much of an unwanted body is read to keep a connection.
const maxDiscard = 256 << 10

func (l *line) discard() bool {
	_ = l.conn.SetReadDeadline(time.Now().Add(afterRefusal))
	l.idleTill = time.Time{}
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	for n := 0; n < maxDiscard; {
		m, err := l.up.Read(*p)
		if errors.Is(err, io.EOF) {
			return true
		}
		if n += m; err != nil {
			break
		}
	}
	l.linger()
	return false
}

// settle reads what is there of a body that nobody wants, before an answer of ours
// to its request. If that is not all of it, the answer says that the connection
// ends: a caller that believes that it is kept would go on to send into one that is
// closed.
func (l *line) settle() {
	if l.up.Ended() || l.asked100 {
		return // or it is told to end in any case
	}
	if l.up.Left() <= maxDiscard {
		_ = l.conn.SetReadDeadline(time.Now().Add(beforeRefusal))
		l.idleTill = time.Time{}
		p := buffers.Get().(*[]byte)
		defer buffers.Put(p)
		for n := 0; n < maxDiscard; {
			m, err := l.up.Read(*p)
			if n += m; err != nil {
				break
			}
		}
		_ = l.conn.SetReadDeadline(time.Time{})
	}
	l.last = l.last || !l.up.Ended()
}

// linger ends the connection so that its last answer arrives: what the caller
// still sends is read for a while.
func (l *line) linger() {
	if cw, ok := l.conn.(interface{ CloseWrite() error }); !ok || cw.CloseWrite() != nil {
		return
	}
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	end := time.Now().Add(lingers)
	_ = l.conn.SetReadDeadline(time.Now().Add(afterRefusal))
	for {
		if _, err := l.in.Read(*p); err != nil {
			return
		}
		now := time.Now()
		if l.srv.closing() {
			return
		}
		if now.Add(afterRefusal).Before(end) {
			_ = l.conn.SetReadDeadline(now.Add(afterRefusal))
		}
	}
}

// malformed answers what is not HTTP/1.1, and ends the line: where the next
// request begins cannot be known.
func (l *line) malformed(err error) {
	var wrong *http1.Error
	if !errors.As(err, &wrong) {
		return // it ended, or took too long
	}
	if !l.srv.begin(l) {
		return
	}
	defer l.srv.done(l, false)
	l.last = true
	l.req.Method, l.req.Minor, l.fields = "", 1, ""
	l.up.Reset(l.in, http1.NoBody, 0)
	t := l.srv.t
	c := &call{t: t, asked: l.target}
	c.ex = traffic.Exchange{Start: t.now(), Front: l.srv.front, From: l.from, Proto: "HTTP/1.1", Note: wrong.Why}
	l.refuse(c, badRequest(wrong), nil)
	l.linger()
}

// refuse answers with an error of ours.
func (l *line) refuse(c *call, p *Problem, dec *lane.Decision) {
	if resp, err := c.refuse(l.net(), p, dec); err == nil {
		l.said.put(resp.Header)
		l.said = said{}
		l.answer(c, resp)
	}
}

// answer writes a response of ours, of net/http's kind.
func (l *line) answer(c *call, resp *http.Response) {
	l.settle()
	b := newBridge(l)
	w := &writer{ResponseWriter: b, srv: l.srv, late: l.late, head: l.req.Method == http.MethodHead}
	c.relay(w, resp)
	b.finish()
}

// net is the request for what is written for net/http's: only as much of it as
// our own errors need.
func (l *line) net() *http.Request {
	return (&http.Request{Method: l.req.Method, Header: http.Header{}}).WithContext(l.ctx)
}

// ear listens to the caller while the server is waited for: a caller that goes
// away ends the call. It has a goroutine only for requests that take long.
type ear struct {
	mu    sync.Mutex
	ended bool
	wrong *http1.Error // what ended it, if the caller is there and its body is none
	peer  net.Conn     // the server that is waited for
	abort func()       // ends another wait
	done  chan struct{}
	quit  chan struct{} // closed to end a listening that has not begun
	sent  chan struct{} // closed when there is nothing more to send
}

// waitFor sets the server that is waited for: its connection ends with the
// caller's. It is false if the caller has left.
func (l *line) waitFor(server net.Conn) bool {
	e := &l.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	e.peer = server
	return !e.ended
}

// listenFor is listen for a wait that abort ends. It begins late: most waits are
// over by then, and who has ended his side right behind a request may still be
// waiting for the answer.
func (l *line) listenFor(abort func()) {
	e := &l.ear
	e.mu.Lock()
	e.abort = abort
	ended := e.ended
	e.mu.Unlock()
	if ended {
		abort()
		return
	}
	l.listenAfter(patience, nil)
}

// listen starts listening, unless it has. send, which may be nil, is what is done
// with the caller's bytes before.
func (l *line) listen(send func() error) { l.listenAfter(0, send) }

func (l *line) listenAfter(wait time.Duration, send func() error) {
	e := &l.ear
	if e.done != nil || e.heardEnd() {
		return
	}
	done, quit := make(chan struct{}), make(chan struct{})
	e.done, e.quit = done, quit
	var sent chan struct{}
	if send != nil {
		sent = make(chan struct{})
		e.sent = sent
	}
	l.idleTill = time.Time{}
	_ = l.conn.SetReadDeadline(time.Time{})
	go func() {
		defer close(done)
		if send != nil {
			err := send()
			if close(sent); err != nil {
				return
			}
		}
		if wait > 0 {
			late := time.NewTimer(wait)
			defer late.Stop()
			select {
			case <-late.C:
			case <-quit:
				return
			}
		}
		// Bytes of the next request tell that the caller is there, and not that it
		// stays: they are kept, as many as a head may have.
		err := error(nil)
		for err == nil {
			err = l.in.Fill(maxRequestHead)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, http1.ErrHeadTooLarge) {
			l.left()
		}
	}()
}

// left notes that the caller went away.
func (l *line) left() {
	e := &l.ear
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.abort != nil {
		e.abort()
	}
	if e.peer != nil {
		e.peer.Close()
	}
}

// broke notes that a request's body cannot be read to its end: the caller has
// left, or what it sends is no body.
func (l *line) broke(err error) {
	var wrong *http1.Error
	if errors.As(err, &wrong) {
		l.ear.mu.Lock()
		l.ear.wrong = wrong
		l.ear.mu.Unlock()
	}
	l.left()
}

// badBody is the answer to a body that is none, nil for any other.
func (l *line) badBody() *Problem {
	l.ear.mu.Lock()
	defer l.ear.mu.Unlock()
	if l.ear.wrong == nil {
		return nil
	}
	return badRequest(l.ear.wrong)
}

// badRequest is the answer to what cannot be read.
func badRequest(wrong *http1.Error) *Problem {
	return &Problem{Code: CodeBadRequest, status: wrong.Status, Message: "this is not a request that can be passed on: " + wrong.Why,
		Hint: "the connection is closed, for where the next request would begin is not certain"}
}

func (e *ear) heardEnd() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ended
}

// hush stops listening.
func (l *line) hush() {
	e := &l.ear
	if e.done != nil {
		close(e.quit)
		_ = l.conn.SetReadDeadline(longAgo)
		<-e.done
		e.done, e.quit, e.sent = nil, nil, nil
		_ = l.conn.SetReadDeadline(time.Time{})
		l.idleTill = time.Time{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.abort, e.peer = nil, nil
}

// longAgo is a deadline that wakes a reader.
var longAgo = time.Unix(1, 0)
