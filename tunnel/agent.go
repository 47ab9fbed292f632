package tunnel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// AgentConfig is what an Agent is made from.
type AgentConfig struct {
	URL   string // wss://HOST[:PORT][/PATH], default path /tunnel/v1
	Token func(context.Context) (string, error)
	Roots *x509.CertPool // nil: the system's
	// Pin is the Fingerprint of the relay's own certificate. It takes the place of
	// Roots, and of the name: the certificate may be any that has it.
	Pin    string
	Client *tls.Certificate // for mTLS, or nil
	Proxy  *url.URL         // an HTTP proxy that knows CONNECT, or nil

	ID            string // of the agent that this one comes after, which has died; "": a new one
	Install, Host string
	Generation    uint64 // of the first link; 0: the time in milliseconds

	// Handle gets each stream that comes for a claim, in a goroutine of its own,
	// and the stream is closed when it returns. ctx ends with the stream, if that
	// is cut; its cause is ErrLost if the link was what failed. Where the bytes go is
	// Handle's choice alone.
	Handle func(ctx context.Context, c Claim, h Header, s Stream)
	// Notify, if not nil, gets what happens, in order. It must not block.
	Notify func(Event)
	Log    *slog.Logger // nil: none
}

// Event is what has happened to an agent.
type Event struct {
	What       EventKind
	Err        error             // Disconnected, Retrying: why; ClaimLost: a *Refusal
	In         time.Duration     // Disconnected, Retrying: until the next try
	Slept      time.Duration     // Woke: for how long
	Claim      Claim             // Claimed, ClaimLost, Told
	Facts      map[string]string // Connected: of the relay; Claimed, Told: of the claim, from the relay
	Generation uint64            // Connected, Claimed: of the link
}

// EventKind says what an Event is about.
type EventKind string

// The kinds of events.
const (
	Connected    EventKind = "connected"
	Disconnected EventKind = "disconnected"
	Retrying     EventKind = "retrying"
	Draining     EventKind = "draining" // the relay is about to end; a new link is made
	Woke         EventKind = "woke"     // the machine has slept; a new link is made at once
	Claimed      EventKind = "claimed"
	ClaimLost    EventKind = "claim lost"
	Told         EventKind = "told"
)

// Agent is the tunnel's end on the laptop.
type Agent struct {
	conf   AgentConfig
	timing timing
	log    *slog.Logger
	id     string
	url    *url.URL
	wall   func() time.Time     // the machine's time of day
	mono   func() time.Duration // a clock that stands still while the machine sleeps

	seq    atomic.Uint64
	woken  chan time.Duration // for how long the machine slept
	again  chan struct{}      // ends a pause between two tries
	notify sync.Mutex         // Notify is called by one at a time

	mu     sync.Mutex
	link   *agentLink // the newest, when it stands
	reason error      // why there is none
	wants  map[string]*want
	shown  map[uint64]chan answer // tokens whose answer is waited for; each has room for one
	over   bool                   // Run has returned
	left   []string               // valid once it has
}

// want is a claim that is to be held, whatever happens to the link.
type want struct {
	claim     Claim
	state     *State
	held      bool
	releasing bool
	asked     uint64        // the number of the last question
	waiters   []chan answer // each has room for one
}

type answer struct {
	facts map[string]string
	err   error
}

// NewAgent checks c. Nothing is dialled before Run.
func NewAgent(c AgentConfig) (*Agent, error) { return newAgent(c, defaults) }

func newAgent(c AgentConfig, t timing) (*Agent, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the relay's address: %w", err)
	case u.Scheme != "wss" || u.Host == "":
		return nil, fmt.Errorf("the relay's address is %q, want wss://HOST[:PORT]", c.URL)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the relay's address has a user, a query or a fragment: a token does not belong there")
	case c.Proxy != nil && c.Proxy.Scheme != "http" && c.Proxy.Scheme != "https":
		return nil, fmt.Errorf("the proxy is %q, want http://HOST:PORT", c.Proxy.Redacted())
	case !name(c.Install) || !text(c.Host, maxName):
		return nil, fmt.Errorf("install %q and host %q: want a name and a line", c.Install, c.Host)
	case c.ID != "" && !name(c.ID):
		return nil, fmt.Errorf("agent %q: want a name", c.ID)
	case c.Handle == nil:
		return nil, errors.New("tunnel: an agent needs somebody who handles its streams")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/tunnel/v1"
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Generation == 0 {
		c.Generation = uint64(time.Now().UnixMilli())
	}
	began := time.Now()
	return &Agent{
		conf: c, timing: t, log: c.Log, id: cmp.Or(c.ID, rand.Text()), url: u,
		wall: func() time.Time { return time.Now().Round(0) }, mono: func() time.Duration { return time.Since(began) },
		woken: make(chan time.Duration, 1), again: make(chan struct{}, 1), wants: map[string]*want{}, shown: map[uint64]chan answer{}, reason: errors.New("nothing has been tried yet"),
	}, nil
}

