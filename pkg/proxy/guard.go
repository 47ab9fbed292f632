package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Guard stands before a local process and lets in only the requests of its
// lane. It looks at the request's own carrier alone; everything else it sends
// on to the baseline, once, or rejects.
type Guard struct {
	t     *Transport
	srv   *server
	cfg   GuardConfig
	local ways
	// nearby is the same for our own engine.
	nearby pool
	dial   dialer
	// place is where the instance stands in the registry.
	place atomic.Pointer[guardPlace]
	// at is the address in the registry.
	at atomic.Pointer[string]
	// far is the address in the registry where that is a relay's.
	far    atomic.Pointer[string]
	served atomic.Uint64 // requests of the lane
}

// guardPlace is what a guard says of the instance that it stands for.
type guardPlace struct {
	id       string
	decision string // the header of what is passed: always the same
}

// GuardConfig says what a guard guards.
type GuardConfig struct {
	Lane    lane.Name
	Service string
	// InstanceID is the local instance's ID in the registry, until Moved.
	InstanceID string
	// Local are the local process's addresses, dialled in this order.
	Local []string
	// Link, if set, makes the connections to the local process, which stands at the
	// other end of a tunnel, in place of the network; Local is then a name for it,
	// host:port. A *LinkError of it, also one of a connection's Read and Write, says
	// that the tunnel failed, and not the process. Ready, which goes with it, says
	// whether the process accepts.
	Link  func(ctx context.Context) (net.Conn, error)
	Ready func() bool
	// Advertised is the address in the registry, host:port, until Readdressed: never
	// chosen for a bounce. The default is the listener's own.
	Advertised string
	// Probes are paths that the guard answers itself: 200 while the local port
	// accepts, else 503.
	Probes []string
	// Proof is a path that nobody can guess: the guard answers it itself, and keeps
	// no record of it. 204 while the local port accepts, else 503.
	Proof string
	// Reject answers 421 to what would be bounced.
	Reject bool
	// Inner says that another guard stands before this one, and has looked at the kill
	// switch: what it has let through is served.
	Inner bool
	// Strayed, if set, is told the address of a caller on another machine that
	// sent a request of another lane, or of none: somebody who finds the instance
	// and does not look at lanes. Known health probes are none. It must not block.
	Strayed func(caller netip.Addr)
	// Severed, if set, says that the caller at an address, who seems to have left during
	// a request that began then, was cut off by the loss of the tunnel behind it. It must
	// not block.
	Severed func(caller string, began time.Time) bool
	// Here says that an address is this machine's; nil: the loopback ones and the
	// one that the guard listens on.
	Here func(netip.Addr) bool
	// Drain is how long the end waits for requests; 0 is 30 s. When Force is closed
	// it waits no longer.
	Drain time.Duration
	Force <-chan struct{}
}

// Values of the header x-lane-guard.
const (
	guardBounced  = "bounced"
	guardUntagged = "untagged"
	guardOther    = "other-lane"
	guardInvalid  = "invalid-tag"
	guardKilled   = "killed"
)

// NewGuard checks the configuration and makes the front.
func NewGuard(t *Transport, cfg GuardConfig) (*Guard, error) {
	if cfg.Lane == "" || cfg.Service == "" || len(cfg.Local) == 0 {
		return nil, errors.New("proxy: a guard needs a lane, a service and a local address")
	}
	g := &Guard{t: t, cfg: cfg, dial: dialer{timeout: 3 * time.Second, order: slices.Clone(cfg.Local), self: &t.self}}
	if cfg.Link != nil {
		g.dial.via = func(ctx context.Context, _ string) (net.Conn, error) { return cfg.Link(ctx) }
		g.dial.timeout, g.nearby.once = 10*time.Second, true
	}
	g.local, g.nearby.dial = newWays(g.dial.dial), g.dial.dial
	g.Moved(cfg.InstanceID)
	g.at.Store(&cfg.Advertised)
	g.srv = newServer(t, traffic.FrontGuard, g.line, g.handle, true, cfg.Drain)
	g.srv.force = cfg.Force
	return g, nil
}

// Moved says that the instance has another ID in the registry from now on.
func (g *Guard) Moved(id string) {
	d := lane.Decision{Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Service: g.cfg.Service, Lane: g.cfg.Lane}
	g.place.Store(&guardPlace{id: id, decision: d.Header(&lane.Instance{ID: id})})
}

