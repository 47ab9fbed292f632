package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// afterEnd is how long the caller may go on sending when the server has ended
// its side: it has been told, and has nothing to wait for.
const afterEnd = time.Minute

// relay writes a response to the caller: what goproxy does for the requests
// that go through its chain, for all others, upgrades among them.
func (c *call) relay(w *writer, resp *http.Response) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		c.switched(w, resp)
		return
	}
	defer resp.Body.Close()
	h := w.Header()
	for k, v := range resp.Header {
		h[k] = v
	}
	announced := len(resp.Trailer)
	if announced > 0 {
		h["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(resp.Trailer)), ", ")}
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.ReadFrom(resp.Body) // the reader's error is in c.broken; the caller's own ends its connection
	if len(resp.Trailer) > 0 {
		w.Flush() // makes it chunked, or the trailers would be lost
		for k, v := range resp.Trailer {
			if len(resp.Trailer) != announced {
				k = http.TrailerPrefix + k
			}
			h[k] = v
		}
	}
}

// checkBroken ends the caller's connection when the server broke off: a chunked
// body would otherwise look complete. An upload that is still being read is
// ended first, because net/http must not be read from when a handler is gone.
func (c *call) checkBroken(w *writer) {
	if c.broken == nil {
		return
	}
	if c.body.in != nil {
		_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Unix(1, 0))
		c.body.endRead()
	}
	if c.endRPC(w) {
		return
	}
	if w.wrote {
		w.Flush() // what there was of the answer, its head at least
	}
	panic(http.ErrAbortHandler)
}

// switched joins two connections after 101.
func (c *call) switched(w *writer, resp *http.Response) {
	defer resp.Body.Close() // records
	server, ok := resp.Body.(*upgradedBody)
	if !ok {
		http.Error(w, "the server's connection cannot be taken over", http.StatusBadGateway)
		return
	}
	conn, rw, err := w.Hijack()
	if err != nil {
		http.Error(w, "the connection cannot be taken over", http.StatusBadGateway)
		return
	}
	_ = conn.SetDeadline(time.Time{})
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\n")
	_ = resp.Header.Write(rw)
	_, _ = rw.WriteString("\r\n")
	if rw.Flush() != nil {
		return
	}
	join(stream{conn, pending(rw.Reader, conn)}, server)
}

// duplex is a connection of which one side can be ended.
type duplex interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// stream is the caller's connection, with what was read of it already.
type stream struct {
	net.Conn
	r io.Reader
}

func (s stream) Read(p []byte) (int, error) { return s.r.Read(p) }

func (s stream) raw() net.Conn { return s.Conn }

func (s stream) CloseWrite() error {
	if cw, ok := s.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return s.Close()
}

// pending reads first what a server has buffered of a connection.
func pending(br *bufio.Reader, conn net.Conn) io.Reader {
	if br.Buffered() == 0 {
		return conn
	}
	head, _ := br.Peek(br.Buffered()) // a snapshot of what is there: cannot fail
	return io.MultiReader(strings.NewReader(string(head)), conn)
}

// join copies both ways until both sides have ended. An end is passed on as an
// end of that direction only; an error ends both. It returns the bytes that
// came from the caller and from the server.
func join(caller, server duplex) (up, down int64) {
	type end struct {
		fromServer bool
		n          int64
		err        error
	}
	ends := make(chan end, 2)
	pass := func(dst, src duplex, fromServer bool) {
		n, err := copyStream(dst, src)
		if err == nil {
			err = dst.CloseWrite()
		}
		ends <- end{fromServer, n, err}
	}
	go pass(server, caller, false)
	go pass(caller, server, true)
	for i := range 2 {
		e := <-ends
		if e.fromServer {
			down = e.n
		} else {
			up = e.n
		}
		switch {
		case i == 1:
		case e.err != nil:
			caller.Close()
			server.Close()
		case e.fromServer:
			// Told; it need not answer.
			t := time.AfterFunc(afterEnd, func() { caller.Close(); server.Close() })
			defer t.Stop()
		}
	}
	caller.Close()
	server.Close()
	return up, down
}

// copyStream copies until src ends. What is buffered comes with the first read;
// after that two TCP connections are left to the kernel.
func copyStream(dst io.Writer, src io.Reader) (int64, error) {
	buf := buffers.Get().(*[]byte)
	n, err := src.Read(*buf)
	if n > 0 {
		if _, werr := dst.Write((*buf)[:n]); werr != nil {
			err = werr
		}
	}
	to, from := tcpOf(dst), tcpOf(src)
	if err == nil && to != nil && from != nil {
		buffers.Put(buf)
		m, err := to.ReadFrom(from)
		return int64(n) + m, err
	}
	defer buffers.Put(buf)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return int64(n), err
	}
	m, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	return int64(n) + m, err
}

func tcpOf(v any) *net.TCPConn {
	if r, ok := v.(interface{ raw() net.Conn }); ok {
		v = r.raw()
	}
	tcp, _ := v.(*net.TCPConn)
	return tcp
}
