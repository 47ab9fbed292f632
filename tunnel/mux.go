package tunnel

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// message is what the two ends of a connection tell each other beside the
// streams, in a stream of its own that the agent opens first.
type message struct {
	Type string `json:"t"`

	// msgStop: I read that stream no more. msgAbort: it is cut, with Code and Text;
	// it is confirmed by msgStop.
	Stream uint32 `json:"stream,omitempty"`
	Code   int    `json:"code,omitempty"`
	Text   string `json:"text,omitempty"`

	// msgClaim, msgRelease and msgToken are questions, msgAnswer has the number of
	// one. An answer without a code is a yes.
	Seq   uint64 `json:"seq,omitempty"`
	Claim *Claim `json:"claim,omitempty"`
	ID    string `json:"id,omitempty"`    // of a claim: msgRelease, msgState, msgLost, msgFacts
	State *State `json:"state,omitempty"` // msgState

	Facts map[string]string `json:"facts,omitempty"` // msgAnswer, msgFacts, msgReady
}

const (
	msgStop    = "stop"
	msgAbort   = "abort"
	msgReady   = "ready" // relay: the link stands; Facts are its own
	msgClaim   = "claim"
	msgRelease = "release"
	msgAnswer  = "answer"
	msgState   = "state"
	msgToken   = "token"  // agent: another token, in Text, for the same link
	msgLost    = "lost"   // relay: the claim is somebody else's now, or forbidden
	msgFacts   = "facts"  // relay: about a claim, without a question
	msgGoAway  = "goaway" // relay: make a new link, this one ends
)

// mux is one of a link's connections: its session, its streams, its messages.
type mux struct {
	sess   session
	wire   *wire
	peer   string
	timing timing
	log    *slog.Logger
	began  time.Time

	// accepted gets each stream of the other end in a goroutine of its own, and
	// told each message that is not about streams, from one goroutine.
	accepted func(*stream)
	told     func(message)

	toll     *toll         // nil: an agent's end, where nothing is paced
	crowded  func()        // told of each stream of the other end that is too many, if not nil
	slots    chan struct{} // taken by the own streams
	in, out  atomic.Uint64
	writers  atomic.Int64 // streams that write, and may
	limit    int
	odd      bool // own streams have odd numbers: the agent's do
	wg       sync.WaitGroup
	messages queue

	mu      sync.Mutex
	streams map[uint32]*stream
	early   []message      // about streams that have not been accepted yet, or have gone
	grants  map[uint32]int // of streams that are not in the list yet
	foreign int            // streams of the other end
	over    bool           // the connection has ended: nothing new begins
	idle    chan struct{}  // closed when the last stream has gone, if somebody waits
	unread  int            // bytes that have come for streams and not been read
	tooMany chan struct{}  // they are too many
}

// earlyMessages bounds what is kept about streams that may never come.
const earlyMessages = 1024

// newMux starts a session over w.
func newMux(w *wire, agent bool, window uint32, peer string, streams int, t timing, log *slog.Logger) (*mux, error) {
	m := &mux{
		wire: w, peer: peer, timing: t, log: log, began: time.Now(), limit: streams, odd: agent,
		slots: make(chan struct{}, streams), streams: map[uint32]*stream{}, grants: map[uint32]int{}, tooMany: make(chan struct{}, 1),
	}
	m.messages.init()
	w.came, w.granted = m.came, m.granted
	s, err := newYamux(w, agent, window, t, log)
	if err != nil {
		return nil, err
	}
	m.sess = s
	return m, nil
}

// now is a time for stream.last.
func (m *mux) now() int64 { return int64(time.Since(m.began)) }

func (m *mux) ended() bool {
	select {
	case <-m.sess.Done():
		return true
	default:
		return false
	}
}

// run serves the connection until its session ends or ctx does; then all its
// streams are cut. control is the messages' stream.
func (m *mux) run(ctx context.Context, control rawStream) {
	m.wg.Go(func() { m.write(control) })
	m.wg.Go(func() { m.read(control) })
	m.wg.Go(m.accept)
	m.tidy(ctx)
	_ = m.sess.Close()
	m.mu.Lock()
	m.over = true
	all := make([]*stream, 0, len(m.streams))
	for _, s := range m.streams {
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		s.fail(ErrLost)
	}
	m.wg.Wait()
}

