package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/guardian"
	"lane/pkg/lane"
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

// RelayError says that there is no way to the relay.
type RelayError struct {
	URL string
	Err error
}

func (e *RelayError) Error() string {
	return fmt.Sprintf("the relay at %s cannot be reached: %v", e.URL, e.Err)
}
func (e *RelayError) Unwrap() error { return e.Err }

// RelayRefusedError says what the relay does not let its user do.
type RelayRefusedError struct {
	URL  string
	Name string // what the relay calls itself; empty: it has not said
	// Code is as HTTP has them: 401 and 403 are about the token, 409 about who holds it,
	// 423 about what nobody may claim there, 429 about a limit.
	Code int
	Text string
	// Claim says that it is a claim, and not the tunnel, that is refused. Of a session's,
	// Lane and Service are what it is about.
	Claim   bool
	Lane    lane.Name
	Service string
	// TakeOver says that it was asked for with that.
	TakeOver bool
}

func (e *RelayRefusedError) Error() string {
	return fmt.Sprintf("the relay at %s refuses it: %s", e.URL, e.Text)
}

// FarLeftoverError says that the relay could not be asked to remove a service. What the
// registry shows of it is the relay's: the instance and, longer, the claim.
type FarLeftoverError struct {
	Relay    string
	Lane     lane.Name
	Service  string
	ID, Name string // of the instance
	Exposed  bool   // there is no claim behind it
	Err      error
}

func (e *FarLeftoverError) Error() string {
	if e.Exposed {
		return fmt.Sprintf("%s (service %s) could not be removed through the relay %s, which removes it within %s if it runs; if it has died, Consul does within %s: %v",
			e.ID, e.Name, e.Relay, graceOfRelay, consul.HoldOptions{}.Gone(), e.Err)
	}
	return fmt.Sprintf("%s (service %s) could not be removed through the relay %s, which removes it within %s if it runs; if it has died, Consul does within %s. "+
		"The claim %s stands for 10 to 20 minutes (once to twice the relay's --claim-ttl, which is 10m unless it was told another), "+
		"and until then whoever calls %s in this lane gets errors: %v",
		e.ID, e.Name, e.Relay, graceOfRelay, consul.HoldOptions{}.Gone(), consul.ClaimKey(e.Lane, e.Service), e.Service, e.Err)
}
func (e *FarLeftoverError) Unwrap() error { return e.Err }

// explain is an error of the tunnel in the session's words.
func (l *link) explain(err error) error {
	err = ExplainRelay(l.o.URL, err)
	var no *RelayRefusedError
	if errors.As(err, &no) {
		l.mu.Lock()
		defer l.mu.Unlock()
		no.Name = l.name
	}
	return err
}

// ExplainRelay is an error of the tunnel to the relay at a URL in a session's words.
func ExplainRelay(url string, err error) error {
	var no *tunnel.Refusal
	var cert *tunnel.CertificateError
	var client *tunnel.ClientCertificateError
	switch {
	case err == nil, errors.As(err, &cert), errors.As(err, &client):
		return err
	case errors.As(err, &no):
		return &RelayRefusedError{URL: url, Code: no.Code, Text: no.Text, Claim: no.Claim}
	}
	return &RelayError{URL: url, Err: err}
}

// link is a session's tunnel to its relay.
type link struct {
	o     *Relay
	s     *session
	agent *tunnel.Agent
	first chan struct{} // closed by the first link
	ended chan struct{} // closed when the agent has ended
	why   error         // valid once ended is closed

	mu    sync.Mutex
	state string
	since time.Time
	err   error
	tries int                  // without success
	next  time.Time            // of the next try
	ends  time.Time            // of the token that the relay has taken; zero: not known
	asked bool                 // the token was read; that may be none, and a certificate does
	read  string               // the token that was read last
	bad   string               // one that the relay did not take
	user  string               // of the token that the relay has taken, or of the first one that was read
	name  string               // of the relay, as it calls itself; empty: it has not said
	far   map[string]*far      // by claim
	cuts  map[string]time.Time // streams that a lost tunnel has cut, by whose they are for the guard
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

// token gives the token for a link.
func (l *link) token(ctx context.Context) (string, error) {
	text, err := l.o.Token(ctx)
	if err == nil {
		l.mu.Lock()
		l.read, l.asked = text, true
		if l.user == "" {
			l.user = userOf(text)
		}
		l.mu.Unlock()
	}
	return text, err
}

// taken notes that the relay has taken the token that was read last. The caller holds mu.
func (l *link) taken() {
	l.ends = l.o.ends(l.read)
	l.user = cmp.Or(userOf(l.read), l.user)
}

func userOf(text string) string {
	g, _ := token.Look(text)
	return g.User
}

// owner is who holds the session's claims: the relay has it from the token, whatever this
// machine's user is called.
func (l *link) owner(here string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.user, l.o.certified().CommonName, here)
}

