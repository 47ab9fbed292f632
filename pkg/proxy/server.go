package proxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// server is what every front listens with: an http.Server that knows how many
// requests are in it, and that ends hijacked connections too, which net/http
// forgets.
type server struct {
	http  http.Server
	drain time.Duration

	mu     sync.Mutex
	idle   *sync.Cond // signalled when handlers reaches 0
	active int        // requests that are being served, upgraded ones apart
	inside int        // handlers that have not returned
	ended  bool
	conns  map[net.Conn]struct{}
}

const maxStreams = 1000

// handler serves one request through our writer.
type handler func(w *writer, r *http.Request)

// newServer makes a server of HTTP/1, and of HTTP/2 with prior knowledge (h2c) if
// asked to.
func newServer(h handler, h2c bool, drain time.Duration, logger *slog.Logger) *server {
	s := &server{drain: orDefault(drain, 30*time.Second), conns: map[net.Conn]struct{}{}}
	s.idle = sync.NewCond(&s.mu)
	var p http.Protocols
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(h2c)
	s.http = http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(h, w, r) }),
		Protocols:         &p,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		// OPTIONS * is for the application, not for us.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		// Streams that stay open, as subscriptions do, must not use the default of
		// 250 up: many servers that we stand in for have no limit at all.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	if h2c {
		// net/http waits for the preface without a deadline.
		s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			_ = c.SetReadDeadline(time.Now().Add(s.http.ReadHeaderTimeout))
			return ctx
		}
	}
	return s
}

func (s *server) serve(h handler, w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		panic(http.ErrAbortHandler)
	}
	lw := &writer{ResponseWriter: w, srv: s, head: r.Method == http.MethodHead}
	defer s.leave(lw)
	if r.Method == "PRI" { // the preface of HTTP/2, where it is not spoken
		http.Error(lw, "HTTP/1.1 only", http.StatusHTTPVersionNotSupported)
		return
	}
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		// Otherwise net/http eats what is left of an upload when the answer
		// begins. HTTP/1 has it, so there is no error.
		_ = http.NewResponseController(w).EnableFullDuplex()
	}
	h(lw, r)
}

func (s *server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.active++
	s.inside++
	return true
}

func (s *server) leave(w *writer) {
	w.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	if w.hj == nil {
		s.active--
	}
	if s.inside == 0 {
		s.idle.Broadcast()
	}
}

// inFlight counts requests, without connections that have switched protocols.
func (s *server) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// hijacked takes a connection into the list of those to close at the end.
func (s *server) hijacked(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.conns[c] = struct{}{}
	if s.ended {
		c.Close()
	}
}

func (s *server) release(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// handOver takes a connection out of the list: another server ends it.
func (s *server) handOver(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// track adds a connection that a front made itself, to be closed at the end.
func (s *server) track(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	if s.ended {
		c.Close()
	}
}

// run serves until ctx ends or the listener fails. Then it accepts nothing
// more, waits for the requests in it at most for drain, closes what is left,
// and returns when every handler has returned.
func (s *server) run(ctx context.Context, ln net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- s.http.Serve(ln) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain)
		_ = s.http.Shutdown(wait) // what it leaves is closed below
		cancel()
		_ = <-failed
	}
	s.http.Close()
	s.mu.Lock()
	s.ended = true
	for c := range s.conns {
		c.Close()
	}
	for s.inside > 0 {
		s.idle.Wait()
	}
	s.mu.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