// Readdressed says that the instance has another address in the registry from now on.
func (g *Guard) Readdressed(addr string) {
	old := g.at.Swap(&addr)
	g.t.guards.Store(addr, g.own(addr))
	if *old != addr {
		g.t.guards.Delete(*old)
	}
}

// Far says that the registry has the instance at the address of a relay, whose tunnel
// leads here. What is asked of it by TLS goes to the guard itself: nobody on that way
// reads TLS, and in the clear it is not to leave the machine. So does all else while the
// relay is away: the registry shows one that has died for a while.
func (g *Guard) Far(addr string) {
	at := *g.at.Load()
	if old := g.far.Swap(&addr); old != nil && *old != addr && *old != at {
		g.t.guards.Delete(*old)
	}
	if addr != "" && addr != at {
		g.t.guards.Store(addr, g.own(at))
	}
}

// own is an instance of this process's own, and where its guard listens.
type own struct {
	at, service string
	lane        lane.Name
}

func (g *Guard) own(at string) own { return own{at, g.cfg.Service, g.cfg.Lane} }

// ownGuard is where the guard of an instance listens that is this process's own: it
// reads no TLS. A port of a relay's may be another claim's by now: there the service and
// the lane have to be the guard's too.
func (t *Transport) ownGuard(addr, service string, l lane.Name) (at string, ours bool) {
	v, _ := t.guards.Load(addr)
	o, found := v.(own)
	return o.at, found && (o.at == addr || o.service == service && o.lane == l)
}

// ask asks an instance at its address. One of this process's own, to which the relay at
// that address does not lead now, is asked at its guard.
func (c *call) ask(in *lane.Instance, try func(addr string) error) error {
	t := c.t
	at, ours := t.ownGuard(in.Addr, c.ex.Service, lane.Name(in.MetaLane))
	if !ours || at == in.Addr {
		return try(in.Addr)
	}
	if t.away == nil || !t.away() {
		var refused *DialError
		if err := try(in.Addr); !errors.As(err, &refused) {
			return err
		}
	}
	return try(at)
}

// Serve serves until ctx ends, then drains and returns when nothing of it runs.
func (g *Guard) Serve(ctx context.Context, ln net.Listener) error {
	if *g.at.Load() == "" {
		addr := ln.Addr().String()
		g.at.Store(&addr)
	}
	if g.cfg.Here == nil {
		own, _ := netip.ParseAddrPort(ln.Addr().String()) // no address: it is nobody's
		g.cfg.Here = func(a netip.Addr) bool { return a.IsLoopback() || a == own.Addr().Unmap() }
	}
	at := *g.at.Load()
	g.t.guards.Store(at, g.own(at))
	defer func() {
		g.t.guards.Delete(*g.at.Load())
		g.Far("")
	}()
	defer g.local.close()
	defer g.nearby.close()
	return g.srv.run(ctx, ln)
}

// InFlight counts the requests that are being served, upgraded connections
// apart.
func (g *Guard) InFlight() int { return g.srv.inFlight() }

// Served counts the requests of the lane, as they come.
func (g *Guard) Served() uint64 { return g.served.Load() }

// verdict is what a guard does with a request.
type verdict int

const (
	verdictPass verdict = iota
	verdictBounce
	verdictReject
	verdictLoop
	verdictProbe
	verdictTunnel
	verdictNoPath
	verdictProof
)

// judge decides. It looks at the request's own carriers alone.
func (g *Guard) judge(c *call, method string) verdict {
	path := c.target.path()
	switch {
	case method == http.MethodConnect:
		return verdictTunnel
	case g.cfg.Proof != "" && path == g.cfg.Proof:
		return verdictProof
	case slices.Contains(g.cfg.Probes, path):
		return verdictProbe
	}
	if c.got.Kind == lane.TagNone {
		c.hostTag(g.cfg.Service)
	}
	switch {
	case c.target == "":
		return verdictNoPath
	case c.got.Kind == lane.TagLane && c.got.Lane == g.cfg.Lane && !g.killed():
		return verdictPass
	case c.guarded:
		return verdictLoop
	case g.cfg.Reject:
		return verdictReject
	}
	return verdictBounce
}

