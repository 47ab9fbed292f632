package tunnel

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// link is the relay's end of an agent's two connections. It ends with the first
// of them.
type link struct {
	relay   *Relay
	agent   string
	peer    *x509.Certificate // the client's, or nil
	remote  net.Addr
	since   time.Time
	quota   *quota
	parts   chan part
	renewed chan struct{} // holds one word that the holder has another token
	quit    chan struct{} // closed by end
	done    chan struct{} // closed when its streams are cut

	mu      sync.Mutex
	holder  Holder
	muxes   map[string]*mux
	ids     map[string]key // the claims that it has asked for
	why     error          // of end
	ended   bool
	refused bool // it may claim no more
}

type part struct {
	name string
	wire *wire
}

// Link is a link as a status shows it.
type Link struct {
	Holder  Holder
	Remote  string
	Since   time.Time
	Claims  []Claim
	Streams int
	In, Out uint64 // bytes from and to the laptop
}

// who holds the link, by the token that was shown last.
func (l *link) who() Holder {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder
}

// link makes the link of an agent's first connection, or finds that of its second.
func (r *Relay) link(h Holder, which string, remote net.Addr, peer *x509.Certificate) (*link, error) {
	l, limit, err := r.linkOf(h, which, remote, peer)
	if limit != "" {
		r.limited(h, limit)
	}
	return l, err
}

func (r *Relay) linkOf(h Holder, which string, remote net.Addr, peer *x509.Certificate) (*link, Limit, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends {
		return nil, "", refuse(503, "this relay is about to end")
	}
	old := r.links[h.Agent]
	var before Holder
	if old != nil {
		before = old.who()
	}
	if old != nil && before.Subject != h.Subject {
		return nil, "", refuse(403, "this agent is somebody else's")
	}
	if which == partBulk {
		if old == nil || before.Generation != h.Generation || before.TokenID != h.TokenID {
			return nil, "", refuse(409, "there is no link for a second connection")
		}
		return old, "", nil
	}
	if old != nil && before.Generation >= h.Generation {
		return nil, "", refuse(409, "there is a newer link of this agent")
	}
	agents := 0
	for name, l := range r.links {
		if name != h.Agent && l.who().Subject == h.Subject {
			agents++
		}
	}
	if agents >= r.conf.Limits.Agents {
		many := "tunnels"
		if agents == 1 {
			many = "tunnel"
		}
		return nil, LimitAgents, refuse(429, "%s has %d %s here already, which is the limit", h.Subject, agents, many)
	}
	if s := r.ledger.spent(h.Identity); s != nil && s.bytes.Load() > r.conf.Limits.Volume {
		return nil, LimitVolume, refuse(401, "%s", r.usedUp(h))
	}
	quota := r.ledger.quota(h.Subject)
	if !quota.links.Allow() {
		// It passes: an agent tries again.
		return nil, LimitLinks, refuse(503, "%s makes more than %d tunnels a minute, which is the limit", h.Subject, r.conf.Limits.Links)
	}
	l := &link{
		relay: r, agent: h.Agent, holder: h, peer: peer, remote: remote, since: time.Now(), quota: quota, parts: make(chan part),
		renewed: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}), muxes: map[string]*mux{}, ids: map[string]key{},
	}
	r.links[h.Agent] = l
	r.all[l] = true
	r.wg.Go(l.run)
	if old != nil {
		old.end(refuse(409, "a newer link of this agent is there"))
	}
	return l, "", nil
}

// attach hands a connection to the link.
func (l *link) attach(which string, w *wire) {
	select {
	case l.parts <- part{which, w}:
	case <-l.quit:
		_ = w.Close()
	}
}

// end ends the link. A *Refusal is told the agent.
func (l *link) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.ended, l.why = true, why
		close(l.quit)
	}
}

func (l *link) run() {
	r := l.relay
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	l.serve(ctx, &wg)
	l.end(ErrLost)

	l.mu.Lock()
	why := l.why
	muxes := l.muxes
	l.mu.Unlock()
	if no := (*Refusal)(nil); errors.As(why, &no) {
		code := closeRefused
		if no.Code == 409 {
			code = closeReplaced
		}
		var said sync.WaitGroup
		for _, m := range muxes {
			said.Go(func() { m.wire.say(code, no.Text) })
		}
		said.Wait()
	}
	cancel()
	r.mu.Lock()
	delete(r.all, l)
	if r.links[l.agent] == l {
		delete(r.links, l.agent)
	}
	r.mu.Unlock()
	l.mu.Lock()
	ids := l.ids
	l.ids = nil
	l.mu.Unlock()
	for _, k := range ids {
		r.post(k, op{kind: opLost, link: l})
	}
	wg.Wait()
	close(l.done)
	h := l.who()
	r.log.Info("tunnel down", "subject", h.Subject, "agent", h.Agent, "generation", h.Generation, "why", why)
}

