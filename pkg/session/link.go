package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/guardian"
	"lane/pkg/proxy"
	"lane/pkg/relay/facts"
	"lane/pkg/token"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// Relay says by which relay a session comes in, and as whom.
type Relay struct {
	URL   string // wss://host[:port]
	Pin   string // the fingerprint of its certificate; empty: Roots verify it
	Roots *x509.CertPool
	// Token gives the user's token, anew for each link.
	Token func(context.Context) (string, error)
	// Client is the user's certificate, for a relay that asks for one; nil: none.
	Client *tls.Certificate
	// Proxy is the user's own proxy on the way to it; nil: none.
	Proxy *url.URL
	// Files are what Roots and Client were read from, for the guardian.
	Files guardian.RelayFiles
	// Outgoing has calls to instances go through it too.
	Outgoing bool
}

// ends is when what is shown to the relay ends: a token, or, without one, the certificate;
// zero: that is not known.
func (r *Relay) ends(text string) time.Time {
	if text == "" && r.Client != nil && r.Client.Leaf != nil {
		return r.Client.Leaf.NotAfter
	}
	t, _ := token.Ends(text)
	return t
}

// certified is the name in the client's certificate; empty without one.
func (r *Relay) certified() pkix.Name {
	if r.Client == nil || r.Client.Leaf == nil {
		return pkix.Name{}
	}
	return r.Client.Leaf.Subject
}

const (
	// linkLimit bounds the wait for the first link, and for what the relay does for a
	// claim, which is a few calls of its registry.
	linkLimit = 15 * time.Second
	// slowRelay is how long the first link may take before the wait for it is told.
	slowRelay = 3 * time.Second
	// tokenSoon is how long before its token's end a session speaks of it.
	tokenSoon = 10 * time.Minute
	tokenLook = 5 * time.Second
	// graceOfRelay is how long a relay keeps an instance whose tunnel is lost.
	graceOfRelay = 30 * time.Second
)

// link is a session's tunnel to its relay.
type link struct {
	o     *Relay
	s     *session
	agent *tunnel.Agent
	first chan struct{} // closed by the first link
	ended chan struct{} // closed when the agent has ended
	why   error         // valid once ended is closed
	cuts  cuts

	mu    sync.Mutex
	state string
	since time.Time
	err   error
	tries int             // without success
	next  time.Time       // of the next try
	ends  time.Time       // of the token that the relay has taken; zero: not known
	asked bool            // the token was read; that may be none, and a certificate does
	read  string          // the token that was read last
	bad   string          // one that the relay did not take
	user  string          // of the token that the relay has taken, or of the first one that was read
	name  string          // of the relay, as it calls itself; empty: it has not said
	far   map[string]*far // by claim
	begun time.Time       // of the last link
	bye   bool            // the relay has said that it ends: it removes the instances itself, at once
}

