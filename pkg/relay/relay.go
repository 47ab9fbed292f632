package relay

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/relay/facts"
	"lane/pkg/rules"
	"lane/pkg/token"
	"lane/pkg/traffic"
	"lane/tunnel"
)

// Ports is the range from which each claim gets one, both ends in it.
type Ports struct{ First, Last int }

// Options are everything that a relay needs. Listener, TLS, Client, Watcher,
// Verifier, Advertise, Ports and Log are required.
type Options struct {
	Listener net.Listener // plain TCP, closed at the end
	TLS      *tls.Config
	Client   *consul.Client
	Watcher  *consul.Watcher // run by Run
	Verifier *token.Verifier
	// Name is what claims say of who holds them.
	Name string
	// Announced is the ID by which the relay itself is in the registry, and "" if it is
	// not, for those who look whether it is gone; nil: it never is. It may take a moment.
	Announced func(context.Context) string
	// Advertise is the address at which claims are registered, and on which their
	// ports listen.
	Advertise netip.Addr
	Ports     Ports
	ClaimTTL  time.Duration // of the session behind the claims; 0 is 10 minutes
	// Limits are what one user may hold and do here; zero values are the defaults.
	Limits tunnel.Limits
	// WithoutToken lets in by a client certificate alone, which TLS has to ask for: its
	// common name is the user.
	WithoutToken bool
	// Deny are services that nobody may claim, whatever a token says.
	Deny []string
	// Own are addresses of this process that are never dialled for anybody, beside the
	// tunnel's own.
	Own []string

	Policy   lane.Policy
	Carriers *lane.Carriers // nil: the default
	Caller   lane.Caller
	Sticky   rules.Key      // where a request says who its user is
	Browsers proxy.Browsers // what answers get for browsers
	Probes   []string
	Log      *traffic.Log
	Meter    proxy.Meter // may be nil
	// Audit gets who came, who claimed what and what became of it; nil: nothing.
	Audit *slog.Logger
	// Beside, if set, runs for as long as the relay does; its error ends the relay.
	Beside func(ctx context.Context) error
	// Figures, if set, show what the relay holds while it runs.
	Figures *Figures
	// Force, when closed, ends the wait for requests under way at the end.
	Force <-chan struct{}
	// Ready, if set, is called when tunnels are taken.
	Ready  func()
	Logger *slog.Logger // nil: discards
	Now    func() time.Time

	forgetEvery time.Duration // 0: its own default

	here func(netip.Addr) bool // what the guards take for this machine; nil: their own default
}

// Figures are what a relay holds. The zero value is one that has not run yet.
type Figures struct {
	r       atomic.Pointer[relay]
	refused atomic.Uint64
	limits  limits
}

