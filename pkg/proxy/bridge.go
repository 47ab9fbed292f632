package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"lane/pkg/http1"
	"lane/pkg/lane"
)

// bridge is a request of a line as net/http's handlers know it: for what our own
// engine does not do itself, CONNECT and TLS among it.
type bridge struct {
	l       *line
	h       http.Header
	out     []byte
	wrote   bool
	chunked bool
	nobody  bool
	hj      bool
	trailer []string // announced
	words   string   // the server's status line behind the version, if it had one
	body    *bridgeBody
	dead    bool // nothing is answered any more
	err     error
	start   sync.Mutex // guards wrote and asked100: a transport reads the body on a goroutine of its own
}

var (
	_ http.Flusher  = (*bridge)(nil)
	_ http.Hijacker = (*bridge)(nil)
)

func newBridge(l *line) *bridge { return &bridge{l: l, h: http.Header{}} }

// unread says why net/http does not read a target that our own engine takes.
func unread(method, uri string) string {
	const most = 100 // of it are shown
	shown := strconv.Quote(uri[:min(len(uri), most)])
	switch {
	case method == http.MethodConnect:
		return "CONNECT names " + shown + ": a host and a port that is a number are wanted, as in CONNECT order-service:80"
	case uri[0] != '/' && !strings.Contains(uri, "://"):
		return "the request target " + shown + " is neither a path, /x, nor a URL, http://order-service/x"
	}
	return "the request target " + shown + " is no URL: a host, a port or an escape (%) in it is not well-formed"
}

// handle serves the line's request by a handler. head is the request's whole
// head, which net/http reads again: what is strict enough for us is for it.
func (l *line) handle(h handler, target string) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		l.req.Method + " " + l.req.Target + " HTTP/1." + strconv.Itoa(l.req.Minor) + "\r\n" + l.fields)))
	if err != nil {
		l.malformed(&http1.Error{Status: 400, Why: unread(l.req.Method, l.req.Target)})
		return
	}
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	if target != "" {
		ctx = context.WithValue(ctx, doorKey{}, target)
	}
	r = r.WithContext(ctx)
	r.RemoteAddr, r.TLS = l.from, l.tls
	b := newBridge(l)
	b.body = &bridgeBody{b: b, r: r, cancel: cancel}
	r.Body = b.body
	if l.up.Ended() {
		b.body.whole.Store(true)
		r.Body = http.NoBody
		l.listenFor(cancel)
	} else {
		_ = l.conn.SetReadDeadline(time.Time{})
		l.idleTill = time.Time{}
	}
	defer l.hush()
	defer b.body.end()
	w := &writer{ResponseWriter: b, srv: l.srv, late: l.late, head: r.Method == http.MethodHead}
	defer func() {
		l.taken = w.hj != nil
		w.end()
	}()
	h(w, r)
	b.body.end()
	switch bad := l.badBody(); {
	case b.hj:
	case bad != nil && !b.wrote:
		l.last = true
		l.answer(&call{t: l.srv.t}, bad.response(r, refused(bad.Code)))
	case !b.wrote: // nobody has an answer: one must not be made up
		l.last = true
	default:
		b.finish()
	}
}

// bridgeBody is the request's body. Its end is where the caller can be listened
// to.
type bridgeBody struct {
	b      *bridge
	r      *http.Request
	cancel func()
	closed atomic.Bool
	whole  atomic.Bool // it was read to its end
	mu     sync.Mutex  // held while it is read: a transport reads on a goroutine of its own
}

func (b *bridgeBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	l := b.b.l
	if err := b.b.goOn(); err != nil {
		return 0, err
	}
	n, err := l.up.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.whole.Store(true)
		for i := range l.up.Trailer {
			if b.r.Trailer == nil {
				b.r.Trailer = http.Header{}
			}
			if f := &l.up.Trailer[i]; l.srv.t.marks.trails(f) {
				b.r.Trailer.Add(f.Name, f.Value)
			}
		}
		l.listenFor(b.cancel)
	case b.closed.Load():
		err = http.ErrBodyReadAfterClose
	default:
		l.broke(err)
		b.cancel()
	}
	return n, err
}