// prepareLink makes the tunnel; nothing is sent.
func (s *session) prepareLink() (err error) {
	l := &link{o: s.o.Relay, s: s, first: make(chan struct{}), ended: make(chan struct{}), state: control.RelayConnecting, since: s.o.Now(), far: map[string]*far{}}
	l.agent, err = tunnel.NewAgent(tunnel.AgentConfig{
		URL: l.o.URL, Pin: l.o.Pin, Roots: l.o.Roots, Token: l.token, Proxy: l.o.Proxy, Client: l.o.Client,
		Install: s.o.Install, Host: s.o.Host, Handle: l.handle, Notify: l.notify, Log: s.o.Log,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.link = l
	s.mu.Unlock()
	return nil
}

// connect opens the tunnel, and waits for it.
func (s *session) connect(ctx, life context.Context, parts *parts) error {
	l := s.link
	if l == nil {
		return nil
	}
	if err := s.at(ctx, "relay"); err != nil {
		return err
	}
	parts.run(life, func(ctx context.Context) error {
		defer close(l.ended)
		l.why = l.explain(l.agent.Run(ctx))
		return l.why
	})
	began := s.o.Now()
	limit, slow := time.NewTimer(s.o.link), time.NewTimer(min(slowRelay, s.o.link/2))
	defer limit.Stop()
	defer slow.Stop()
	select { // who waits is told what for
	case <-slow.C:
		l.mu.Lock()
		err := l.err
		l.mu.Unlock()
		if err == nil {
			err = errors.New("no answer yet")
		}
		s.o.Log.Warn("the relay is not reached yet, and is tried again", "relay", l.o.URL, "error", err, "until", began.Add(s.o.link).Format(time.TimeOnly))
	case <-l.first:
	case <-l.ended:
	case <-ctx.Done():
	}
	select {
	case <-l.first:
		if err := s.tell(); err != nil { // it has a token now
			return err
		}
		parts.run(life, l.watchToken)
		return nil
	case <-l.ended:
		return errPartOf(l.why)
	case <-limit.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		err := l.err
		if err == nil {
			err = errors.New("no answer in time")
		}
		return &RelayError{URL: l.o.URL, Err: err}
	case <-ctx.Done():
		return fmt.Errorf("relay: %w", ctx.Err())
	}
}

// notify hears of what happens to the tunnel. It must not block.
func (l *link) notify(e tunnel.Event) {
	for _, what := range l.take(e, l.s.o.Now()) { // without l's lock: a status takes both
		l.s.remember(what)
	}
}

// take applies an event, and says what is to be remembered of it.
func (l *link) take(e tunnel.Event, now time.Time) (news []told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := func(state string) {
		if l.state != state {
			l.state, l.since = state, now
		}
	}
	switch e.What {
	case tunnel.Connected:
		select {
		case <-l.first:
			if l.state != control.RelayOK {
				back := "the relay is back after " + spell(now.Sub(l.since))
				if n := l.cut(); n > 0 {
					back += "; " + cutOff(n)
				}
				news = append(news, told{text: back})
			}
		default:
			close(l.first)
		}
		set(control.RelayOK)
		l.err, l.tries, l.next, l.begun, l.bye = nil, 0, time.Time{}, now, false
		l.called(e.Facts)
		l.taken()
	case tunnel.Disconnected, tunnel.Retrying: // behind Draining and Woke only the second one comes
		if l.state == control.RelayOK {
			news = append(news, told{fmt.Sprintf("the relay is lost: %v", e.Err), true})
			l.s.o.Log.Warn("the relay is lost", "error", e.Err)
			set(control.RelayReconnecting)
		}
		if e.Err != nil {
			l.err = e.Err
		}
		if e.What == tunnel.Retrying {
			l.tries++
		}
		l.next = now.Add(e.In)
	case tunnel.Woke:
		if l.state == control.RelayOK {
			news = append(news, told{text: "slept " + spell(e.Slept) + ": the tunnel is made anew"})
		}
		set(control.RelayReconnecting) // its connection may be dead: another one is made at once
	case tunnel.Draining:
		l.bye = true
		news = append(news, told{text: "the relay goes away: another link is made"})
	case tunnel.ClaimLost:
		if f := l.far[e.Claim.ID]; f != nil {
			f.lose(e.Err)
		}
	case tunnel.Claimed, tunnel.Told:
		f := l.far[e.Claim.ID]
		if f == nil {
			break
		}
		_, before := f.v.joined()
		f.learn(e.Facts)
		l.called(e.Facts)
		if _, now := f.v.joined(); before && !now {
			news = append(news, told{text: fmt.Sprintf("the claim on %s is ours: its holder has gone", f.v.o.Name)})
		}
		if note := e.Facts[facts.Note]; note != "" {
			f.v.warn(note)
			news = append(news, told{note, true})
		}
	}
	return news
}

// called notes what the relay calls itself. The caller holds mu.
func (l *link) called(got map[string]string) {
	if name := got[facts.Relay]; name != "" {
		l.name = name
	}
}

// up says why there is no tunnel now, or nil.
func (l *link) up() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == control.RelayOK {
		return nil
	}
	return fmt.Errorf("the relay is %s", l.word())
}

// met reports whether there ever was a tunnel: without one nothing has been registered.
func (l *link) met() bool {
	select {
	case <-l.first:
		return true
	default:
		return false
	}
}

// word is the state as it is shown. The caller holds mu.
func (l *link) word() string {
	if l.state == control.RelayReconnecting && l.s.o.Now().Sub(l.since) > graceOfRelay {
		return control.RelayLost
	}
	return l.state
}

func (l *link) status() *control.RelayStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := &control.RelayStatus{URL: l.o.URL, Name: l.name, State: l.word(), Since: l.since, Outgoing: l.o.Outgoing}
	if d, ok := l.agent.RTT(); ok && l.state == control.RelayOK {
		st.RoundTrip = d.Seconds()
	}
	if l.err != nil {
		st.Error = l.err.Error()
	}
	if l.state != control.RelayOK {
		st.Tries, st.Next = l.tries, l.next
	}
	if l.state == control.RelayReconnecting {
		st.Cut = l.cut()
		if !l.bye {
			st.Removed, st.Gone = l.since.Add(graceOfRelay), l.since.Add(consul.HoldOptions{}.Gone())
		}
	}
	return st
}

// cutOff is what the history says of n requests. What their callers got is not known here:
// an error of the relay's, one of whoever routed to a relay that has died, or nothing.
func cutOff(n int) string {
	if n == 1 {
		return "1 request was cut off"
	}
	return fmt.Sprintf("%d requests were cut off", n)
}

// early is how long before the tunnel's loss is told its streams may have been cut.
const early = time.Second

// cut is how many requests the loss of the tunnel has cut off at the guard. The caller
// holds mu.
func (l *link) cut() int {
	from := l.since.Add(-early)
	if l.begun.After(from) { // what an earlier loss has cut is none of it
		from = l.begun
	}
	n := 0
	l.s.log.Each(func(e *traffic.Exchange) {
		if e.Front == traffic.FrontGuard && e.Code == proxy.CodeRelayLost && !e.Start.Add(e.Took).Before(from) {
			n++
		}
	})
	return n
}