// Held are the numbers of laptops, claims, and streams in the tunnels.
func (f *Figures) Held() (links, claims, streams int) {
	r := f.r.Load()
	if r == nil {
		return 0, 0, 0
	}
	for _, l := range r.tunnel.Links() {
		links, streams = links+1, streams+l.Streams
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return links, len(r.claims), streams
}

// Refused is how many laptops and claims were turned away.
func (f *Figures) Refused() uint64 { return f.refused.Load() }

// Limited is how often each limit has held somebody up, by its name.
func (f *Figures) Limited() map[string]uint64 { return f.limits.all() }

// Traffic is what each laptop has moved.
func (f *Figures) Traffic() []tunnel.Traffic {
	if r := f.r.Load(); r != nil {
		return r.tunnel.Traffic()
	}
	return nil
}

// relay is the state of one Run.
type relay struct {
	o         Options
	transport *proxy.Transport
	session   *consul.Session
	tunnel    *tunnel.Relay
	// run runs parts until stop is called, which waits for them, or all claims are gone.
	run  func(parts ...func(context.Context)) (stop func())
	work sync.WaitGroup

	knocks *rate.Limiter // of lines about those who were not let in
	unsaid atomic.Uint64 // such lines that were not written since the last one

	datacenter string // of the registry; "" where the token may not read that
	announced  atomic.Pointer[string]
	agents     atomic.Pointer[consul.Agents] // as last asked

	mu     sync.Mutex
	claims map[key]*served
	// seats are who holds the claim in the registry, by service and lane alone: of those
	// that are served here side by side, at most one.
	seats   map[key]*served
	kept    map[key]*kept // by service and lane alone
	revoked map[string]consul.Revocation
	stood   map[string]stood
	gone    map[string]stood // of revoked, those that the registry has lost
	settled bool             // the registry has said once what is revoked
	deafBy  error            // why it has not
}

// key is what is served once: a service in a lane, or, with an install, the place of
// that one beside the holder.
type key struct{ lane, service, beside string }

// seat is the claim that it is about, whoever holds that.
func (k key) seat() key { return key{lane: k.lane, service: k.service} }

func keyOf(h tunnel.Holder, c tunnel.Claim) key {
	k := key{lane: c.Lane, service: c.Service}
	if c.Join {
		k.beside = h.Install
	}
	return k
}

// Run serves until ctx ends, then lets go of every claim. It returns when nothing
// of it runs.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Audit == nil {
		o.Audit = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Figures == nil {
		o.Figures = &Figures{}
	}
	r := &relay{o: o, knocks: rate.NewLimiter(1, 60), claims: map[key]*served{}, seats: map[key]*served{}, kept: map[key]*kept{}}
	if err := r.prepare(); err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	defer r.transport.Close()
	o.Figures.r.Store(r)
	var err error
	if r.session, err = o.Client.OpenSession(ctx, consul.SessionOptions{TTL: o.ClaimTTL, Name: "lane relay " + o.Name + " " + rand.Text()[:8], Lost: r.lost}); err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	r.datacenter = o.Client.OwnDatacenter(ctx)
	r.learnAgents(ctx)
	// What stands behind the tunnel ends behind it: the end of a claim needs it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r.run = func(parts ...func(context.Context)) func() { return r.until(life, parts) }
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var parts errgroup.Group
	part := func(f func(context.Context) error) {
		parts.Go(func() error {
			defer stop()
			return f(life)
		})
	}
	part(o.Watcher.Run)
	part(r.session.Run)
	part(func(ctx context.Context) error { return o.Client.WatchRevocations(ctx, r.hear, r.deaf) })
	part(r.active)
	part(r.inUse)
	part(r.expire)
	part(r.forget)
	if o.Announced != nil {
		part(r.learn)
	}
	if o.Beside != nil {
		part(o.Beside)
	}
	parts.Go(func() error {
		defer end()
		if o.Ready != nil {
			o.Ready()
		}
		err := r.tunnel.Serve(serving, o.Listener)
		return errors.Join(err, r.dismiss())
	})
	err = parts.Wait()
	r.work.Wait()
	return err
}

// prepare makes what is needed before anything is sent.
func (r *relay) prepare() error {
	o := &r.o
	if o.Ports.First < 1 || o.Ports.Last > 65535 || o.Ports.First > o.Ports.Last {
		return fmt.Errorf("relay: the ports %d-%d are no range", o.Ports.First, o.Ports.Last)
	}
	if o.WithoutToken && (o.TLS.ClientCAs == nil || o.TLS.ClientAuth != tls.RequireAndVerifyClientCert) {
		return errors.New("relay: without a token, a client certificate has to be asked for")
	}
	if err := r.portFree(); err != nil {
		return err
	}
	router, err := lane.NewRouter(o.Policy)
	if err != nil {
		return err
	}
	r.transport, err = proxy.NewTransport(proxy.Config{Registry: o.Watcher, Router: router, Carriers: o.Carriers, Caller: o.Caller, Sticky: o.Sticky, Browsers: o.Browsers,
		Log: o.Log, Meter: o.Meter, Now: o.Now, Logger: o.Logger, Barred: r.barred, Self: append(slices.Clone(o.Own), o.Listener.Addr().String())})
	if err != nil {
		return err
	}
	r.tunnel, err = tunnel.NewRelay(tunnel.RelayConfig{TLS: o.TLS, Authority: authority{r}, Limits: o.Limits, Limited: r.limited, Admitted: r.admitted, Denied: r.denied, Unproven: r.unproven, Facts: r.itself, Force: o.Force, Log: o.Logger})
	return err
}