// settle is the line's, for an error of ours; where somebody reads the body, what
// becomes of it is not known.
func (b *bridgeBody) settle() {
	l := b.b.l
	switch {
	case b.whole.Load():
	case b.mu.TryLock():
		defer b.mu.Unlock()
		l.settle()
	default:
		l.last = true
	}
}

// goOn tells the caller, if it waits for that, to send the body: not once the
// response has begun, which would have it in its middle.
func (b *bridge) goOn() error {
	b.start.Lock()
	defer b.start.Unlock()
	if !b.l.asked100 || b.wrote {
		return nil
	}
	b.l.asked100 = false
	_, err := io.WriteString(b.l.conn, "HTTP/1.1 100 Continue\r\n\r\n")
	return err
}

// Close says that no more is wanted: what is left is the line's to discard.
func (b *bridgeBody) Close() error { b.closed.Store(true); return nil }

// end waits until nobody reads any more.
func (b *bridgeBody) end() {
	if b.closed.Swap(true); b.mu.TryLock() {
		b.mu.Unlock()
		return
	}
	_ = b.b.l.conn.SetReadDeadline(longAgo)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.l.ear.done == nil { // or it listens, and is woken by hush
		_ = b.b.l.conn.SetReadDeadline(time.Time{})
	}
}

func (b *bridge) Header() http.Header { return b.h }

func (b *bridge) WriteHeader(code int) {
	if b.wrote || b.hj || b.dead {
		return
	}
	l := b.l
	if b.body != nil && code >= 200 && l.ear.heardEnd() {
		b.dead = true // whoever writes takes the end of the request for an answer
		return
	}
	if code >= 200 && b.body != nil && len(b.h[lane.HeaderError]) > 0 {
		b.body.settle()
	}
	if code >= 200 {
		b.start.Lock()
		b.wrote = true
		l.last = l.last || l.srv.closing() || l.asked100
		b.start.Unlock()
	}
	b.out = appendStatus(b.out, code, b.words)
	if code < 200 {
		b.out = appendHeader(b.out, b.h)
		b.out = append(b.out, "\r\n"...)
		b.Flush()
		return
	}
	b.nobody = l.req.Method == http.MethodHead || code == http.StatusNoContent || code == http.StatusNotModified
	_, length := b.h["Content-Length"]
	if code == http.StatusNoContent {
		delete(b.h, "Content-Length")
	}
	b.trailer = b.h["Trailer"]
	b.out = appendHeader(b.out, b.h)
	if _, ok := b.h["Date"]; !ok {
		b.out = appendDate(b.out)
	}
	switch {
	case b.nobody || length:
	case l.req.Minor > 0:
		b.chunked = true
		b.out = append(b.out, "Transfer-Encoding: chunked\r\n"...)
	default:
		l.last = true
	}
	b.out = l.appendConnection(b.out)
	b.out = append(b.out, "\r\n"...)
}

func (b *bridge) Write(p []byte) (int, error) {
	if b.hj {
		return 0, http.ErrHijacked
	}
	if !b.wrote {
		b.WriteHeader(http.StatusOK)
	}
	if b.dead {
		return len(p), nil
	}
	if b.nobody {
		return 0, http.ErrBodyNotAllowed
	}
	if len(p) == 0 || b.err != nil {
		return 0, b.err
	}
	if b.chunked {
		b.out = http1.AppendChunkSize(b.out, len(p))
	}
	b.out = append(b.out, p...)
	if b.chunked {
		b.out = append(b.out, "\r\n"...)
	}
	if len(b.out) > 4<<10 {
		b.Flush()
	}
	return len(p), b.err
}