// renew shows the relay a token that has come into the place of the other one: the
// tunnel goes on, and nothing is registered anew.
func (l *link) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, linkLimit)
	defer cancel()
	renewed, err := l.agent.Renew(ctx)
	var no *tunnel.Refusal
	l.mu.Lock()
	switch {
	case renewed:
		l.taken()
	case errors.As(err, &no):
		l.bad = l.read
	}
	ends := l.ends
	l.mu.Unlock()
	switch {
	case renewed:
		l.s.inform()
		l.s.event("the relay has taken a new token, which is good until %s", ends.UTC().Format(time.RFC3339))
	case no != nil:
		l.s.warn("the relay does not take the new token: %s", no.Text)
		l.s.o.Log.Warn("the relay does not take the new token, and the old one is used until its end", "error", no.Text)
	}
}

// ending says that the token ends soon, or that it cannot be read any more; "" if it does
// not, or if another one lies ready. It reads the token. about is the same for as long as
// it says the same thing.
func (l *link) ending(ctx context.Context) (text, about string) {
	l.mu.Lock()
	ends, bad := l.ends, l.bad
	l.mu.Unlock()
	return ending(ctx, l.o.Token, ends, bad, l.s.o.Now(), "this session")
}

// ending is what link's says, of a token that ends then; what goes on by it is named.
func ending(ctx context.Context, read func(context.Context) (string, error), ends time.Time, bad string, now time.Time, what string) (text, about string) {
	next, err := read(ctx)
	if err != nil && !ends.IsZero() && ctx.Err() == nil {
		text = fmt.Sprintf("%v: the tunnel that stands goes on until %s, and no other one can be made", err, ends.UTC().Format(time.RFC3339))
		return text, text
	}
	if ends.IsZero() || ends.Sub(now) > tokenSoon {
		return "", ""
	}
	if err == nil && next != bad {
		if e, ok := token.Ends(next); ok && e.Sub(now) > tokenSoon {
			return "", ""
		}
	}
	left := "has ended"
	if d := ends.Sub(now); d > 0 {
		left = "ends in " + spell(d)
	}
	if err == nil && next == "" { // the relay takes the certificate alone, which is read at the start
		return fmt.Sprintf("the certificate for the relay %s (%s), and %s with it", left, ends.UTC().Format(time.RFC3339), what), ends.String()
	}
	return fmt.Sprintf("the token for the relay %s (%s), and %s with it, unless relay_token_file holds a new one by then",
		left, ends.UTC().Format(time.RFC3339), what), ends.String()
}

// watchToken takes each new token, and notes once for each that it ends soon.
func (l *link) watchToken(ctx context.Context) error {
	tick := time.NewTicker(tokenLook)
	defer tick.Stop()
	told := ""
	for {
		l.renew(ctx)
		text, about := l.ending(ctx)
		if text == "" {
			told = ""
		}
		if text != "" && about != told {
			told = about
			l.s.warn("%s", text)
			l.s.o.Log.Warn(text)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
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

// errPartOf is the error of a part that has failed already: its group tells it.
func errPartOf(err error) error {
	if err == nil {
		return errors.New("the tunnel has ended")
	}
	return fmt.Errorf("relay: %w", context.Canceled)
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
					back += fmt.Sprintf("; of the requests that were under way %d got %s", n, proxy.CodeRelayLost)
				}
				news = append(news, told{text: back})
			}
		default:
			close(l.first)
		}
		set(control.RelayOK)
		l.err, l.tries, l.next, l.cuts = nil, 0, time.Time{}, nil
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
			news = append(news, told{text: "this process stood still for a while, as when the machine sleeps: the tunnel is made anew"})
		}
		set(control.RelayReconnecting) // its connection may be dead: another one is made at once
	case tunnel.Draining:
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
		st.Removed, st.Gone = l.since.Add(graceOfRelay), l.since.Add(consul.HoldOptions{}.Gone())
	}
	return st
}

