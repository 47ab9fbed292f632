package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// buffers are what bodies are copied through. net/http's own ReadFrom would
// flush after 512 bytes and allocate one for each response.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 32<<10)
	return &b
}}

// writer is the ResponseWriter that we give to whatever writes a response. It
// copies through pooled memory, sends a body of unknown length on as it comes,
// and hands a hijacked connection to the server that closes it.
type writer struct {
	http.ResponseWriter
	srv    *server
	late   bool // the request began behind the server's mark
	head   bool // the request was a HEAD
	wrote  bool
	empty  bool // the response is known to have no body
	stream bool // flush after each write
	hj     net.Conn
	given  bool // hj is another server's now
}

var (
	_ http.Flusher  = (*writer)(nil)
	_ http.Hijacker = (*writer)(nil)
	_ io.ReaderFrom = (*writer)(nil)
)

func (w *writer) WriteHeader(code int) {
	if w.wrote {
		return
	}
	w.ResponseWriter.WriteHeader(code)
	if code < 200 && code != http.StatusSwitchingProtocols {
		return
	}
	w.wrote = true
	// A known length needs no flush, and a reply without a body must stay one
	// piece (golang/go#56317).
	_, known := w.Header()["Content-Length"]
	if !known && !w.empty && !w.head && code >= 200 && code != http.StatusNoContent && code != http.StatusNotModified {
		w.stream = true
		w.Flush()
	}
}

func (w *writer) Write(p []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(p)
	if err == nil && w.stream {
		w.Flush()
	}
	return n, err
}

func (w *writer) ReadFrom(r io.Reader) (n int64, err error) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for {
		nr, rerr := r.Read(*buf)
		if nr > 0 {
			nw, werr := w.Write((*buf)[:nr])
			n += int64(nw)
			if werr != nil {
				return n, werr
			}
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
	}
}

func (w *writer) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// Hijack hands the connection over, and to the server's list of those that it
// closes at the end.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hj = conn
	w.srv.hijacked(conn, w.late)
	return conn, rw, nil
}

// hints is where informational responses go, nil if the caller's HTTP is too old
// to have any.
func (w *writer) hints(r *http.Request) http.ResponseWriter {
	if !r.ProtoAtLeast(1, 1) {
		return nil
	}
	return w
}

// end closes a hijacked connection: net/http will not, and neither does
// whoever took it when the other side was the one to end.
func (w *writer) end() {
	if w.hj != nil && !w.given {
		w.srv.release(w.hj)
	}
}