// killed reports whether the lane is. Not everybody who finds the instance and sends
// the lane's tag is a router that knows of the kill switch.
func (g *Guard) killed() bool {
	return !g.cfg.Inner && g.t.registry.Catalog().Switches.Killed(g.cfg.Lane)
}

// lanes reports whether a request that is turned away is the lane's: the lane is killed.
func (g *Guard) lanes(c *call) bool { return c.got.Kind == lane.TagLane && c.got.Lane == g.cfg.Lane }

// line serves a request that came as HTTP/1: by our own engine if it goes on.
func (g *Guard) line(l *line) {
	req := &l.req
	asked, tgt := req.Host, target(req.Target)
	if req.Target[0] != '/' && req.Target != "*" {
		l.handle(g.handle, "")
		return
	}
	c := l.open(asked, asked, "http://"+asked+req.Target, tgt)
	c.ex.Service = g.cfg.Service
	switch g.judge(c, req.Method) {
	case verdictPass:
		g.passOn(c, l.way.k.h)
		addr := g.cfg.Local[0]
		if err := l.send(&g.nearby, addr); err != nil {
			if p := g.closed(c, err); p != nil {
				l.refuse(c, p, nil)
				return
			}
			l.fail(err, g.cfg.Lane, &lane.Instance{ID: c.ex.Instance, Addr: addr})
			return
		}
		l.respond(&g.nearby, said{decision: g.place.Load().decision})
	case verdictBounce:
		if !g.lanes(c) { // who sends the lane's tag looks at lanes
			g.strayed(c, req.Get("User-Agent"))
		}
		g.lostTag(c)
		cat, ask := g.baseline(l.ctx, c)
		dec := decisions.Get().(*lane.Decision)
		defer decisions.Put(dec)
		g.t.decide(dec, cat, &ask)
		c.decided(dec)
		if dec.Kind == lane.KindError {
			l.refuse(c, g.t.problem(l.ctx, cat, &ask, dec), dec)
			return
		}
		bounced(c, l.way.k.h)
		l.sendService(&g.t.nearby, cat, &ask, dec, said{guard: guardBounced})
	default:
		l.handle(g.handle, "")
	}
}