// learn finds out by which ID the relay is in the registry: who looks for it there by
// that finds out whether it reads the same one.
func (r *relay) learn(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for r.announced.Load() == nil {
		if id := r.o.Announced(ctx); id != "" {
			r.announced.Store(&id)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	<-ctx.Done() // a part that ends, ends the relay
	return nil
}

// itself is what the relay says of itself to who has a tunnel.
func (r *relay) itself() map[string]string {
	out := map[string]string{facts.Relay: r.o.Name}
	if id := r.announced.Load(); id != nil {
		out[facts.Announced] = *id
	}
	if r.datacenter != "" {
		out[facts.Datacenter] = r.datacenter
	}
	return out
}

// portFree says why no claim could have a port, before anybody asks for one.
func (r *relay) portFree() error {
	ln, err := r.listen(r.o.Ports.order(nil, nil))
	var full *tunnel.Refusal
	switch {
	case err == nil:
		return ln.Close()
	case errors.As(err, &full):
		return fmt.Errorf("relay: at %s every port of --ports, %d-%d, is in use: give it another range", r.o.Advertise, r.o.Ports.First, r.o.Ports.Last)
	}
	return fmt.Errorf("relay: claims cannot be registered at %s: --advertise has to be an address of this machine: %w", r.o.Advertise, err)
}

// dismiss ends the registry session if nothing is held by it any more. Claims of
// laptops that are to come back, here or at another relay, stand until it expires:
// without them their callers would silently get the baseline meanwhile.
func (r *relay) dismiss() error {
	r.mu.Lock()
	left := len(r.kept)
	for _, k := range r.kept {
		k.stop()
	}
	r.mu.Unlock()
	if left > 0 {
		return nil
	}
	return r.session.Destroy(context.Background())
}

// hear takes what is revoked now, and turns its holders out.
func (r *relay) hear(all map[string]consul.Revocation) {
	now := r.o.Now()
	r.mu.Lock()
	known := maps.Clone(r.gone)
	if known == nil {
		known = map[string]stood{}
	}
	maps.Copy(known, r.stood)
	before := r.gone
	r.gone, r.stood = lost(known, all, now), follow(known, all, now)
	r.revoked, r.settled, r.deafBy = maps.Clone(all), true, nil
	var missed []consul.Revocation
	for id, s := range r.gone {
		r.revoked[id] = s.Revocation
		// Of a token that has ended it is removed in order.
		if _, told := before[id]; !told && (s.Expires.IsZero() || now.Before(s.Expires)) {
			missed = append(missed, s.Revocation)
		}
	}
	r.mu.Unlock()
	for _, rev := range missed {
		r.o.Audit.Warn("revocation lost", "user", rev.User, "token", rev.ID)
		r.o.Logger.Warn("a revocation is gone from the registry: it holds here as long as this relay runs; lane relay token revoke writes it again", "token", rev.ID, "user", rev.User)
	}
	r.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, word := range []string{"token", "certificate"} {
			r.tunnel.Revoke(ctx, func(h tunnel.Holder) bool { return shownWord(h.TokenID) == word && r.isRevoked(h.TokenID) == nil }, "the "+word+" was revoked")
		}
	})
}

// deaf says that the registry does not tell what is revoked.
func (r *relay) deaf(err error) {
	r.mu.Lock()
	said := r.deafBy != nil && r.deafBy.Error() == err.Error()
	r.deafBy = err
	r.mu.Unlock()
	if said { // it is asked twice a second
		return
	}
	r.o.Logger.Warn("which tokens are revoked is not known", "error", err)
}

// expire turns those out whose token has ended, as those whose token was revoked: first
// out of the registry.
func (r *relay) expire(ctx context.Context) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for _, word := range []string{"token", "certificate"} {
			over := func(h tunnel.Holder) bool { return shownWord(h.TokenID) == word && r.over(h) }
			if slices.ContainsFunc(r.tunnel.Links(), func(l tunnel.Link) bool { return over(l.Holder) }) {
				rctx, cancel := context.WithTimeout(ctx, 10*time.Second)
				r.tunnel.Revoke(rctx, over, "the "+word+" has expired")
				cancel()
			}
		}
	}
}

// over reports whether a holder's token has ended.
func (r *relay) over(h tunnel.Holder) bool {
	g, ok := h.Private.(*token.Grant)
	return ok && !r.o.Now().Before(g.Expires)
}

// inUse keeps the services of all claims watched, for as long as they are claimed: what is
// not the lane's goes to their baseline, also while the registry cannot be asked. Where
// the registry listens is asked as often.
func (r *relay) inUse(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for _, e := range r.all() {
			e.use()
		}
		r.learnAgents(ctx)
	}
}

// use has the service of a claim watched, and waits for nothing.
func (e *served) use() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.r.o.Watcher.Need(over, e.key.service)
}

// active writes when each service last served a request of its lane, for those who
// find it claimed. It is worth no retry.
func (r *relay) active(ctx context.Context) error {
	const every = 30 * time.Second
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for _, e := range r.all() {
			n, now := e.count(), time.Now()
			if !e.holds() || n == e.told || !e.toldAt.IsZero() && now.Sub(e.toldAt) < every {
				continue
			}
			e.told, e.toldAt = n, now
			if err := r.session.Active(ctx, lane.Name(e.key.lane), e.key.service, r.o.Now().Format(time.RFC3339)); err != nil {
				r.o.Logger.Info("last activity", "service", e.key.service, "error", err)
			}
		}
	}
}

func (r *relay) all() []*served {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*served, 0, len(r.claims))
	for _, e := range r.claims {
		out = append(out, e)
	}
	return out
}

func (r *relay) find(k key) *served {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims[k]
}
