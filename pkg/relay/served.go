package relay

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// drain is how long the end of a claim waits for its requests: until the tunnel, which is
// told to end later, has ended under them, and each has got its error.
const drain = tunnel.Drain + 5*time.Second

const tunnelLost = "the tunnel to the laptop is lost"

// served is one claim that is registered: a port, a guard behind it, and the
// instance in the registry.
type served struct {
	r      *relay
	key    key
	record lane.Claim
	seated lane.Claim // the record with which it took the claim; under the relay's lock
	want   wanted
	holder tunnel.Holder
	addr   netip.AddrPort
	guard  *proxy.Guard // nil: plain TCP
	claim  tunnel.Claim
	pinned bool   // an operator's policy is to stay under the own name
	stop   func() // ends the port, and waits for what came in by it
	follow func() // ends what follows its callers, and waits

	change sync.Mutex // one change of the claim's record at a time

	told   uint64 // used by active alone
	toldAt time.Time

	mu       sync.Mutex
	beside   lane.Claim // of whoever holds the claim, if it stands beside another's
	places   []*place   // the newest last
	ready    bool
	away     bool
	draining bool
	note     string
	stray    chan netip.Addr
	conns    atomic.Uint64
}

// place is one registration of a claim.
type place struct {
	mode string
	reg  consul.Registration
	hold *consul.Hold
	stop func() // ends the beats, and waits

	beats bool // it is registered, and beaten
}

// wanted is what a claim would be registered with. Another one is another instance.
type wanted struct {
	user, install, mode, env, tenant, zone, version string
	kind                                            tunnel.Kind
}

func want(h tunnel.Holder, c tunnel.Claim) wanted {
	f := c.Facts
	return wanted{h.Subject, h.Install, f[facts.Mode], f[facts.Env], f[facts.Tenant], f[facts.Zone], f[facts.Version], c.Kind}
}

// kept is a claim whose laptop has been away for long: it stands, without an
// instance, for one more life of the claims.
type kept struct {
	record lane.Claim
	agent  string // whose it was
	stop   func() bool
}

func (e *served) place() *place {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.places[len(e.places)-1]
}

func (e *served) count() uint64 {
	if e.guard != nil {
		return e.guard.Served()
	}
	return e.conns.Load()
}

func (e *served) answer() map[string]string {
	p := e.place()
	out := map[string]string{facts.Mode: p.mode, facts.Registered: p.reg.Name, facts.ID: p.reg.ID, facts.Address: e.addr.String(), facts.Relay: e.r.o.Name}
	if e.r.datacenter != "" {
		out[facts.Datacenter] = e.r.datacenter
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.beside.Session != "" {
		out[facts.Holder], out[facts.HolderHost] = e.beside.Owner, e.beside.Host
	}
	return out
}

// up registers what a holder claims, or has it back after a reconnect.
func (r *relay) up(ctx context.Context, h tunnel.Holder, c tunnel.Claim) (*served, error) {
	if err := r.allow(h, c); err != nil {
		return nil, err
	}
	k, w := keyOf(h, c), want(h, c)
	if e := r.find(k); e != nil {
		if e.want == w && e.back(h) {
			return e, r.renew(ctx, e, h)
		}
		// Another laptop of the same user, or other facts: another instance.
		if err := r.down(ctx, e, tunnel.TakenOver); err != nil {
			return nil, err
		}
		r.mu.Lock()
		delete(r.claims, k)
		r.mu.Unlock()
	}
	e := &served{r: r, key: k, want: w, holder: h, claim: c, stray: make(chan netip.Addr, 1)}
	if err := r.establish(ctx, e, h, c); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.claims[k] = e
	r.mu.Unlock()
	return e, nil
}

// establish opens the port, takes the claim and registers, in this order: nothing
// is promised before it can be kept. A failure leaves nothing behind.
func (r *relay) establish(ctx context.Context, e *served, h tunnel.Holder, c tunnel.Claim) (err error) {
	ln, err := r.listen(r.ports(ctx, h, c))
	if err != nil {
		return err
	}
	e.addr, err = netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	e.addr = netip.AddrPortFrom(e.addr.Addr().Unmap(), e.addr.Port())
	p, err := r.firstPlace(ctx, e, h, c)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	e.places = []*place{p}
	if err := e.serve(ln, p, c); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.claims() {
		p, err = r.seat(ctx, e, p, h, c)
	} else {
		err = r.alone(ctx, p)
	}
	if err != nil {
		return err
	}
	if err := r.register(ctx, e, p); err != nil {
		err = errors.Join(err, p.hold.Withdraw(context.WithoutCancel(ctx)))
		return errors.Join(err, r.release(context.WithoutCancel(ctx), e))
	}
	e.use()
	e.follow = r.run(e.watch)
	return nil
}

// seat takes the claim, or, for who wants to join its holder, a place beside that one;
// which place it is then.
func (r *relay) seat(ctx context.Context, e *served, p *place, h tunnel.Holder, c tunnel.Claim) (*place, error) {
	e.record = r.record(ctx, e, p, h)
	err := r.claim(ctx, e, h, c.Takeover)
	var held *consul.ClaimHeldError
	switch {
	case !errors.As(err, &held):
		return p, err
	case c.Join && !c.Takeover && held.Held.Install != h.Install:
		return r.join(e, h, c, held.Held)
	}
	return p, refuse(http.StatusConflict, "%v", held)
}

// release gives the claim up, if it is held.
func (r *relay) release(ctx context.Context, e *served) error {
	if !r.vacate(e) {
		return nil
	}
	return r.session.Release(ctx, e.record.Lane, e.record.Service)
}

// holds reports whether the claim in the registry is its own.
func (e *served) holds() bool {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	return e.r.seats[e.key.seat()] == e
}

// vacate takes a claim from who holds it here, and reports whether he did.
func (r *relay) vacate(e *served) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seats[e.key.seat()] != e {
		return false
	}
	delete(r.seats, e.key.seat())
	return true
}