// serve waits for both connections, and then for the end.
func (l *link) serve(ctx context.Context, wg *sync.WaitGroup) {
	r := l.relay
	late := time.NewTimer(r.timing.handshake)
	defer late.Stop()
	for len(l.muxes) < 2 {
		select {
		case p := <-l.parts:
			if err := l.start(ctx, p, wg); err != nil {
				r.log.Warn("tunnel refused", "subject", l.who().Subject, "err", err)
				_ = p.wire.Close()
				return
			}
		case <-late.C:
			return
		case <-l.quit:
			return
		}
	}
	control, bulk := l.muxes[partControl], l.muxes[partBulk]
	control.send(message{Type: msgReady, Facts: r.itself()})
	h := l.who()
	r.log.Info("tunnel up", "subject", h.Subject, "agent", h.Agent, "host", h.Host,
		"generation", h.Generation, "remote", l.remote.String())
	for l.lasts(control, bulk) {
	}
}

// lasts waits for the end of the link, and then is false, or until there is another
// token.
func (l *link) lasts(control, bulk *mux) bool {
	h := l.who()
	var expired <-chan time.Time
	if !h.Expires.IsZero() {
		t := time.NewTimer(time.Until(h.Expires))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-l.renewed:
		return true
	case <-control.sess.Done():
	case <-bulk.sess.Done():
	case <-l.quit:
	case <-expired:
		l.end(refuse(401, "the %s of %s has expired", h.shown(), h.Subject))
	}
	return false
}

// renew takes another token of the same subject for the link and all that it holds:
// nothing is given up in between. With a no everything stays as it was.
func (l *link) renew(m *mux, msg message) {
	r := l.relay
	answer := message{Type: msgAnswer, Seq: msg.Seq}
	defer func() { m.send(answer) }()
	old := l.who()
	ctx, cancel := context.WithTimeout(context.Background(), r.timing.call)
	defer cancel()
	id, err := r.conf.Authority.Authenticate(ctx, Credentials{Token: msg.Text, Peer: l.peer, Remote: l.remote, Renews: old.Subject})
	if err == nil && id.Subject != old.Subject {
		no := refuse(403, "the new token is of %s, and this tunnel is of %s", id.Subject, old.Subject)
		theirs := old
		theirs.Identity = id
		r.denied(theirs, l.remote, nil, no)
		err = no
	}
	if err != nil {
		answer = answer.refused(asRefusal(err, 503))
		return
	}
	l.mu.Lock()
	l.holder.Identity = id
	var keys []key
	for _, k := range l.ids {
		keys = append(keys, k)
	}
	l.mu.Unlock()
	select {
	case l.renewed <- struct{}{}:
	default: // it looks anyway
	}
	for _, k := range keys {
		r.post(k, op{kind: opRenew, link: l})
	}
	r.admitted(l.who(), l.remote, true)
	r.log.Info("token renewed", "subject", id.Subject, "agent", l.agent)
}

func (l *link) start(ctx context.Context, p part, wg *sync.WaitGroup) error {
	toll := l.toll()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.muxes[p.name] != nil {
		return refuse(409, "a second %s connection", p.name)
	}
	window := uint32(controlWindow)
	if p.name == partBulk {
		window = bulkWindow
	}
	m, err := newMux(p.wire, false, window, l.agent, l.relay.conf.Limits.Streams, l.relay.timing, l.relay.log)
	if err != nil {
		return err
	}
	m.toll = toll
	m.crowded = func() { l.relay.limited(l.who(), LimitStreams) }
	m.accepted = func(s *stream) { l.out(ctx, s) }
	m.told = func(msg message) { l.told(m, msg) }
	l.muxes[p.name] = m
	wg.Go(func() {
		late := time.AfterFunc(m.timing.handshake, func() { _ = m.sess.Close() })
		control, err := m.sess.Accept()
		late.Stop()
		if err != nil {
			_ = m.sess.Close()
			return
		}
		m.run(ctx, control)
	})
	return nil
}

func (l *link) mux(name string) *mux {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.muxes[name]
}

func (l *link) send(msg message) {
	if m := l.mux(partControl); m != nil {
		m.send(msg)
	}
}

func (l *link) told(m *mux, msg message) {
	r := l.relay
	switch msg.Type {
	case msgClaim:
		if err := l.ask(msg); err != nil {
			r.denied(l.who(), l.remote, msg.Claim, err)
			m.send(message{Type: msgAnswer, Seq: msg.Seq}.refused(err))
		}
	case msgRelease:
		l.mu.Lock()
		k, ok := l.ids[msg.ID]
		l.mu.Unlock()
		if !ok {
			m.send(message{Type: msgAnswer, Seq: msg.Seq})
			return
		}
		r.post(k, op{kind: opRelease, link: l, seq: msg.Seq})
	case msgState:
		l.mu.Lock()
		k, ok := l.ids[msg.ID]
		l.mu.Unlock()
		if ok && msg.State != nil {
			s := *msg.State
			s.Note = clip(strings.ToValidUTF8(s.Note, "?"), maxNote)
			r.post(k, op{kind: opState, link: l, state: s})
		}
	case msgToken:
		l.renew(m, msg)
	default:
		r.log.Debug("an unknown message", "type", msg.Type, "agent", l.agent)
	}
}