// tidy cuts streams that have been silent for too long, and takes unused buffers
// from the others.
func (m *mux) tidy(ctx context.Context) {
	t := time.NewTicker(m.timing.shrink)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.sess.Done():
			return
		case <-t.C:
		case <-m.tooMany:
			m.cutSlowest()
			continue
		}
		var silent []*stream
		m.mu.Lock()
		for _, s := range m.streams {
			switch quiet := time.Duration(m.now() - s.last.Load()); {
			case quiet > m.timing.idle:
				silent = append(silent, s)
			case quiet > m.timing.shrink:
				s.raw.Shrink()
			}
		}
		m.mu.Unlock()
		for _, s := range silent {
			s.Abort(504, "no byte went through this stream for "+m.timing.idle.String())
		}
	}
}

// came is told by the wire what has come for a stream, before it is read. Streams
// that have not been accepted yet are not counted: their windows are small.
func (m *mux) came(id uint32, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.streams[id]
	if s == nil {
		return
	}
	s.unread += n
	if m.unread += n; m.unread > m.timing.maxUnread {
		select {
		case m.tooMany <- struct{}{}:
		default:
		}
	}
}

// granted is told by the wire how much more the other end takes of a stream.
func (m *mux) granted(id uint32, n int, first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.streams[id]; s != nil {
		s.granted.Add(int64(n))
	} else if first {
		if len(m.grants) > earlyMessages {
			clear(m.grants) // of streams that have gone; a wrong one costs some fairness
		}
		m.grants[id] = n
	}
}

// add puts a stream into the list. m.mu is held.
func (m *mux) add(s *stream) {
	id := s.raw.ID()
	m.streams[id] = s
	s.granted.Store(window0 + int64(m.grants[id]))
	delete(m.grants, id)
}

func (m *mux) taken(s *stream, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[s.raw.ID()] == s {
		s.unread -= n
		m.unread -= n
	}
}

func (m *mux) cutSlowest() {
	for {
		var most *stream
		m.mu.Lock()
		if m.unread > m.timing.maxUnread {
			for _, s := range m.streams {
				if most == nil || s.unread > most.unread {
					most = s
				}
			}
		}
		m.mu.Unlock()
		if most == nil {
			return
		}
		most.Abort(503, "its reader is too slow, and all of this link's together leave too much unread")
	}
}

// open opens a stream and sends its header. It waits for a free slot.
func (m *mux) open(ctx context.Context, header any) (*stream, error) {
	b, err := frame(header, maxHeader)
	if err != nil {
		return nil, refuse(400, "stream header: %v", err)
	}
	return m.openWith(ctx, b)
}

func (m *mux) openWith(ctx context.Context, header []byte) (*stream, error) {
	select {
	case m.slots <- struct{}{}:
	default:
		ctx, cancel := context.WithTimeout(ctx, m.timing.slot)
		defer cancel()
		select {
		case m.slots <- struct{}{}:
		case <-m.sess.Done():
			return nil, ErrLost
		case <-ctx.Done():
			return nil, ErrBusy
		}
	}
	raw, err := m.sess.Open()
	if err != nil {
		<-m.slots
		return nil, err
	}
	s := newStream(raw, m, true)
	m.mu.Lock()
	m.add(s)
	m.mu.Unlock()
	if m.ended() { // run may have looked already
		s.fail(ErrLost)
	}
	if _, err := s.Write(header); err != nil {
		_ = s.Close()
		return nil, err
	}
	s.toll = m.toll // a header is nobody's load, and whoever opens has waited
	return s, nil
}

