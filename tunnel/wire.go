package tunnel

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Close codes of the WebSocket, from the range that is for private use.
const (
	closeRefused  = 4401 // what the agent may not, or no longer
	closeReplaced = 4409 // a newer link of the same agent is there
)

// wire carries the bytes of a session in binary messages. It is not
// websocket.NetConn: that one's Close waits ten seconds for a peer that is dead,
// and all streams of the session with it.
type wire struct {
	ws  *websocket.Conn
	raw *batch // below TLS: what ends a write that nobody takes

	r io.Reader // the message that is being read

	came    func(stream uint32, n int)             // told of each frame's body as it begins
	granted func(stream uint32, n int, first bool) // told of each grant, the first of a stream too
	head    []byte                                 // of the frame that is being read
	skip    int                                    // bytes until the next head
	// A frame's head waits here for its body: yamux writes them one by one, and
	// two messages in two TLS records cost twice the system calls.
	w []byte

	mu     sync.Mutex
	reason error // why the other end closed, if it said so

	once sync.Once
}

func newWire(ws *websocket.Conn, raw *batch) *wire {
	ws.SetReadLimit(-1) // a message is a frame of yamux, and that one has its window
	return &wire{ws: ws, raw: raw}
}

func (w *wire) Read(p []byte) (int, error) {
	for {
		if w.r == nil {
			kind, r, err := w.ws.Reader(context.Background())
			if err == nil && kind != websocket.MessageBinary {
				err = errors.New("a text message inside a tunnel")
			}
			if err != nil {
				return 0, w.ended(err)
			}
			w.r = r
		}
		n, err := w.r.Read(p)
		w.follow(p[:n])
		if errors.Is(err, io.EOF) {
			w.r, err = nil, nil
			if n == 0 {
				continue
			}
		}
		if err != nil {
			err = w.ended(err)
		}
		return n, err
	}
}

// follow looks for the heads of data frames in what has been read.
func (w *wire) follow(p []byte) {
	for len(p) > 0 {
		if w.skip > 0 {
			n := min(w.skip, len(p))
			w.skip -= n
			p = p[n:]
			continue
		}
		n := min(headLen-len(w.head), len(p))
		w.head = append(w.head, p[:n]...)
		p = p[n:]
		if len(w.head) == headLen {
			stream, length := binary.BigEndian.Uint32(w.head[4:]), int(binary.BigEndian.Uint32(w.head[8:]))
			switch w.head[1] {
			case frameData:
				w.skip = length
				w.came(stream, length)
			case frameGrant:
				w.granted(stream, length, w.head[3]&frameFirst != 0)
			}
			w.head = w.head[:0]
		}
	}
}

func (w *wire) ended(err error) error {
	var c websocket.CloseError
	if errors.As(err, &c) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch c.Code {
		case closeRefused:
			w.reason = &Refusal{Code: 401, Text: c.Reason}
		case closeReplaced:
			w.reason = &Refusal{Code: 409, Text: c.Reason}
		}
		return io.EOF
	}
	return err
}

// why is the reason that the other end gave for closing.
func (w *wire) why() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.reason
}

// Write is called by one goroutine, with a frame's head or its body.
func (w *wire) Write(p []byte) (int, error) {
	if len(w.w) == 0 && bodyFollows(p) {
		w.w = append(w.w, p...)
		return len(p), nil
	}
	message := p
	if len(w.w) > 0 {
		w.w = append(w.w, p...)
		message, w.w = w.w, w.w[:0]
	}
	w.raw.cork()
	err := w.ws.Write(context.Background(), websocket.MessageBinary, message)
	return len(p), first(err, w.raw.uncork())
}

// Close ends the connection, whatever is being written.
func (w *wire) Close() error {
	w.once.Do(func() {
		_ = w.raw.Close()
		_ = w.ws.CloseNow()
	})
	return nil
}

// say closes with a code and a reason, if the other end listens within a second.
func (w *wire) say(code int, reason string) {
	w.once.Do(func() {
		t := time.AfterFunc(time.Second, func() { _ = w.raw.Close() })
		defer t.Stop()
		_ = w.ws.Close(websocket.StatusCode(code), reason[:min(len(reason), 120)])
		_ = w.raw.Close()
	})
}