func (r *relay) client() *consul.Client { return r.o.Client }

// claims says whether it is declared to be in the lane: what is no HTTP is found by
// its isolated name alone, and nobody is to be routed to it.
func (e *served) claims() bool { return e.want.kind != tunnel.TCP }

// ports are those of the range in the order in which a claim is to try them: first the one
// at which the registry has its instance, last those at which it has another's. A relay
// that has died stands there for a while: who is sent to such a port would be another
// claim's caller, and get the baseline from its guard.
func (r *relay) ports(ctx context.Context, h tunnel.Holder, c tunnel.Claim) []int {
	had, err := r.client().PortsAt(ctx, r.o.Advertise.String())
	if err != nil {
		r.o.Logger.Info("which ports are registered cannot be read", "error", err)
	}
	return r.o.Ports.order(had, func(id string) bool { return consul.OwnID(id, lane.Name(c.Lane), c.Service, h.Install) })
}

// order sorts the ports of the range by what the registry has at them.
func (p Ports) order(had map[int][]string, own func(id string) bool) []int {
	var mine, free, others []int
	for port := p.First; port <= p.Last; port++ {
		ids := had[port]
		switch {
		case len(ids) == 0:
			free = append(free, port)
		case slices.ContainsFunc(ids, own):
			mine = append(mine, port)
		default:
			others = append(others, port)
		}
	}
	return slices.Concat(mine, free, others)
}

// listen opens the first of the ports that is free.
func (r *relay) listen(ports []int) (net.Listener, error) {
	for _, port := range ports {
		ln, err := net.Listen("tcp", netip.AddrPortFrom(r.o.Advertise, uint16(port)).String())
		if err == nil {
			return ln, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("open a port for the claim: %w", err)
		}
	}
	return nil, refuse(http.StatusServiceUnavailable, "every port of this relay, %d-%d, is in use: one is free when somebody ends a session, or whoever runs the relay gives it a wider range (--ports)", r.o.Ports.First, r.o.Ports.Last)
}

// firstPlace is how a claim begins: as it wants, and with auto as the registry has
// learned.
func (r *relay) firstPlace(ctx context.Context, e *served, h tunnel.Holder, c tunnel.Claim) (*place, error) {
	mode := c.Facts[facts.Mode]
	switch {
	case c.Kind == tunnel.TCP:
		mode = consul.ModeIsolated
	case mode == "" || mode == facts.Auto:
		mode = consul.ModeShared
		policy, found, err := r.client().ServicePolicy(ctx, c.Service)
		if err != nil {
			r.o.Logger.Warn("the policy cannot be read", "service", c.Service, "error", err)
		}
		e.pinned = found && policy.Mode == consul.ModeShared
		if found && policy.Mode == consul.ModeIsolated {
			if p, err := r.newPlace(e, h, c, consul.ModeIsolated); err == nil {
				return p, nil
			}
		}
	case mode != consul.ModeShared && mode != consul.ModeIsolated:
		return nil, refuse(http.StatusUnprocessableEntity, "the mode %q is neither shared, isolated nor auto", mode)
	}
	return r.newPlace(e, h, c, mode)
}