func (m *mux) accept() {
	for {
		raw, err := m.sess.Accept()
		if err != nil {
			return
		}
		s := newStream(raw, m, false)
		m.mu.Lock()
		m.add(s)
		m.foreign++
		// Twice the limit: the other end counts a stream less as soon as it has
		// closed, this one when its reader has.
		over := m.foreign > 2*m.limit
		var about []message
		m.early = slices.DeleteFunc(m.early, func(msg message) bool {
			if msg.Stream == raw.ID() {
				about = append(about, msg)
			}
			return msg.Stream == raw.ID()
		})
		m.mu.Unlock()
		for _, msg := range about {
			m.about(s, msg)
		}
		if over {
			if m.crowded != nil {
				m.crowded()
			}
			s.Abort(503, "too many streams")
			continue
		}
		m.wg.Go(func() {
			defer func() { _ = s.Close() }()
			m.accepted(s)
		})
	}
}

// later does something that the connection's end will cut short.
func (m *mux) later(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.over {
		return
	}
	m.wg.Go(f)
}

// forget ends the count of a stream; its slot is free.
func (m *mux) forget(s *stream) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.streams[s.raw.ID()] != s {
		return
	}
	delete(m.streams, s.raw.ID())
	m.unread -= s.unread
	if s.own {
		<-m.slots
	} else {
		m.foreign--
	}
	if len(m.streams) == 0 && m.idle != nil {
		close(m.idle)
		m.idle = nil
	}
}

func (m *mux) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.streams)
}

// empty is closed when there are no streams.
func (m *mux) empty() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := make(chan struct{})
	if len(m.streams) == 0 {
		close(c)
		return c
	}
	if m.idle == nil {
		m.idle = c
	}
	return m.idle
}

// send sends a message, later: nobody waits for the connection.
func (m *mux) send(msg message) {
	if m.messages.put(msg) > maxQueue {
		// Whoever asks and does not read the answers.
		_ = m.wire.Close()
	}
}

func (m *mux) write(control rawStream) {
	for {
		msg, ok := m.messages.get(m.sess.Done())
		if !ok {
			return
		}
		b, err := frame(msg, maxMessage)
		if err != nil {
			m.log.Error("a message to the other end", "type", msg.Type, "err", err)
			continue
		}
		if _, err := control.Write(b); err != nil {
			_ = m.sess.Close()
			return
		}
	}
}

// hear reads a message of the other end.
func (m *mux) hear(control rawStream, msg *message) error {
	if m.odd {
		return readOpen(control, maxMessage, msg)
	}
	return readFrame(control, maxMessage, msg)
}

func (m *mux) read(control rawStream) {
	defer func() { _ = m.sess.Close() }()
	for {
		var msg message
		if err := m.hear(control, &msg); err != nil {
			if !m.ended() {
				m.log.Warn("a message of the other end", "peer", m.peer, "err", err)
			}
			return
		}
		if msg.Type != msgStop && msg.Type != msgAbort {
			m.told(msg)
			continue
		}
		m.mu.Lock()
		s := m.streams[msg.Stream]
		if s == nil && (msg.Stream%2 == 1) != m.odd {
			if len(m.early) == earlyMessages {
				m.early = m.early[1:]
			}
			m.early = append(m.early, msg)
		}
		m.mu.Unlock()
		if s != nil {
			m.about(s, msg)
		}
	}
}

func (m *mux) about(s *stream, msg message) {
	if msg.Type == msgAbort {
		s.fail(refuse(msg.Code, "%s", msg.Text))
		m.send(message{Type: msgStop, Stream: msg.Stream}) // confirmed
	}
	s.stop()
}

// maxQueue bounds what waits for the other end: a few messages for each stream and
// claim that there can be.
const maxQueue = 4096

// queue is messages that wait to be written.
type queue struct {
	mu   sync.Mutex
	list []message
	more chan struct{}
}

func (q *queue) init() { q.more = make(chan struct{}, 1) }

// put returns how many wait.
func (q *queue) put(msg message) int {
	q.mu.Lock()
	q.list = append(q.list, msg)
	n := len(q.list)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
	return n
}

// get waits for a message. It gives none when done is closed.
func (q *queue) get(done <-chan struct{}) (message, bool) {
	for {
		q.mu.Lock()
		if len(q.list) > 0 {
			msg := q.list[0]
			q.list = q.list[1:]
			q.mu.Unlock()
			return msg, true
		}
		q.mu.Unlock()
		select {
		case <-q.more:
		case <-done:
			return message{}, false
		}
	}
}