// Flush writes what is there.
func (b *bridge) Flush() {
	if !b.wrote && len(b.out) == 0 {
		b.WriteHeader(http.StatusOK)
	}
	if b.err != nil || len(b.out) == 0 || b.dead {
		return
	}
	if _, b.err = b.l.conn.Write(b.out); b.err != nil {
		b.l.left()
	}
	b.out = b.out[:0]
}

// finish ends the response.
func (b *bridge) finish() {
	if !b.wrote {
		b.WriteHeader(http.StatusOK)
	}
	if b.chunked {
		b.out = append(b.out, "0\r\n"...)
		for _, k := range slices.Sorted(maps.Keys(b.h)) {
			v := b.h[k]
			name, late := strings.CutPrefix(k, http.TrailerPrefix)
			if f := (&http1.Field{Name: name}); (late || hasToken(b.trailer, k)) && trails(f) {
				b.out = appendHeader(b.out, http.Header{name: v})
			}
		}
		b.out = append(b.out, "\r\n"...)
	}
	b.Flush()
}

// Hijack gives the connection with what was read of it.
func (b *bridge) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if b.hj || b.wrote {
		return nil, nil, http.ErrHijacked
	}
	if b.body != nil {
		b.body.end()
	}
	b.l.hush()
	rest := bytes.Clone(b.l.in.Buffered())
	b.l.in.Discard(len(rest))
	br := bufio.NewReaderSize(replay(b.l.conn, string(rest)), max(len(rest), 4<<10))
	if len(rest) > 0 {
		if _, err := br.Peek(len(rest)); err != nil {
			return nil, nil, err
		}
	}
	b.hj = true
	return b.l.conn, bufio.NewReadWriter(br, bufio.NewWriter(b.l.conn)), nil
}

// SetReadDeadline is for http.ResponseController.
func (b *bridge) SetReadDeadline(t time.Time) error { return b.l.conn.SetReadDeadline(t) }

// SetWriteDeadline is for http.ResponseController.
func (b *bridge) SetWriteDeadline(t time.Time) error { return b.l.conn.SetWriteDeadline(t) }

// EnableFullDuplex is for http.ResponseController: it is never off.
func (b *bridge) EnableFullDuplex() error { return nil }

// appendStatus appends the line that a response begins with: in the server's words,
// "200 Fine", where they are about this code.
func appendStatus(dst []byte, code int, words string) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	if strings.HasPrefix(words, strconv.Itoa(code)+" ") && httpguts.ValidHeaderFieldValue(words) {
		return append(append(dst, words...), "\r\n"...)
	}
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, ' ')
	dst = append(dst, http.StatusText(code)...)
	return append(dst, "\r\n"...)
}

// appendHeader appends the fields of a map, but what its own framing says.
func appendHeader(dst []byte, h http.Header) []byte {
	for _, k := range slices.Sorted(maps.Keys(h)) { // the same answer is to be the same bytes
		values := h[k]
		if k == "Transfer-Encoding" || k == "Connection" || !httpguts.ValidHeaderFieldName(k) {
			continue // a trailer, or a name with a space, which net/http reads
		}
		for _, v := range values {
			dst = append(append(append(dst, k...), ": "...), v...)
			dst = append(dst, "\r\n"...)
		}
	}
	return dst
}

// appendDate appends the time at which a response was made that does not say it
// (RFC 9110, 6.6.1).
func appendDate(dst []byte) []byte {
	dst = append(dst, "Date: "...)
	dst = time.Now().UTC().AppendFormat(dst, http.TimeFormat)
	return append(dst, "\r\n"...)
}

// appendConnection appends what becomes of the caller's connection, where that
// is not what its HTTP takes for granted.
func (l *line) appendConnection(dst []byte) []byte {
	switch {
	case l.last:
		return append(dst, "Connection: close\r\n"...)
	case l.req.Minor == 0:
		return append(dst, "Connection: keep-alive\r\n"...)
	}
	return dst
}