func (r *relay) newPlace(e *served, h tunnel.Holder, c tunnel.Claim, mode string) (*place, error) {
	l := lane.Name(c.Lane)
	name, id := c.Service, consul.InstanceID(l, c.Service, h.Install)
	if mode == consul.ModeIsolated {
		name, id = consul.IsolatedName(l, c.Service), consul.IsolatedID(l, c.Service, h.Install)
	}
	f := c.Facts
	p := &place{mode: mode, stop: func() {}, reg: consul.Registration{ID: id, Name: name, Service: c.Service, Lane: l,
		Address: e.addr.Addr().String(), Port: int(e.addr.Port()), Owner: h.Subject, StartedAt: f[facts.Started],
		Env: f[facts.Env], Tenant: f[facts.Tenant], Zone: f[facts.Zone], Version: f[facts.Version]}}
	if err := p.reg.Validate(); err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	p.hold = r.client().NewHold(p.reg, consul.HoldOptions{AppNote: "the laptop has not said that its port accepts"})
	return p, nil
}

func (r *relay) record(ctx context.Context, e *served, p *place, h tunnel.Holder) lane.Claim {
	id := ""
	if r.o.Announced != nil {
		id = r.o.Announced(ctx)
	}
	return lane.Claim{RelayID: id, Lane: p.reg.Lane, Service: p.reg.Service, Owner: h.Subject, Host: h.Host, Install: h.Install, Mode: p.mode,
		Registered: p.reg.Name, ID: p.reg.ID, Since: r.o.Now().Format(time.RFC3339), Relay: r.o.Name, Generation: h.Generation}
}

// claim takes the lock on the claim: at once when nobody has it, or when the same
// installation held it by another relay, or by this one's former self, with an
// older link; by force of its own user alone.
// Somebody else's is a *consul.ClaimHeldError.
func (r *relay) claim(ctx context.Context, e *served, h tunnel.Holder, force bool) (err error) {
	may := func(old lane.Claim) bool {
		mine := old.Owner == h.Subject
		return mine && (force || old.Relay != "" && old.Install == h.Install && old.Generation <= h.Generation)
	}
	fresh, err := r.sit(e, may)
	if err != nil {
		return err
	}
	defer func() {
		var unsure *consul.UnsureError
		switch {
		case err == nil || !fresh:
		case errors.As(err, &unsure): // it may be ours all the same
			err = errors.Join(err, r.release(context.WithoutCancel(ctx), e))
		default:
			r.vacate(e)
		}
	}()
	err = r.session.Claim(ctx, e.record)
	var held *consul.ClaimHeldError
	if errors.As(err, &held) && may(held.Held) {
		err = r.session.TakeOver(ctx, held.Held, e.record)
	}
	return err
}

// sit takes the claim among those that are served here: the registry would give it to
// each of them, as all have the relay's session. fresh says that it had not sat there.
func (r *relay) sit(e *served, may func(lane.Claim) bool) (fresh bool, err error) {
	k := e.key.seat()
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.kept[k]; old != nil {
		if !may(old.record) {
			return false, r.heldHere(old.record)
		}
		old.stop()
		delete(r.kept, k)
	}
	sits := r.seats[k]
	if sits != nil && sits != e {
		if !may(sits.seated) {
			return false, r.heldHere(sits.seated)
		}
		// Its place is another one: nobody has told it yet.
		r.work.Go(func() {
			r.tunnel.Drop(sits.key.lane, sits.key.service, sits.key.beside, refuse(http.StatusConflict, "%s on %s has taken it over", e.record.Owner, e.record.Host))
		})
	}
	e.seated = e.record
	r.seats[k] = e
	return sits != e, nil
}

// heldHere says who holds a claim by this relay's session.
func (r *relay) heldHere(c lane.Claim) error {
	c.Session = r.session.ID()
	return &consul.ClaimHeldError{Held: c}
}

// renew writes the link's generation into the claim: an older link that comes late to
// another relay must not take it.
func (r *relay) renew(ctx context.Context, e *served, h tunnel.Holder) error {
	e.change.Lock()
	defer e.change.Unlock()
	if !e.holds() || e.record.Generation == h.Generation {
		return nil
	}
	e.record.Generation = h.Generation
	err := r.claim(ctx, e, h, false)
	var held *consul.ClaimHeldError
	if errors.As(err, &held) {
		return refuse(http.StatusConflict, "%v", held)
	}
	return err
}

