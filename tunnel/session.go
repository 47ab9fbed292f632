package tunnel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/yamux"
)

// session is many streams over one connection. It is all that this package knows
// of the transport: another one (QUIC) implements it.
type session interface {
	// Open opens a stream without waiting for the other end.
	Open() (rawStream, error)
	// Accept waits for one that the other end has opened.
	Accept() (rawStream, error)
	// Done is closed when the session has ended.
	Done() <-chan struct{}
	Close() error
}

// rawStream is one stream of a session. Its errors are those of this package, or
// net errors; io.EOF may also mean that the session has ended.
type rawStream interface {
	io.ReadWriter
	// CloseWrite ends the own direction. The stream is gone when both have ended.
	CloseWrite()
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	// ID is the same at both ends, and no other stream of the session has it.
	ID() uint32
	// Shrink gives back a buffer that is empty.
	Shrink()
}

// timing are the waits of a tunnel. Tests make them shorter.
type timing struct {
	beat      time.Duration // between two pings
	write     time.Duration // for a frame to be taken by the connection, and for a ping's answer
	open      time.Duration // for the other end to accept a stream
	handshake time.Duration // for everything until a link stands, each step
	slot      time.Duration // for a stream, when all are in use
	idle      time.Duration // after which a stream without a byte is cut
	shrink    time.Duration // after which an idle stream gives its buffer back
	grace     time.Duration // a claim without a link
	drain     time.Duration // streams of a relay that stops
	call      time.Duration // one call of the Authority
	release   time.Duration // all claims, at an agent's end
	stable    time.Duration // a link that lasted this long was a good one
	retryMin  time.Duration
	retryMax  time.Duration
	tick      time.Duration // between two looks at the clocks
	// closeTimeout is yamux's StreamCloseTimeout. It cuts every answer that takes
	// longer than that after the request's end, so it is zero: never.
	closeTimeout time.Duration
	// maxUnread bounds the memory that slow readers cost, in bytes for a connection.
	// The reader with the most is cut when it is passed.
	maxUnread int
}

// Drain is how long a relay that ends waits for the streams that are under way.
const Drain = 10 * time.Second

// The settings of the transport were measured: with the defaults of yamux a dead
// peer is found after 40 s, and now after 10 s at most. 5 s pings also keep what
// stands between (nginx closes after 60 s, others after 100 s) from closing.
var defaults = timing{
	beat: 5 * time.Second, write: 5 * time.Second, open: 10 * time.Second,
	handshake: 10 * time.Second, slot: 5 * time.Second, idle: time.Hour, shrink: 5 * time.Second,
	grace: 30 * time.Second, drain: Drain, call: 10 * time.Second, release: 5 * time.Second,
	stable: 30 * time.Second, retryMin: 250 * time.Millisecond, retryMax: 10 * time.Second, tick: time.Second,
	maxUnread: 256 << 20,
}

// Windows, in bytes: what a stream may have under way is what it is fast by.
// Yamux gives half a window back at a time, and half a window in a round trip is
// what comes of it: 8 MiB at 40 ms are 100 MB/s, 4 MiB are 52, the 256 KiB of
// yamux's default 6; ssh has 40. What readers leave unread is bounded for all
// streams together (timing.maxUnread), else 256 streams could hold two gigabytes.
const (
	bulkWindow    = 8 << 20
	controlWindow = 1 << 20
)

type yamuxSession struct {
	*yamux.Session
	writeTimeout time.Duration
}

// newYamux starts a session over w. The agent is the client.
func newYamux(w io.ReadWriteCloser, client bool, window uint32, t timing, log *slog.Logger) (*yamuxSession, error) {
	c := &yamux.Config{
		AcceptBacklog:          256,
		EnableKeepAlive:        true,
		KeepAliveInterval:      t.beat,
		ConnectionWriteTimeout: t.write,
		MaxStreamWindowSize:    window,
		StreamOpenTimeout:      t.open,
		StreamCloseTimeout:     t.closeTimeout,
		Logger:                 lines{log},
	}
	start := yamux.Server
	if client {
		start = yamux.Client
	}
	s, err := start(w, c)
	if err != nil {
		return nil, err
	}
	return &yamuxSession{s, t.write}, nil
}

func (s *yamuxSession) Open() (rawStream, error) {
	st, err := s.OpenStream()
	if err != nil {
		return nil, s.failed(err)
	}
	return &yamuxStream{st, s}, nil
}

func (s *yamuxSession) Accept() (rawStream, error) {
	st, err := s.AcceptStream()
	if err != nil {
		return nil, s.failed(err)
	}
	return &yamuxStream{st, s}, nil
}

func (s *yamuxSession) Done() <-chan struct{} { return s.CloseChan() }

// failed translates an error of yamux. After a write that was not taken in time
// the other end waits for ever for what it did not get (hashicorp/yamux#142), so
// the session ends with it.
func (s *yamuxSession) failed(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.Is(err, yamux.ErrConnectionWriteTimeout):
		_ = s.Close()
		return ErrLost
	case s.IsClosed():
		return ErrLost
	case errors.Is(err, yamux.ErrTimeout):
		return os.ErrDeadlineExceeded
	case errors.Is(err, yamux.ErrStreamClosed):
		return net.ErrClosed
	case errors.Is(err, yamux.ErrConnectionReset):
		return refuse(503, "the other end did not take the stream")
	}
	return ErrLost
}

type yamuxStream struct {
	*yamux.Stream
	of *yamuxSession
}

func (s *yamuxStream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if err = s.of.failed(err); n > 0 {
		err = nil // the next call says it again
	}
	return n, err
}

func (s *yamuxStream) Write(p []byte) (int, error) {
	n, err := s.Stream.Write(p)
	return n, s.of.failed(err)
}

func (s *yamuxStream) ID() uint32 { return s.StreamID() }

// CloseWrite is yamux's Close: reads go on. It returns no error when the end could
// not be written; that it took as long as a write may take is all that tells.
func (s *yamuxStream) CloseWrite() {
	began := time.Now()
	_ = s.Stream.Close()
	if time.Since(began) >= s.of.writeTimeout {
		_ = s.of.Close()
	}
}

// Frames of yamux: version, type, flags (2), stream (4), length (4); a grant has
// no body, its length is what it grants.
const (
	headLen    = 12
	frameData  = 0
	frameGrant = 1
	frameFirst = 3         // SYN or ACK
	window0    = 256 << 10 // granted without a word
)

// bodyFollows reports whether p is the head of a frame that has a body.
func bodyFollows(p []byte) bool {
	return len(p) == headLen && p[1] == frameData && binary.BigEndian.Uint32(p[8:]) > 0
}

// lines is yamux's log. A frame of a stream that has just ended is nothing to
// warn of; neither is the end of a connection, which is said elsewhere.
type lines struct{ log *slog.Logger }

func (l lines) Print(v ...any)                 { l.Println(v...) }
func (l lines) Printf(format string, v ...any) { l.say(format, v...) }
func (l lines) Println(v ...any)               { l.say(strings.Repeat("%v ", len(v)), v...) }

func (l lines) say(format string, v ...any) {
	if !l.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	l.log.Debug("transport", "text", strings.TrimSpace(fmt.Sprintf(format, v...)))
}
