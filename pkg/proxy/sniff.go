package proxy

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"time"
)

// kind is what a caller begins to speak inside CONNECT.
type kind int

const (
	kindUnknown kind = iota // too few bytes to say
	kindHTTP                // HTTP/1, or HTTP/2 with prior knowledge
	kindTLS
	kindRaw // anything else, and whatever a server begins
)

// maxMethod is more than any method's name has.
const maxMethod = 24

// sniff tells from a connection's first bytes what it is. More bytes never
// change an answer, only kindUnknown.
//
// A method alone is not enough, IRC begins with NICK and a space: what follows
// must look like a target. CONNECT is none of these: it is for a proxy behind.
func sniff(b []byte) kind {
	if len(b) == 0 {
		return kindUnknown
	}
	if b[0] == 0x16 {
		return kindTLS
	}
	for i, c := range b {
		switch {
		case c >= 'A' && c <= 'Z', i > 0 && (c == '-' || c == '_'):
			if i == maxMethod {
				return kindRaw
			}
		case i > 0 && c == ' ':
			return sniffTarget(b[i+1:])
		default:
			return kindRaw
		}
	}
	return kindUnknown
}

func sniffTarget(b []byte) kind {
	if len(b) == 0 {
		return kindUnknown
	}
	if b[0] == '/' || b[0] == '*' {
		return kindHTTP
	}
	const absolute = "http"
	n := min(len(b), len(absolute))
	switch {
	case !strings.EqualFold(string(b[:n]), absolute[:n]):
		return kindRaw
	case n < len(absolute):
		return kindUnknown
	}
	return kindHTTP
}

// silence is how long a caller may say nothing before the server is asked
// whether it wants to begin.
const silence = 250 * time.Millisecond

// serverFirst reports whether a port's protocol is one in which the server
// greets first and the caller is silent until then. Ports of TLS (465, 993, 995)
// are not among them, nor PostgreSQL's: there the caller begins.
func serverFirst(port string) bool {
	switch port {
	case "21", // FTP
		"22",                // SSH: both begin, and some servers' callers wait
		"25", "587", "2525", // SMTP
		"110",  // POP3
		"119",  // NNTP
		"143",  // IMAP
		"3306", // MySQL
		"5900": // VNC
		return true
	}
	return false
}

// settings reports whether a server begins with HTTP/2's SETTINGS frame. Some
// send it before they have heard anything, but HTTP/2 is begun by the client,
// which never waits for it (RFC 9113, 3.4): a busy gRPC client is late, not silent.
func settings(p []byte) bool {
	return len(p) >= 9 && p[0] == 0 && (int(p[1])<<8|int(p[2]))%6 == 0 && p[3] == 4 && string(p[4:9]) == "\x00\x00\x00\x00\x00"
}

// errInside ends a tunnel of which the inside turned out to be readable.
var errInside = errors.New("the tunnel holds requests")

// held is the caller's side of a tunnel. It holds the caller's first bytes back
// until they, or a server that speaks before, say what the tunnel is.
type held struct {
	net.Conn
	opens func(kind) bool // the inside is for us to read
	buf   []byte          // what was read and not yet passed on
	err   error           // of the last read

	mu    sync.Mutex
	kind  kind          // settled, or kindUnknown
	heard chan struct{} // closed when the caller settled it, if somebody waits
	calm  bool          // the deadline by which speaks woke the reader is taken back
}

// look reads until the caller's first bytes say what they are, at most for wait;
// 0 waits for ever.
func (h *held) look(wait time.Duration) kind {
	for {
		if k := h.settle(); k != kindUnknown {
			return k
		}
		if wait > 0 {
			_ = h.SetReadDeadline(time.Now().Add(wait))
		}
		if h.err = h.fill(); errors.Is(h.err, os.ErrDeadlineExceeded) {
			h.unhurry()
			h.err = nil
			return h.settled()
		}
		if wait > 0 {
			_ = h.SetReadDeadline(time.Time{})
		}
	}
}

func (h *held) fill() error {
	p := buffers.Get().(*[]byte)
	defer buffers.Put(p)
	n, err := h.Conn.Read((*p)[:4096])
	h.buf = append(h.buf, (*p)[:n]...)
	return err
}

// settle decides by what was read so far. An end, or a failure, is passed on as
// a tunnel's.
func (h *held) settle() kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kind == kindUnknown {
		h.kind = sniff(h.buf)
		if h.kind == kindUnknown && h.err != nil {
			h.kind = kindRaw
		}
		if h.kind != kindUnknown && h.heard != nil {
			close(h.heard)
		}
	}
	return h.kind
}

// await waits until the caller has settled what the tunnel is, or has left.
func (h *held) await() {
	h.mu.Lock()
	if h.kind != kindUnknown {
		h.mu.Unlock()
		return
	}
	h.heard = make(chan struct{})
	h.mu.Unlock()
	<-h.heard
}

func (h *held) settled() kind {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kind
}

// unhurry takes back the deadline that ended a wait.
func (h *held) unhurry() {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.SetReadDeadline(time.Time{})
}

// inside reports whether the tunnel holds what we read ourselves.
func (h *held) inside() bool { return h.opens(h.settled()) }

// speaks settles that the server began, unless the caller did before.
func (h *held) speaks() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kind == kindUnknown {
		h.kind = kindRaw
		_ = h.SetReadDeadline(time.Unix(1, 0)) // what is held back may go
	}
	if h.opens(h.kind) {
		return errInside
	}
	return nil
}

// Read gives the caller's bytes once it is settled where they go.
func (h *held) Read(p []byte) (int, error) {
	for h.settled() == kindUnknown {
		h.look(0)
	}
	if !h.calm { // nobody sets it again once the kind is settled
		h.calm = true
		h.unhurry()
	}
	if h.inside() {
		return 0, errInside
	}
	if len(h.buf) > 0 {
		n := copy(p, h.buf)
		h.buf = h.buf[n:]
		return n, nil
	}
	if err := h.err; err != nil {
		h.err = nil
		return 0, err
	}
	return h.Conn.Read(p)
}

// Write passes on what the server says.
func (h *held) Write(p []byte) (int, error) {
	if settings(p) {
		h.await()
	}
	if err := h.speaks(); err != nil {
		return 0, err
	}
	return h.Conn.Write(p)
}

func (h *held) raw() net.Conn { return h.Conn }

// Close ends the connection, unless it is needed for what is inside.
func (h *held) Close() error {
	if h.inside() {
		return nil
	}
	return h.Conn.Close()
}

func (h *held) CloseWrite() error {
	if err := h.speaks(); err != nil {
		return err
	}
	if cw, ok := h.Conn.(interface{ CloseWrite() error }); ok {
		return cw.CloseWrite()
	}
	return h.Conn.Close()
}

var _ duplex = (*held)(nil)