// alone refuses a second instance under a name that has no claim to say whose it is.
func (r *relay) alone(ctx context.Context, p *place) error {
	all, err := r.client().InstancesOf(ctx, p.reg.Name)
	if err != nil {
		return err
	}
	for _, in := range all {
		if in.ID != p.reg.ID {
			return refuse(http.StatusConflict, "%s is exposed already, as %s", p.reg.Name, in.ID)
		}
	}
	return nil
}

// registerLimit bounds the first of two tries to register, as a session's only one is:
// the second one needs a part of the call's time.
const registerLimit = 5 * time.Second

// register puts a place into the registry, and keeps it there. The former holder of
// its ID, at another relay, may remove it in the same moment, or write his own over it:
// then it is done once more. Whatever else is wrong is so a second time, and is told.
func (r *relay) register(ctx context.Context, e *served, p *place) error {
	e.tell(p)
	first, cancel := context.WithTimeout(ctx, registerLimit)
	err := p.hold.Register(first)
	cancel()
	if err != nil && ctx.Err() == nil && p.hold.Displaced(ctx, err) {
		r.o.Logger.Info("the former holder was in the way: registered once more", "service", e.key.service, "lane", e.key.lane, "error", err)
		err = p.hold.Register(ctx)
	}
	if err != nil {
		return err
	}
	p.stop, p.beats = r.run(func(ctx context.Context) { _ = p.hold.Run(ctx) }), true
	return nil
}

// until runs parts until life ends or stop is called, which waits for them.
func (r *relay) until(life context.Context, parts []func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(life)
	var running sync.WaitGroup
	for _, f := range parts {
		running.Add(1)
		r.work.Go(func() {
			defer running.Done()
			f(ctx)
		})
	}
	return func() { cancel(); running.Wait() }
}

// serve opens the way from the port into the tunnel.
func (e *served) serve(ln net.Listener, p *place, c tunnel.Claim) (err error) {
	if c.Kind == tunnel.TCP {
		e.stop = e.r.run(func(ctx context.Context) { e.accept(ctx, ln) })
		return nil
	}
	e.guard, err = proxy.NewGuard(e.r.transport, proxy.GuardConfig{
		Lane: p.reg.Lane, Service: p.reg.Service, InstanceID: p.reg.ID, Advertised: e.addr.String(), Probes: e.r.o.Probes, Reject: c.Facts[facts.Guard] == facts.Reject,
		Local: []string{"tunnel:80"}, Link: e.link, Ready: e.isReady, Drain: drain, Strayed: e.strayed, Here: e.r.o.here,
	})
	if err != nil {
		return err
	}
	e.stop = e.r.run(func(ctx context.Context) {
		if err := e.guard.Serve(ctx, ln); err != nil {
			e.r.o.Logger.Warn("the port of a claim", "service", e.key.service, "lane", e.key.lane, "error", err)
		}
	})
	return nil
}

func (e *served) strayed(caller netip.Addr) {
	select {
	case e.stray <- caller:
	default: // one is enough
	}
}

func (e *served) isReady() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ready && !e.away
}

// tell says to a place what is known of the process.
func (e *served) tell(p *place) {
	e.mu.Lock()
	ok, note := e.ready && !e.away, e.note
	if e.away {
		note = tunnelLost
	}
	e.mu.Unlock()
	p.hold.SetApp(ok, note)
}

func (e *served) tellAll() {
	e.mu.Lock()
	all := e.places
	e.mu.Unlock()
	for _, p := range all {
		e.tell(p)
	}
}

// state takes what the laptop says of its process.
func (e *served) state(ctx context.Context, s tunnel.State) error {
	e.mu.Lock()
	e.ready, e.note = s.Ready, s.Note
	drain := s.Draining && !e.draining
	e.draining = e.draining || s.Draining
	e.mu.Unlock()
	e.tellAll()
	if drain {
		return e.place().hold.Drain(ctx)
	}
	return nil
}

func (e *served) lost() {
	e.mu.Lock()
	e.away = true
	e.mu.Unlock()
	e.tellAll()
}

// back says that the tunnel is there again; false for an instance that was leaving.
func (e *served) back(h tunnel.Holder) bool {
	e.mu.Lock()
	if e.draining {
		e.mu.Unlock()
		return false
	}
	e.away, e.holder = false, h
	e.mu.Unlock()
	e.tellAll()
	return true
}