// ID is what the relay knows the agent by, over all its links.
func (a *Agent) ID() string { return a.id }

// Run keeps a link to the relay, until ctx ends or there is no sense in trying
// again: a *Refusal with 401 or 403, or, before there ever was a link, one with 429,
// a *CertificateError, a *ClientCertificateError, or the 407 of a proxy. When ctx ends the claims are released, and the error is nil.
func (a *Agent) Run(ctx context.Context) error {
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { a.watchSleep(live) })
	err := a.keep(ctx, live, &wg)
	a.mu.Lock()
	a.over, a.link = true, nil
	a.reason = cmp.Or(err, errors.New("the tunnel has ended"))
	for id, w := range a.wants {
		if w.held {
			a.left = append(a.left, id)
		}
		w.answer(answer{err: a.reason})
		delete(a.wants, id)
	}
	a.mu.Unlock()
	cancel()
	wg.Wait()
	return err
}

// Left are the claims that the relay had when Run returned: it has not said that it has
// given them up.
func (a *Agent) Left() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left
}

// keep is Run's loop. live outlasts ctx until everything is released.
func (a *Agent) keep(ctx, live context.Context, wg *sync.WaitGroup) error {
	generation := a.conf.Generation
	failures, ever := 0, false
	for {
		l, err := a.connect(ctx, generation)
		generation++
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			if final(err, ever) {
				return err
			}
			in := backoff(failures, a.timing.retryMin, a.timing.retryMax)
			failures++
			a.without(err)
			a.event(Event{What: Retrying, Err: err, In: in})
			if !a.pause(ctx, in) {
				return nil
			}
			continue
		}
		ever = true
		began, lost := time.Now(), false
		wg.Go(func() { l.run(live) })
		a.with(l)
		a.event(Event{What: Connected, Facts: l.facts, Generation: l.generation})
		select {
		case <-ctx.Done():
			a.releaseAll()
			l.close()
			return nil
		case d := <-a.woken:
			l.lose(errors.New("the machine has slept"))
			failures = 0
			a.without(ErrLost)
			a.event(Event{What: Woke, Slept: d})
			continue
		case <-l.away:
			a.without(errors.New("the relay is about to end"))
			a.event(Event{What: Draining})
		case <-l.done:
			lost = true
			// What the token was refused for, a new one may be allowed: Token is asked
			// again, and the relay's next no is final.
		}
		if time.Since(began) >= a.timing.stable {
			failures = 0
		}
		in := backoff(failures, a.timing.retryMin, a.timing.retryMax)
		failures++
		if lost {
			err := l.reason()
			a.without(err)
			a.event(Event{What: Disconnected, Err: err, In: in})
		}
		if !a.pause(ctx, in) {
			// Ctrl-C between two links: the claims are released over the next one.
			return a.last(live, generation, wg)
		}
	}
}

// last makes one more link, to give up what the relay still holds for the agent. What
// somebody has released already, he has waited for as long as he wanted.
func (a *Agent) last(live context.Context, generation uint64, wg *sync.WaitGroup) error {
	a.mu.Lock()
	nothing := true
	for _, w := range a.wants {
		nothing = nothing && w.releasing
	}
	a.mu.Unlock()
	if nothing {
		return nil
	}
	ctx, cancel := context.WithTimeout(live, a.timing.release)
	defer cancel()
	l, err := a.connect(ctx, generation)
	if err != nil {
		return nil // its claims expire by themselves
	}
	wg.Go(func() { l.run(live) })
	a.with(l)
	a.releaseAll()
	l.close()
	return nil
}

// final reports whether trying again makes no sense.
func final(err error, ever bool) bool {
	var no *Refusal
	if errors.As(err, &no) {
		return no.Code == 401 || no.Code == 403 || no.Code == 429 && !ever
	}
	var cert *CertificateError
	var client *ClientCertificateError
	var proxy *ProxyError
	if errors.As(err, &proxy) {
		return strings.HasPrefix(proxy.Status, "407") && !ever // it wants a password, or another one
	}
	return (errors.As(err, &cert) || errors.As(err, &client)) && !ever
}

// Retry ends the pause before the next try, if there is one.
func (a *Agent) Retry() {
	select {
	case a.again <- struct{}{}:
	default:
	}
}