func (g *Guard) handle(w *writer, r *http.Request) {
	c := g.t.newCall(traffic.FrontGuard, r)
	c.ex.Service = g.cfg.Service
	defer c.checkBroken(w)
	defer c.early.over()
	c.w, c.early.w = w, w.hints(r)
	var resp *http.Response
	var err error
	verdict := g.judge(c, r.Method)
	if verdict == verdictBounce || verdict == verdictReject {
		if !g.lanes(c) {
			g.strayed(c, r.Header.Get("User-Agent"))
		}
		g.lostTag(c)
	}
	switch verdict {
	case verdictProof:
		if !g.accepts() {
			http.Error(w, "the local port is closed", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
		return
	case verdictProbe:
		g.probe(c, w)
		return
	case verdictTunnel:
		resp, err = c.refuse(r, &Problem{Code: CodeBadTarget, Lane: g.cfg.Lane, status: http.StatusMethodNotAllowed,
			Message: "a guard makes no tunnels", Hint: "send the request itself"}, nil)
	case verdictNoPath:
		resp, err = c.refuse(r, &Problem{Code: CodeBadTarget, Lane: g.cfg.Lane, status: http.StatusBadRequest,
			Message: "the request target is no path", Hint: "begin it with /"}, nil)
	case verdictPass:
		resp, err = g.pass(c, r)
	case verdictLoop:
		g.outcome(c, traffic.GuardRejected)
		resp, err = c.refuse(r, &Problem{Code: lane.CodeLoopDetected, Lane: c.got.Lane, Reason: "guard_loop",
			Message: "another guard has sent this request on already, and it came to a guard again",
			Hint:    "an instance without a lane in the registry stands behind a guard: see lane ls"}, nil)
	case verdictReject:
		resp, err = g.reject(c, r, c.got)
	default:
		resp, err = g.bounce(c, r)
	}
	if err == nil {
		c.relay(w, resp)
	}
}

// probers begin the User-Agent of those that ask every registered instance for
// its health and read no answer's content.
var probers = []string{"Consul Health Check", "kube-probe/", "ELB-HealthChecker/", "GoogleHC/"}

// strayed tells that somebody calls the instance who does not look at lanes.
func (g *Guard) strayed(c *call, agent string) {
	if g.cfg.Strayed == nil {
		return
	}
	for _, p := range probers {
		if strings.HasPrefix(agent, p) {
			return
		}
	}
	if from, err := netip.ParseAddrPort(c.ex.From); err == nil && !g.cfg.Here(from.Addr().Unmap()) {
		g.cfg.Strayed(from.Addr().Unmap())
	}
}

// lostTag notes a request without a tag whose trace was in the lane: who called, or
// somebody before him, has not passed it on. It is said aloud once of each caller.
func (g *Guard) lostTag(c *call) {
	if g.t.own == nil || c.got.Kind != lane.TagNone || g.t.own.Get(&c.keys) != g.cfg.Lane {
		return
	}
	c.ex.Warnings = append(c.ex.Warnings, traffic.WarnTagLost)
	from, err := netip.ParseAddrPort(c.ex.From)
	if err == nil && g.t.lost.isNew(from.Addr().Unmap()) {
		g.t.logger.Warn("a request of the lane's trace has come without its tag: its caller, or a service before it, does not pass the tag on: docs/passing.md has what it needs",
			"service", g.cfg.Service, "caller", from.Addr().Unmap(), "trace", c.ex.TraceID)
	}
}

// callers are addresses that something was said of, so many at the most.
type callers struct {
	mu   sync.Mutex
	said map[netip.Addr]bool
}

func (c *callers) isNew(addr netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[addr] || len(c.said) >= 100 {
		return false
	}
	if c.said == nil {
		c.said = map[netip.Addr]bool{}
	}
	c.said[addr] = true
	return true
}

func (g *Guard) outcome(c *call, what string) {
	c.ex.Guard = what
	g.t.counts.Add(traffic.CountGuard, "outcome", what)
}

// passOn makes a request of the lane ready for the local process.
func (g *Guard) passOn(c *call, h http.Header) {
	g.served.Add(1)
	if g.t.own != nil {
		g.t.own.Put(&c.keys, g.cfg.Lane)
	}
	g.outcome(c, traffic.GuardPassed)
	c.severed = g.cfg.Severed
	c.ex.Lane, c.ex.Kind, c.ex.Reason = g.cfg.Lane, lane.KindLaneMatch, lane.ReasonLaneMatch
	c.ex.Instance, c.ex.Addr, c.ex.Tries = g.place.Load().id, g.cfg.Local[0], 1
	delete(h, keyGuard) // the mark of another hop: not to be passed on by the application
	c.cutTag()
	c.ex.Warnings = append(c.ex.Warnings, g.t.heal(h, string(g.cfg.Lane))...)
	lane.WriteHops(h, c.passed+1)
}

// closed is the answer if the local process took no connection, else nil.
func (g *Guard) closed(c *call, err error) *Problem {
	var refused *DialError
	if !errors.As(err, &refused) {
		return nil
	}
	addr := g.cfg.Local[0]
	var link *LinkError
	if errors.As(err, &link) {
		p := &Problem{Service: g.cfg.Service, Lane: g.cfg.Lane}
		p.linkLost(link, true)
		c.ex.Err = p.Message
		return p
	}
	c.ex.Err = "the local process of " + g.cfg.Service + " takes no connection at " + addr + ": " + cause(refused.Err)
	return &Problem{Code: lane.CodeUpstreamConnect, Service: g.cfg.Service, Lane: g.cfg.Lane,
		Message: "lane-local-down: " + c.ex.Err,
		Hint:    "start it, or check its port: the guard expects it at " + addr}
}

// pass sends a request of the lane to the local process.
func (g *Guard) pass(c *call, r *http.Request) (*http.Response, error) {
	g.passOn(c, r.Header)
	addr := g.cfg.Local[0]
	resp, err := c.roundTrip(&g.local, r, "http", addr, false)
	if err != nil {
		if p := g.closed(c, err); p != nil && r.Context().Err() == nil {
			return c.refuse(r, p, nil)
		}
		return c.lost(r, err, g.cfg.Lane, &lane.Instance{ID: c.ex.Instance, Addr: addr})
	}
	c.cleanResponse(resp)
	resp.Header[lane.HeaderDecision] = []string{g.place.Load().decision}
	return c.answered(resp), nil
}

// baseline is the question where a request that is not the lane's is to go.
func (g *Guard) baseline(ctx context.Context, c *call) (*lane.Catalog, lane.Request) {
	t := g.t
	g.outcome(c, traffic.GuardBounced)
	cat := t.registry.Catalog()
	if s := cat.Service(g.cfg.Service); s == nil || !s.HasSnapshot {
		cat = t.await(ctx, g.cfg.Service)
	} else {
		_ = t.registry.Need(over, g.cfg.Service) // in use
	}
	ask := lane.Request{
		Service: g.cfg.Service, Tag: c.got, ForceBaseline: true, Killed: g.lanes(c), Hops: c.passed,
		TraceID: c.ex.TraceID, StickyKey: c.user(), Now: c.ex.Start, Excluded: t.ejected.now(cat, g.cfg.Service, c.ex.Start), Caller: t.caller,
	}
	ask.Caller.InstanceID, ask.Caller.Self = g.place.Load().id, *g.at.Load()
	return cat, ask
}

// bounced marks a request that leaves a guard for the baseline.
func bounced(c *call, h http.Header) {
	h[lane.HeaderGuard] = []string{guardBounced}
	lane.WriteHops(h, c.passed+1)
}

// bounce sends a request that is not the lane's to the baseline, its carriers
// untouched.
func (g *Guard) bounce(c *call, r *http.Request) (*http.Response, error) {
	t := g.t
	cat, ask := g.baseline(r.Context(), c)
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	t.decide(dec, cat, &ask)
	c.decided(dec)
	if dec.Kind == lane.KindError {
		return c.refuse(r, t.problem(r.Context(), cat, &ask, dec), dec)
	}
	bounced(c, r.Header)
	resp, err := c.sendService(r, cat, &ask, dec)
	if err == nil {
		resp.Header[keyGuard] = []string{guardBounced}
	}
	return resp, err
}

// reject answers what is not the lane's with 421.
func (g *Guard) reject(c *call, r *http.Request, tag lane.Tag) (*http.Response, error) {
	g.outcome(c, traffic.GuardRejected)
	why, words := guardOther, "the request's tag is not the lane's"
	switch tag.Kind {
	case lane.TagNone:
		why, words = guardUntagged, "the request has no tag"
	case lane.TagInvalid:
		why, words = guardInvalid, "the request's tag is no lane name"
	}
	hint := "call the service by its name through a router that knows lanes"
	message := words + ": only lane " + string(g.cfg.Lane) + " is served here"
	if g.lanes(c) {
		why, message = guardKilled, "lane "+string(g.cfg.Lane)+" is killed: nothing is served here"
		hint = "lane unkill " + string(g.cfg.Lane) + ", or lane switch says what is killed"
	}
	resp, err := c.refuse(r, &Problem{Code: CodeGuardRejected, Service: g.cfg.Service, Lane: tag.Lane, Reason: "guard_rejected",
		status:  http.StatusMisdirectedRequest,
		Message: message, Hint: hint}, nil)
	if err == nil {
		resp.Header[keyGuard] = []string{why}
	}
	return resp, err
}

// probe answers a health probe.
func (g *Guard) probe(c *call, w *writer) {
	g.outcome(c, traffic.GuardProbe)
	c.ex.Lane = g.cfg.Lane
	probe(c, w, g.accepts)
}

func (g *Guard) accepts() bool {
	if g.cfg.Ready != nil {
		return g.cfg.Ready()
	}
	return accepts(g.dial)
}

// probe answers a health probe without calling the local process: it only looks
// whether the port takes a connection.
func probe(c *call, w *writer, accepts func() bool) {
	status, body := http.StatusOK, "ok\n"
	if !accepts() {
		status, body = http.StatusServiceUnavailable, "the local port is closed\n"
	}
	c.ex.First, c.ex.Status = c.t.now().Sub(c.ex.Start), status
	http.Error(w, body[:len(body)-1], status)
	if !w.head {
		c.res.n.Store(int64(len(body)))
	}
	c.finish("")
}

// accepts says whether the local port takes a connection.
func accepts(local dialer) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := local.dial(ctx, "tcp", local.order[0])
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