// down removes a claim. An instance that another relay has registered under the same
// ID by now is left alone, and so is a claim that is not ours.
func (r *relay) down(ctx context.Context, e *served, why tunnel.Reason) error {
	ctx = context.WithoutCancel(ctx) // each call has its own deadline
	e.follow()
	e.mu.Lock()
	places := e.places
	e.mu.Unlock()
	deregister := func() (err error) {
		for _, p := range places {
			p.stop()
			err = errors.Join(err, p.hold.Withdraw(ctx))
		}
		return err
	}
	release := func() error { return r.release(ctx, e) }
	var err error
	switch why {
	case tunnel.Released: // callers see lane_absent, and no unhealthy lane
		err = errors.Join(release(), deregister())
	case tunnel.Expired, tunnel.Stopping:
		// It is to come back: until then its callers get an error, and not the baseline.
		r.keep(ctx, e, why)
		err = deregister()
	case tunnel.TakenOver:
		r.vacate(e)
		err = deregister()
	default: // revoked
		err = errors.Join(deregister(), release())
	}
	// Nothing waits for the requests under way: whoever is revoked is out by then.
	r.work.Go(e.stop)
	return err
}

// yield gives up a claim that stands without an instance, for who comes after the one
// that had it.
func (r *relay) yield(ctx context.Context, h tunnel.Holder, c tunnel.Claim) error {
	seat := keyOf(h, c).seat()
	r.mu.Lock()
	k := r.kept[seat]
	mine := k != nil && k.record.Owner == h.Subject && k.record.Install == h.Install && (k.agent == h.Agent || c.Takeover)
	if mine {
		k.stop()
		delete(r.kept, seat)
	}
	r.mu.Unlock()
	if !mine {
		return nil
	}
	return r.session.Release(ctx, k.record.Lane, k.record.Service)
}

// keep lets a claim stand without an instance, and says so in it: whoever routes would
// take an instance that goes before its claim for one that its agent has lost, and send
// calls there for a while.
func (r *relay) keep(ctx context.Context, e *served, why tunnel.Reason) {
	if !r.vacate(e) {
		return
	}
	e.change.Lock()
	defer e.change.Unlock()
	e.record.Vacant = true
	r.stands(e, why)
	err := r.session.Claim(ctx, e.record)
	var held *consul.ClaimHeldError
	if err != nil && !errors.As(err, &held) { // the next one has it by now
		r.o.Logger.Warn("say in the claim that its instance goes", "service", e.key.service, "lane", e.key.lane, "error", err)
	}
}

// stands notes that a claim stands without an instance, and ends it in time.
func (r *relay) stands(e *served, why tunnel.Reason) {
	ttl := r.o.ClaimTTL
	if ttl == 0 {
		ttl = 10 * time.Minute
	}
	e.mu.Lock()
	agent := e.holder.Agent
	e.mu.Unlock()
	k, seat := &kept{record: e.record, agent: agent}, e.key.seat()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[seat] = k
	k.stop = func() bool { return true }
	if why == tunnel.Stopping {
		return // the session's own end will do
	}
	timer := time.AfterFunc(ttl, func() {
		r.mu.Lock()
		mine := r.kept[seat] == k
		if mine {
			delete(r.kept, seat)
		}
		r.mu.Unlock()
		if mine {
			if err := r.session.Release(context.Background(), k.record.Lane, k.record.Service); err != nil {
				r.o.Logger.Warn("give the claim up", "service", e.key.service, "lane", e.key.lane, "error", err)
			}
		}
	})
	k.stop = timer.Stop
}

// dial opens a stream to the laptop.
func (e *served) dial(ctx context.Context) (net.Conn, error) {
	s, err := e.r.tunnel.Dial(ctx, e.key.lane, e.key.service, tunnel.Header{Color: e.key.lane, Beside: e.key.beside})
	if err != nil {
		return nil, facts.Failure(err)
	}
	return facts.Linked(s), nil
}

func (e *served) link(ctx context.Context) (net.Conn, error) { return e.dial(ctx) }

// accept takes plain connections until ctx ends.
func (e *served) accept(ctx context.Context, ln net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := ln.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of files, perhaps: that passes
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		e.conns.Add(1)
		open.Go(func() {
			defer conn.Close()
			dctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			s, err := e.r.tunnel.Dial(dctx, e.key.lane, e.key.service, tunnel.Header{Color: e.key.lane})
			cancel()
			if err != nil {
				return
			}
			defer s.Close()
			_ = tunnel.Join(ctx, conn, s)
		})
	}
}