// pause waits, unless the machine wakes or somebody is in a hurry. It reports whether
// ctx still lives.
func (a *Agent) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-a.again: // meant for a pause that is over
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-a.woken:
	case <-a.again:
	case <-t.C:
	}
	return ctx.Err() == nil
}

func (a *Agent) event(e Event) {
	a.notify.Lock()
	defer a.notify.Unlock()
	a.log.Info("tunnel", "event", string(e.What), "err", e.Err, "claim", e.Claim.ID, "generation", e.Generation)
	if a.conf.Notify != nil {
		a.conf.Notify(e)
	}
}

// with makes l the link, and asks it for all that is wanted.
func (a *Agent) with(l *agentLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link, a.reason = l, nil
	for _, w := range a.wants {
		a.ask(w)
	}
}

func (a *Agent) without(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link, a.reason = nil, err
}

// ask sends what is to be said about a claim now. a.mu is held.
func (a *Agent) ask(w *want) {
	if a.link == nil {
		return
	}
	w.asked = a.seq.Add(1)
	if w.releasing {
		a.link.control.send(message{Type: msgRelease, Seq: w.asked, ID: w.claim.ID})
		return
	}
	c := w.claim
	a.link.control.send(message{Type: msgClaim, Seq: w.asked, Claim: &c})
	if w.state != nil {
		s := *w.state
		a.link.control.send(message{Type: msgState, ID: c.ID, State: &s})
	}
}

func (w *want) answer(r answer) {
	for _, c := range w.waiters {
		c <- r
	}
	w.waiters = nil
}

// Claim asks the relay for c, waits until it is registered, and returns what the
// relay says about it. From then on it is asked for again over each new link. The
// error is a *Refusal, or says why there was no link until ctx ended. The same ID
// again replaces the facts.
func (a *Agent) Claim(ctx context.Context, c Claim) (map[string]string, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	wait := make(chan answer, 1)
	a.mu.Lock()
	if a.over {
		defer a.mu.Unlock()
		return nil, a.reason
	}
	w := a.wants[c.ID]
	switch {
	case w == nil:
		w = &want{}
		a.wants[c.ID] = w
	case w.releasing:
		a.mu.Unlock()
		return nil, fmt.Errorf("the claim %s is being released", c.ID)
	}
	w.claim = c
	w.waiters = append(w.waiters, wait)
	a.ask(w)
	a.mu.Unlock()
	select {
	case r := <-wait:
		return r.facts, r.err
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	reason := cmp.Or(a.reason, errors.New("the relay has not answered"))
	if a.wants[c.ID] == w && !w.held {
		delete(a.wants, c.ID)
		if a.link != nil {
			a.link.control.send(message{Type: msgRelease, Seq: a.seq.Add(1), ID: c.ID})
		}
	}
	return nil, &waited{reason, context.Cause(ctx)}
}

// Release gives a claim up, and waits until the relay has deregistered it.
func (a *Agent) Release(ctx context.Context, id string) error {
	wait := make(chan answer, 1)
	a.mu.Lock()
	w := a.wants[id]
	if w == nil || a.over {
		a.mu.Unlock()
		return nil
	}
	if !w.releasing {
		w.answer(answer{err: errors.New("released")})
		w.releasing = true
		a.ask(w)
	}
	w.waiters = append(w.waiters, wait)
	a.mu.Unlock()
	select {
	case r := <-wait:
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("release %s: %w", id, context.Cause(ctx))
	}
}

func (a *Agent) releaseAll() {
	ctx, cancel := context.WithTimeout(context.Background(), a.timing.release)
	defer cancel()
	a.mu.Lock()
	ids := make([]string, 0, len(a.wants))
	for id := range a.wants {
		ids = append(ids, id)
	}
	l := a.link
	a.mu.Unlock()
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() { _ = a.Release(ctx, id) })
	}
	if l != nil {
		stop := context.AfterFunc(l.ctx, cancel) // nobody will answer
		defer stop()
	}
	wg.Wait()
}

// Report says how the process behind a claim is. It is said again after a
// reconnect.
func (a *Agent) Report(id string, s State) {
	s.Note = clip(s.Note, maxNote)
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wants[id]
	if w == nil || w.releasing {
		return
	}
	w.state = &s
	if a.link != nil {
		a.link.control.send(message{Type: msgState, ID: id, State: &s})
	}
}