// early is how long before the tunnel's loss is told its streams may have been cut.
const early = time.Second

// cut is how many requests the loss of the tunnel has cut off: those that the guard was
// serving to streams that ended so. A stream may be idle, and have many requests. The
// caller holds mu.
func (l *link) cut() int {
	if len(l.cuts) == 0 {
		return 0
	}
	n := 0
	l.s.log.Each(func(e *traffic.Exchange) {
		at, cut := l.cuts[e.From]
		if cut && e.Front == traffic.FrontGuard && e.Err != "" && !e.Start.After(at) && !e.Start.Add(e.Took).Before(at.Add(-early)) && at.After(l.since.Add(-early)) {
			n++
		}
	})
	return n
}

// handle leads a stream of the relay's to the guard of what it claims. The stream
// has no say in where that is.
func (l *link) handle(ctx context.Context, c tunnel.Claim, _ tunnel.Header, st tunnel.Stream) {
	l.mu.Lock()
	f := l.far[c.ID]
	l.mu.Unlock()
	if f == nil {
		st.Abort(404, "no such claim here")
		return
	}
	var d net.Dialer
	dctx, cancel := context.WithTimeout(ctx, lookLimit)
	conn, err := d.DialContext(dctx, "tcp", f.v.at().String())
	cancel()
	if err != nil {
		st.Abort(502, "the guard takes no connection")
		return
	}
	defer conn.Close()
	err = tunnel.Join(ctx, conn, st)
	if errors.Is(err, tunnel.ErrLost) || errors.Is(context.Cause(ctx), tunnel.ErrLost) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.cuts == nil {
			l.cuts = map[string]time.Time{}
		}
		l.cuts[conn.LocalAddr().String()] = l.s.o.Now()
	}
}

// via is how the engine connects to instances: nil, by the network.
func (s *session) via() func(context.Context, string) (net.Conn, error) {
	l := s.link
	if l == nil || !l.o.Outgoing {
		return nil
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		service, in := instanceAt(s.watcher.Catalog(), addr)
		if in == nil {
			return nil, fmt.Errorf("the registry does not show %s any more", addr)
		}
		out := tunnel.Out{Service: service, Facts: map[string]string{facts.Instance: in.ID}}
		if in.Registered != service {
			out.Lane = in.MetaLane
		}
		st, err := l.agent.DialOut(ctx, out)
		if err != nil {
			return nil, facts.Unconnected(err)
		}
		return facts.Linked(st), nil
	}
}

// relayAway is whether the tunnel is lost, by which the session's own services are asked
// otherwise; nil: there is none. The registry shows a relay that has died for a while.
func (s *session) relayAway() func() bool {
	if s.link == nil {
		return nil
	}
	return func() bool { return s.link.up() != nil }
}

// instanceAt is the instance that the catalog shows at an address.
func instanceAt(cat *lane.Catalog, addr string) (string, *lane.Instance) {
	name, ok := cat.ServiceAt(addr)
	if !ok {
		return "", nil
	}
	svc := cat.Service(name)
	for i := range svc.Instances {
		if svc.Instances[i].Addr == addr {
			return name, &svc.Instances[i]
		}
	}
	return "", nil
}

// far is a registration that the relay keeps.
type far struct {
	l     *link
	v     *service
	claim tunnel.Claim
	p     *place
	lost  chan struct{} // closed when the claim is another's

	mu    sync.Mutex
	facts map[string]string // what the relay has answered; nil: nothing yet
	ok    bool
	note  string
	drain bool
	why   error // of lost
}

var _ standing = (*far)(nil)

