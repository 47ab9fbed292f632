package tunnel

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// claim is who holds one service of one lane on this relay. Its goroutine does one
// thing after the other, so that what the Authority is told is in order however
// links come and go:
//
//	ask ----> Up --no--> the agent gets the refusal
//	           | yes
//	           v
//	         held ---link lost---> Lost ---30 s---> Gone(expired)
//	          ^  |                  |
//	          |  +--release, revoke, stop--> Gone
//	          +-------- Up again ---+
type claim struct {
	relay *Relay
	key   key
	more  chan struct{}

	// Under the relay's lock:
	ops []op
	now held
}

// held is how a claim stands. Dial looks at it.
type held struct {
	holder Holder
	claim  Claim
	link   *link // nil: lost, or nobody has it
	up     bool  // the Authority has it
}

type op struct {
	kind  int
	link  *link
	claim Claim
	seq   uint64
	state State
	why   *Refusal
	done  chan struct{} // closed when it has been done, if not nil
}

const (
	opUp = iota
	opLost
	opRelease
	opState
	opRenew
	opRevoke
	opDrop
	opStop
)

// maxOps bounds what one agent can ask of one claim at once.
const maxOps = 64

// post gives a claim something to do. It reports whether anybody will do it.
func (r *Relay) post(k key, o op) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.claims[k]
	if c == nil {
		if o.kind != opUp || r.ends {
			return false
		}
		c = &claim{relay: r, key: k, more: make(chan struct{}, 1)}
		r.claims[k] = c
		r.wg.Go(c.run)
	}
	if o.kind == opUp && r.ends {
		return false
	}
	if o.kind == opState {
		// Only the last one is of interest.
		c.ops = slices.DeleteFunc(c.ops, func(p op) bool { return p.kind == opState && p.link == o.link })
	}
	if len(c.ops) > maxOps && o.link != nil && o.kind != opLost {
		o.link.end(refuse(429, "too many messages"))
	}
	c.ops = append(c.ops, o)
	select {
	case c.more <- struct{}{}:
	default:
	}
	return true
}

func (c *claim) run() {
	var grace *time.Timer
	var after <-chan time.Time
	for {
		o, ok := c.next()
		if !ok && c.finished() {
			return
		}
		if ok {
			c.do(o)
			if o.done != nil {
				close(o.done)
			}
			lost := c.state().up && c.state().link == nil
			switch {
			case lost && grace == nil:
				grace = time.NewTimer(c.relay.timing.grace)
				after = grace.C
			case !lost && grace != nil:
				grace.Stop()
				grace, after = nil, nil
			}
			continue
		}
		select {
		case <-c.more:
		case <-after:
			grace, after = nil, nil
			c.gone(Expired)
		}
	}
}

func (c *claim) next() (op, bool) {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	if len(c.ops) == 0 {
		return op{}, false
	}
	o := c.ops[0]
	c.ops = c.ops[1:]
	return o, true
}

// finished takes the claim out of the relay, if nobody has it or wants it.
func (c *claim) finished() bool {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	if len(c.ops) > 0 || c.now.up {
		return false
	}
	delete(c.relay.claims, c.key)
	return true
}

func (c *claim) state() held {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	return c.now
}

func (c *claim) set(h held) {
	c.relay.mu.Lock()
	defer c.relay.mu.Unlock()
	c.now = h
}

// call calls the Authority, with a deadline.
func (c *claim) call(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), c.relay.timing.call)
	defer cancel()
	f(ctx)
}

func (c *claim) do(o op) {
	now := c.state()
	mine := now.up && o.link != nil && now.link == o.link
	auth := c.relay.conf.Authority
	switch o.kind {
	case opUp:
		c.up(o, now)
	case opLost:
		if mine {
			now.link = nil
			c.set(now)
			c.call(func(ctx context.Context) { auth.Lost(ctx, now.holder, now.claim) })
			c.relay.log.Warn("claim lost", "lane", c.key.lane, "service", c.key.service, "subject", now.holder.Subject)
		}
	case opState:
		if mine {
			c.call(func(ctx context.Context) { auth.State(ctx, now.holder, now.claim, o.state) })
		}
	case opRenew:
		if mine {
			c.renew(o.link, now)
		}
	case opRelease:
		if mine {
			c.gone(Released)
			o.link.forget(now.claim.ID)
		}
		o.link.send(message{Type: msgAnswer, Seq: o.seq})
	case opRevoke:
		if now.up {
			c.gone(Revoked)
		}
	case opDrop:
		if now.up {
			c.gone(TakenOver)
			c.tell(now, o.why)
		}
	case opStop:
		if now.up {
			c.gone(Stopping)
		}
	}
}