// Renew shows the relay the token that Token gives now, if it is another one than
// that which was shown last. The tunnel goes on with it, and so does all that it holds;
// what a new token does not allow is lost. It reports whether there was a new one. The
// error is the relay's *Refusal, with which everything stays as it was, or says that
// there is no link, whose next one takes the new token anyway.
func (a *Agent) Renew(ctx context.Context) (renewed bool, err error) {
	l, err := a.current()
	if err != nil || a.conf.Token == nil {
		return false, err
	}
	token, err := a.conf.Token(ctx)
	if err != nil {
		return false, fmt.Errorf("the token: %w", err)
	}
	l.mu.Lock()
	same := l.token == token
	l.mu.Unlock()
	if same {
		return false, nil
	}
	wait := make(chan answer, 1)
	seq := a.seq.Add(1)
	a.mu.Lock()
	a.shown[seq] = wait
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.shown, seq)
	}()
	l.control.send(message{Type: msgToken, Seq: seq, Text: token})
	select {
	case r := <-wait:
		if err = r.err; err != nil && asRefusal(err, 0).Code >= 500 {
			return false, err // it may take it the next time
		}
	case <-l.done:
		return false, ErrLost
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token = token
	return err == nil, err
}

// told is what the relay says.
func (a *Agent) told(l *agentLink, msg message) {
	var events []Event
	a.mu.Lock()
	switch msg.Type {
	case msgAnswer:
		if wait := a.shown[msg.Seq]; wait != nil {
			delete(a.shown, msg.Seq)
			var err error
			if no := msg.refusal(false); no != nil {
				err = no
			}
			wait <- answer{err: err}
			break
		}
		for id, w := range a.wants {
			if w.asked != msg.Seq {
				continue
			}
			var err error
			if no := msg.refusal(true); no != nil {
				err = no
			}
			switch {
			case w.releasing:
				delete(a.wants, id)
			case msg.Code >= 500 && w.held:
				// The relay cannot now: its registry is away, or it is about to end. What
				// was held stays wanted.
				a.later(l, w)
				continue
			case err != nil:
				if w.held {
					events = append(events, Event{What: ClaimLost, Claim: w.claim, Err: err})
				}
				delete(a.wants, id)
			default:
				w.held = true
				events = append(events, Event{What: Claimed, Claim: w.claim, Facts: msg.Facts, Generation: l.generation})
			}
			w.answer(answer{msg.Facts, err})
		}
	case msgLost:
		if w := a.wants[msg.ID]; w != nil {
			err := &Refusal{Code: msg.Code, Text: msg.Text, Claim: true, Request: requestID(msg.Facts[factRequest])}
			w.answer(answer{err: err})
			delete(a.wants, msg.ID)
			events = append(events, Event{What: ClaimLost, Claim: w.claim, Err: err})
		}
	case msgFacts:
		if w := a.wants[msg.ID]; w != nil {
			events = append(events, Event{What: Told, Claim: w.claim, Facts: msg.Facts})
		}
	}
	a.mu.Unlock()
	for _, e := range events {
		a.event(e)
	}
}

// later asks for a claim again after a while, over the same link.
func (a *Agent) later(l *agentLink, w *want) {
	l.control.later(func() {
		t := time.NewTimer(a.timing.retryMin + backoff(3, a.timing.retryMin, a.timing.retryMax))
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.ctx.Done():
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.link == l && a.wants[w.claim.ID] == w && !w.releasing {
			a.ask(w)
		}
	})
}

// claimed is the claim with that id.
func (a *Agent) claimed(id string) (Claim, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.wants[id]
	if w == nil {
		return Claim{}, false
	}
	return w.claim, true
}

func (a *Agent) current() (*agentLink, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.link == nil {
		return nil, fmt.Errorf("%w: %w", ErrLost, a.reason)
	}
	return a.link, nil
}

// DialOut asks the relay to dial a service, and waits for its answer: a *Refusal,
// ErrLost or ErrBusy.
func (a *Agent) DialOut(ctx context.Context, o Out) (Stream, error) {
	o.Version = version
	if err := o.check(); err != nil {
		return nil, err
	}
	l, err := a.current()
	if err != nil {
		return nil, err
	}
	s, err := l.bulk.open(ctx, o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Abort(499, "nobody waits any more") })
	var no Refusal
	err = readOpen(s, maxHeader, &no)
	if !stop() {
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil:
		_ = s.Close()
		return nil, fmt.Errorf("the relay's answer about %s: %w", o.Service, err)
	case no.Code != 0:
		_ = s.Close()
		return nil, &no
	}
	return s, nil
}

// RTT is the round trip to the relay, as last measured; false without a link.
func (a *Agent) RTT() (time.Duration, bool) {
	l, err := a.current()
	if err != nil {
		return 0, false
	}
	d := time.Duration(l.rtt.Load())
	return d, d > 0
}

// Remote is the address that the link goes to, "" without a link.
func (a *Agent) Remote() string {
	l, err := a.current()
	if err != nil {
		return ""
	}
	return l.remote
}