// claim makes the registration of a place; nothing is sent.
func (l *link) claim(s *session, v *service, p *place) *far {
	f := &far{l: l, v: v, p: p, lost: make(chan struct{})}
	f.claim = tunnel.Claim{ID: "http." + v.o.Name, Lane: string(s.o.Lane), Service: v.o.Name, Kind: tunnel.HTTP, Takeover: s.o.TakeOver, Join: s.o.Join && !s.o.TakeOver,
		Facts: map[string]string{facts.Mode: s.o.Mode, facts.Started: s.started.Format(timeForm)}}
	for k, val := range map[string]string{facts.Env: s.o.Env, facts.Tenant: s.o.Tenant, facts.Zone: s.o.Zone, facts.Version: s.o.Version} {
		if val != "" {
			f.claim.Facts[k] = val
		}
	}
	if s.o.Reject {
		f.claim.Facts[facts.Guard] = facts.Reject
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.far[f.claim.ID] = f
	return f
}

// Register implements standing: it returns when the relay has registered it.
func (f *far) Register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.l.s.o.link)
	defer cancel()
	f.report()
	got, err := f.l.agent.Claim(ctx, f.claim)
	if err != nil {
		err = f.l.explain(err)
		var no *RelayRefusedError
		if errors.As(err, &no) {
			no.TakeOver, no.Lane, no.Service = f.claim.Takeover, lane.Name(f.claim.Lane), f.claim.Service
		}
		return err
	}
	f.learn(got)
	f.l.mu.Lock()
	f.l.called(got)
	f.l.mu.Unlock()
	f.v.holds(f.l.s.o.Now().Format(timeForm), "")
	f.report()
	return nil
}

func (f *far) learn(got map[string]string) {
	if got == nil {
		return
	}
	var holder lane.Claim
	if owner, ok := got[facts.Holder]; ok {
		holder = lane.Claim{Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, Owner: owner, Host: got[facts.HolderHost], Session: "the holder's"}
	}
	f.v.joins(holder)
	f.v.guard.Far(got[facts.Address])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.facts = got
}

// Run implements standing: the tunnel keeps it, and this waits for its loss.
func (f *far) Run(ctx context.Context) error {
	select {
	case <-f.lost:
		f.mu.Lock()
		why := f.why
		f.mu.Unlock()
		text := why.Error()
		if no := (*tunnel.Refusal)(nil); errors.As(why, &no) {
			text = no.Text // its number says nothing here
		}
		text = strings.TrimPrefix(text, "claim lost: ")
		f.v.setLost(text)
		return &consul.ClaimLostError{Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, Text: text}
	case <-ctx.Done():
		return nil
	}
}

func (f *far) lose(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return
	}
	if f.why = why; why == nil {
		f.why = errors.New("the relay does not say why")
	}
	close(f.lost)
}

// State implements standing.
func (f *far) State() (bool, error) {
	if err := f.l.up(); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.facts != nil && f.why == nil, f.why
}

func (f *far) where() (name, id, mode, addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.facts == nil {
		return f.p.reg.Name, f.p.reg.ID, f.p.mode, ""
	}
	return f.facts[facts.Registered], f.facts[facts.ID], f.facts[facts.Mode], f.facts[facts.Address]
}

// SetApp implements standing.
func (f *far) SetApp(ok bool, note string) {
	f.mu.Lock()
	f.ok, f.note = ok, note
	f.mu.Unlock()
	f.report()
}

func (f *far) report() {
	f.mu.Lock()
	st := tunnel.State{Ready: f.ok, Note: cut(f.note, 200), Draining: f.drain}
	f.mu.Unlock()
	f.l.agent.Report(f.claim.ID, st)
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// Beat and Doubt implement standing: the tunnel's own pings are the beats.
func (f *far) Beat()  {}
func (f *far) Doubt() {}

// Drain implements standing.
func (f *far) Drain(context.Context) error {
	f.mu.Lock()
	f.drain = true
	f.mu.Unlock()
	f.report()
	return nil
}

// Deregister implements standing: it returns when the relay has removed it.
func (f *far) Deregister(ctx context.Context) error {
	if !f.l.met() {
		return nil
	}
	name, id, _, _ := f.where()
	err := f.l.agent.Release(ctx, f.claim.ID)
	if err == nil || f.isLost() {
		return nil
	}
	return &FarLeftoverError{Relay: f.l.o.URL, Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, ID: id, Name: name, Err: err}
}

func (f *far) isLost() bool {
	select {
	case <-f.lost:
		return true
	default:
		return false
	}
}