// up asks the Authority for a claim, after what can be refused here.
func (c *claim) up(o op, now held) {
	h := o.link.who()
	if o.claim.End {
		c.end(o, now, h)
		return
	}
	answer := message{Type: msgAnswer, Seq: o.seq}
	if no := contested(now, h, o.claim); no != nil {
		o.link.forget(o.claim.ID)
		c.relay.denied(h, o.link.remote, &o.claim, no)
		o.link.send(answer.refused(no))
		c.audit("claim refused", h, no)
		return
	}
	next := held{holder: h, claim: o.claim, link: o.link, up: true}
	other := now.up && now.link != nil && now.link != o.link
	if !other {
		// The Authority may want to see that the way in works, before it registers it.
		c.set(held{holder: h, claim: o.claim, link: o.link, up: now.up})
	}
	var facts map[string]string
	var err error
	c.call(func(ctx context.Context) { facts, err = c.relay.conf.Authority.Up(ctx, h, o.claim) })
	if err == nil {
		err = checkFacts(facts)
	}
	if err != nil {
		c.set(now)
		no := asRefusal(err, 503)
		if !(now.up && now.link == o.link) {
			o.link.forget(o.claim.ID)
		}
		o.link.send(answer.refused(no))
		c.audit("claim refused", h, no)
		return
	}
	c.set(next)
	if other {
		c.tell(now, refuse(409, "%s on %s has taken %s in %s over", h.Subject, h.Host, c.key.service, c.key.lane))
	}
	answer.Facts = facts
	o.link.send(answer)
	c.audit("claim up", h, nil)
}

// end gives up what an agent that has died had. What is no more in its name here, the
// Authority may still have.
func (c *claim) end(o op, now held, h Holder) {
	answer := message{Type: msgAnswer, Seq: o.seq}
	var no *Refusal
	switch {
	case !now.up:
		var err error
		c.call(func(ctx context.Context) { _, err = c.relay.conf.Authority.Up(ctx, h, o.claim) })
		if err != nil {
			no = asRefusal(err, 503)
		}
	case !successor(now, h, o.claim):
		no = refuse(409, "%s in lane %s is held by another session", c.key.service, c.key.lane)
		c.relay.denied(h, o.link.remote, &o.claim, no)
	default:
		c.gone(Released)
	}
	o.link.forget(o.claim.ID)
	if no != nil {
		answer = answer.refused(no)
		c.audit("claim refused", h, no)
	}
	o.link.send(answer)
}

// successor says whether a holder may end what another has: the dead one's own, by the
// same ID, or one of the same install that nobody is linked to.
func successor(now held, h Holder, c Claim) bool {
	old := now.holder
	return old.Subject == h.Subject && (old.Agent == h.Agent || c.Takeover && old.Install == h.Install && now.link == nil)
}

// renew asks the Authority whether a new token allows what the old one did.
func (c *claim) renew(l *link, now held) {
	now.holder = l.who()
	var err error
	c.call(func(ctx context.Context) { _, err = c.relay.conf.Authority.Up(ctx, now.holder, now.claim) })
	var no *Refusal
	if err != nil {
		no = asRefusal(err, 503)
	}
	switch {
	case no == nil, no.Code >= 500: // the registry is away: it knows nothing of tokens
		c.set(now)
	default:
		c.gone(Revoked)
		c.tell(now, no)
		c.audit("claim refused", now.holder, no)
	}
}

func (c *claim) audit(what string, h Holder, no *Refusal) {
	args := []any{"lane", c.key.lane, "service", c.key.service, "subject", h.Subject, "agent", h.Agent, "host", h.Host, "generation", h.Generation}
	if no != nil {
		args = append(args, "status", no.Code, "text", no.Text, "request", no.Request)
	}
	c.relay.log.Info(what, args...)
}

// contested says why a claim cannot be had from who has it now.
func contested(now held, h Holder, c Claim) *Refusal {
	old := now.holder
	switch {
	case !now.up, old.Agent == h.Agent && old.Generation <= h.Generation:
		return nil
	case old.Subject != h.Subject:
		return refuse(409, "%s in lane %s is held by %s on %s", c.Service, c.Lane, old.Subject, old.Host)
	case old.Install != h.Install && c.Takeover, old.Install == h.Install && old.Generation < h.Generation:
		return nil
	case old.Install != h.Install:
		return refuse(409, "%s in lane %s is held by your session on %s: end that one, or take it over (--takeover)", c.Service, c.Lane, old.Host)
	}
	return refuse(409, "%s in lane %s is held by a newer session of this machine", c.Service, c.Lane)
}

// tell tells an agent that it has lost a claim.
func (c *claim) tell(h held, why *Refusal) {
	if h.link != nil {
		h.link.forget(h.claim.ID)
		h.link.send(message{Type: msgLost, ID: h.claim.ID}.refused(why))
	}
}

func (c *claim) gone(why Reason) {
	now := c.state()
	c.call(func(ctx context.Context) { c.relay.conf.Authority.Gone(ctx, now.holder, now.claim, why) })
	c.set(held{})
	c.relay.log.Info("claim gone", "lane", c.key.lane, "service", c.key.service, "subject", now.holder.Subject, "why", why)
}

