package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"lane/pkg/traffic"
)

// server is what every front listens with. HTTP/1 it reads itself, a line for
// each connection; HTTP/2 it hands to net/http. It knows how many requests are
// in it, and ends every connection that came through it, hijacked ones too.
//
//	accept --> line --+-- HTTP/1: the front's own way, or a handler
//	                  +-- HTTP/2: net/http, a handler for each stream
type server struct {
	front  traffic.Front
	lines  func(l *line) // serves one request of a line
	h2     http.Server
	doors  *doors // what h2 accepts
	h2c    bool   // HTTP/2 with prior knowledge is taken
	drain  time.Duration
	force  <-chan struct{} // closed: the end waits no longer; nil is never
	logger *slog.Logger
	t      *Transport

	mu       sync.Mutex
	idle     *sync.Cond // signalled when a count falls
	active   int        // requests that are being served, upgraded ones apart
	marked   bool       // mark was called
	before   int        // of the active ones, those that had begun by then
	inside   int        // lines and handlers that have not returned
	draining bool
	ended    bool
	all      map[*line]struct{}
	conns    map[net.Conn]struct{} // hijacked, or made by a front
}

const (
	maxStreams = 1000
	headWait   = 30 * time.Second // for the rest of a head
	idleWait   = 2 * time.Minute  // for the next request
)

// handler serves one request through our writer.
type handler func(w *writer, r *http.Request)

// newServer makes a server. lines serves what comes as HTTP/1, h what comes as
// HTTP/2: with prior knowledge only if h2c says so. A drain of 0 is 30 s, a negative one
// waits for nothing.
func newServer(t *Transport, front traffic.Front, lines func(l *line), h handler, h2c bool, drain time.Duration) *server {
	s := &server{t: t, front: front, lines: lines, h2c: h2c, drain: orDefault(drain, 30*time.Second), logger: t.logger,
		all: map[*line]struct{}{}, conns: map[net.Conn]struct{}{}, doors: newDoors()}
	if drain < 0 {
		s.drain = 0
	}
	s.idle = sync.NewCond(&s.mu)
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	p.SetHTTP2(true)
	s.h2 = http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(h, w, r) }),
		Protocols:         &p,
		ReadHeaderTimeout: headWait,
		MaxHeaderBytes:    maxRequestHead,
		IdleTimeout:       idleWait,
		ConnContext:       withDoor,
		ErrorLog:          slog.NewLogLogger(t.logger.Handler(), slog.LevelDebug),
		// Streams that stay open, as subscriptions do, must not use the default of
		// 250 up: many servers that we stand in for have no limit at all.
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	return s
}

func (s *server) serve(h handler, w http.ResponseWriter, r *http.Request) {
	late, ok := s.enter()
	if !ok {
		panic(http.ErrAbortHandler)
	}
	lw := &writer{ResponseWriter: w, srv: s, late: late, head: r.Method == http.MethodHead}
	defer s.leave(lw)
	h(lw, r)
}

func (s *server) enter() (late, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false, false
	}
	s.active++
	s.inside++
	return s.marked, true
}

func (s *server) leave(w *writer) {
	w.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	if w.hj == nil {
		s.over(w.late)
	}
	s.idle.Broadcast()
}

// over counts the end of a request; late: it began behind the mark. The caller holds mu.
func (s *server) over(late bool) {
	s.active--
	if s.marked && !late {
		s.before--
	}
}

// mark has the requests that are under way now counted apart from later ones.
func (s *server) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.marked {
		s.marked, s.before = true, s.active
	}
}

// markedLeft counts what inFlight did when mark was called, and is still under way.
func (s *server) markedLeft() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.before
}

// inFlight counts requests, without connections that have switched protocols.
func (s *server) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// hijacked takes a connection into the list of those to close at the end.
func (s *server) hijacked(c net.Conn, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over(late)
	s.idle.Broadcast()
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

// take serves a connection on a goroutine of its own, which run waits for.
func (s *server) take(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.ended {
		l.conn.Close()
		return
	}
	s.inside++
	s.all[l] = struct{}{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go func() {
		defer s.drop(l)
		defer l.cancel()
		l.serve()
	}()
}

// drop forgets a line that has ended.
func (s *server) drop(l *line) {
	l.end()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside--
	delete(s.all, l)
	s.idle.Broadcast()
}

// begin counts a request of a line; false if there is to be none.
func (s *server) begin(l *line) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.active++
	l.late = s.marked
	return true
}

// done is the end of a request of a line. It reports whether more are wanted.
func (s *server) done(l *line, upgraded bool) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !upgraded {
		s.over(l.late)
	}
	if s.draining {
		s.idle.Broadcast()
	}
	return !s.draining
}

// closing reports whether connections are to end with the request that is in
// them.
func (s *server) closing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// accept takes connections until the listener ends.
func (s *server) accept(ctx context.Context, ln net.Listener) error {
	wait := time.Duration(0)
	for {
		conn, err := ln.Accept()
		var failed net.Error
		switch {
		case err == nil:
			wait = 0
			s.take(newLine(s, conn))
			continue
		case !errors.As(err, &failed) || errors.Is(err, net.ErrClosed):
			return err
		}
		// Too many open files, for one: it passes.
		if !passing(err) {
			return err
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second)
		s.logger.Debug("accept", "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
	}
}

// run serves until ctx ends or the listener fails; ln is nil for a server that
// is given its connections. Then it accepts nothing more, waits for the requests
// in it at most for drain, closes what is left, and returns when every line and
// handler has returned.
func (s *server) run(ctx context.Context, ln net.Listener) error {
	failed, h2 := make(chan error, 1), make(chan struct{})
	go func() { defer close(h2); _ = s.h2.Serve(s.doors) }()
	if ln != nil {
		go func() { failed <- s.accept(ctx, ln) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		if ln != nil {
			ln.Close()
			_ = <-failed
		}
		s.wait(context.WithoutCancel(ctx))
	}
	s.h2.Close()
	s.doors.Close()
	<-h2
	s.mu.Lock()
	s.ended, s.draining = true, true
	for c := range s.conns {
		c.Close()
	}
	for l := range s.all {
		l.cut()
	}
	for s.inside > 0 {
		s.idle.Wait()
	}
	s.mu.Unlock()
	return err
}

// wait lets the requests that are inside end, for at most drain, or until force.
// Connections without one end now.
func (s *server) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.drain)
	defer cancel()
	waited := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.force:
			cancel()
		case <-waited:
		}
	}()
	defer func() { close(waited); <-watched }()
	s.mu.Lock()
	s.draining = true
	for l := range s.all {
		l.endIdle()
	}
	s.mu.Unlock()
	shut := make(chan struct{})
	go func() { defer close(shut); _ = s.h2.Shutdown(ctx) }() // what it leaves is closed later
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.idle.Broadcast()
	})
	defer stop()
	s.mu.Lock()
	for s.active > 0 && ctx.Err() == nil {
		s.idle.Wait()
	}
	left := s.active
	s.mu.Unlock()
	<-shut
	if left > 0 {
		s.logger.Warn("requests under way are cut off: the wait for them is over", "front", s.front, "requests", left, "drain", s.drain)
	}
}

// replay is a connection from which head has been read already.
func replay(conn net.Conn, head string) stream {
	if head == "" {
		return stream{conn, conn}
	}
	return stream{conn, io.MultiReader(strings.NewReader(head), conn)}
}