func (l *link) ask(msg message) *Refusal {
	c := msg.Claim
	if c == nil {
		return refuse(400, "a claim of nothing")
	}
	if err := c.check(); err != nil {
		return refuse(400, "%v", err)
	}
	l.mu.Lock()
	k := keyOf(l.holder, *c)
	subject := l.holder.Subject
	old, again := l.ids[c.ID]
	switch {
	case l.refused:
		l.mu.Unlock()
		return refuse(401, "what %s may do here has been revoked", subject)
	case l.ids == nil:
		l.mu.Unlock()
		return refuse(503, "the link is about to end")
	case again && old != k:
		l.mu.Unlock()
		return refuse(400, "the claim %s is of another service", c.ID)
	case !again && len(l.ids) >= l.relay.conf.Limits.Claims:
		l.mu.Unlock()
		l.relay.limited(l.who(), LimitClaims)
		if n := l.relay.conf.Limits.Claims; n != 1 {
			return refuse(429, "%d claims of one tunnel are the limit", n)
		}
		return refuse(429, "1 claim of one tunnel is the limit")
	case !l.quota.asks.Allow():
		l.mu.Unlock()
		l.relay.limited(l.who(), LimitAsks)
		return refuse(503, "%s asks for more than %d claims a minute, which is the limit", subject, l.relay.conf.Limits.Asks)
	}
	for id, other := range l.ids {
		if other == k && id != c.ID {
			l.mu.Unlock()
			return refuse(400, "%s in %s is claimed as %s already", c.Service, c.Lane, id)
		}
	}
	l.ids[c.ID] = k
	l.mu.Unlock()
	if !l.relay.post(k, op{kind: opUp, link: l, claim: *c, seq: msg.Seq}) {
		return refuse(503, "this relay is about to end")
	}
	return nil
}

// forget takes a claim from the link's list, so that its id can be used again.
func (l *link) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.ids, id)
}

// out serves a stream that the agent has opened.
func (l *link) out(ctx context.Context, s *stream) {
	r := l.relay
	_ = s.SetReadDeadline(time.Now().Add(r.timing.handshake))
	var o Out
	err := readFrame(s, maxHeader, &o)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		s.Abort(400, "stream header: "+err.Error())
		return
	}
	_ = s.SetReadDeadline(time.Time{})
	ctx, cancel := context.WithTimeout(ctx, r.timing.call)
	defer cancel()
	gone := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-s.cut:
			cancel()
		case <-s.stopped:
			cancel()
		case <-stop:
		}
	}()
	var conn net.Conn
	if err = l.turnToOpen(ctx, r.timing.slot); err == nil {
		conn, err = r.conf.Authority.Out(ctx, l.who(), o)
	} else if errors.Is(err, ErrBusy) {
		err = refuse(429, "%v", err)
	}
	close(stop)
	<-gone
	var no Refusal
	if err != nil {
		no = *asRefusal(err, 502)
		no.Text = clip(no.Text, 900)
	}
	r.log.Info("way out", "subject", l.who().Subject, "service", o.Service, "lane", o.Lane, "status", no.Code, "text", no.Text)
	b, err := frame(no, maxHeader)
	if err == nil {
		_, err = s.Write(b)
	}
	if conn == nil {
		return
	}
	if err != nil {
		_ = conn.Close()
		return
	}
	s.toll = s.mux.toll
	if err := Join(context.WithoutCancel(ctx), s, conn); err != nil {
		r.log.Debug("way out ended", "service", o.Service, "err", err)
	}
}

// Links is who is connected now, the oldest first.
func (r *Relay) Links() []Link {
	r.mu.Lock()
	all := make([]*link, 0, len(r.all))
	for l := range r.all {
		all = append(all, l)
	}
	held := map[*link][]Claim{}
	for _, c := range r.claims {
		if c.now.link != nil && c.now.up {
			held[c.now.link] = append(held[c.now.link], c.now.claim)
		}
	}
	r.mu.Unlock()
	out := make([]Link, 0, len(all))
	for _, l := range all {
		v := Link{Holder: l.who(), Remote: l.remote.String(), Since: l.since, Claims: held[l]}
		slices.SortFunc(v.Claims, func(a, b Claim) int { return strings.Compare(a.ID, b.ID) })
		l.mu.Lock()
		for _, m := range l.muxes {
			v.Streams += m.count()
			v.In += m.in.Load()
			v.Out += m.out.Load()
		}
		l.mu.Unlock()
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b Link) int { return a.Since.Compare(b.Since) })
	return out
}