// Dial opens a stream to whoever holds a service of a lane. It does not wait for
// the laptop: what is written goes at once. Without a free stream it waits for
// one, as long as ctx and 5 s at most. h.Small takes the connection for small and
// urgent things. ErrUnknown, ErrLost, ErrBusy.
func (r *Relay) Dial(ctx context.Context, lane, service string, h Header) (Stream, error) {
	r.mu.Lock()
	c := r.claims[key{lane, service, h.Beside}]
	var now held
	if c != nil {
		now = c.now
	}
	r.mu.Unlock()
	switch {
	case now.link == nil && now.up:
		return nil, ErrLost
	case now.link == nil:
		return nil, ErrUnknown
	}
	h.Version, h.Claim, h.Kind = version, now.claim.ID, now.claim.Kind
	if err := h.check(); err != nil {
		return nil, refuse(400, "%v", err)
	}
	which := partBulk
	if h.Small {
		which = partControl
	}
	m := now.link.mux(which)
	if m == nil {
		return nil, ErrLost
	}
	if err := now.link.turnToOpen(ctx, r.timing.slot); err != nil {
		return nil, err
	}
	s, err := m.open(ctx, h)
	if err != nil {
		if errors.Is(err, ErrBusy) {
			r.limited(now.link.who(), LimitStreams)
		}
		return nil, err
	}
	return s, nil
}

// Tell sends facts about a claim to its holder, who gets them as an Event. Without
// a link they are dropped. beside is as in Header.
func (r *Relay) Tell(lane, service, beside string, facts map[string]string) {
	if now := r.holds(key{lane, service, beside}); now.link != nil && checkFacts(facts) == nil {
		now.link.send(message{Type: msgFacts, ID: now.claim.ID, Facts: facts})
	}
}

func (r *Relay) holds(k key) held {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.claims[k]; c != nil {
		return c.now
	}
	return held{}
}

// Drop takes a claim from its holder, because another relay has it now or it is
// forbidden: Gone(TakenOver) is called, and the agent is told why.
func (r *Relay) Drop(lane, service, beside string, why *Refusal) {
	r.post(key{lane, service, beside}, op{kind: opDrop, why: why})
}

// Revoke ends the links of all holders that match: first their claims are gone,
// then the links are closed, with text for the developer. What is not done within
// five seconds is closed all the same. That they do not come back is the
// Authority's part.
func (r *Relay) Revoke(ctx context.Context, match func(Holder) bool, text string) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	r.mu.Lock()
	var links []*link
	for l := range r.all {
		if match(l.who()) {
			links = append(links, l)
			l.refuseMore()
		}
	}
	var keys []key
	for k, c := range r.claims {
		if c.now.up && match(c.now.holder) {
			keys = append(keys, k)
		}
	}
	r.mu.Unlock()
	r.allDo(ctx, keys, opRevoke)
	var wg sync.WaitGroup
	for _, l := range links {
		l.end(refuse(401, "%s", text))
		wg.Go(func() {
			select {
			case <-l.done:
			case <-time.After(time.Second):
			}
		})
	}
	wg.Wait()
}

func (l *link) refuseMore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
}

// allDo lets claims do something, and waits until they have, or ctx ends.
func (r *Relay) allDo(ctx context.Context, keys []key, kind int) {
	var wait []chan struct{}
	for _, k := range keys {
		done := make(chan struct{})
		if r.post(k, op{kind: kind, done: done}) {
			wait = append(wait, done)
		}
	}
	for _, done := range wait {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// stop gives everything up, in this order: the claims, so that nobody comes any
// more; the agents, who are sent away; the streams, which have a while; the links.
func (r *Relay) stop() {
	r.mu.Lock()
	r.ends = true
	var keys []key
	for k := range r.claims {
		keys = append(keys, k)
	}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*r.timing.call)
	defer cancel()
	r.allDo(ctx, keys, opStop)

	r.mu.Lock()
	links := make([]*link, 0, len(r.all))
	for l := range r.all {
		links = append(links, l)
	}
	r.mu.Unlock()
	drained, cancel2 := context.WithTimeout(context.Background(), r.timing.drain)
	defer cancel2()
	var wg sync.WaitGroup
	quit := make(chan struct{})
	forced := make(chan struct{})
	go func() {
		defer close(forced)
		select {
		case <-r.conf.Force:
			cancel2()
		case <-quit:
		}
	}()
	defer func() { close(quit); <-forced }()
	for _, l := range links {
		wg.Go(func() {
			l.send(message{Type: msgGoAway})
			for _, which := range []string{partControl, partBulk} {
				if m := l.mux(which); m != nil {
					select {
					case <-m.empty():
					case <-l.done:
					case <-drained.Done():
					}
				}
			}
			l.end(ErrLost)
			<-l.done
		})
	}
	wg.Wait()
}
