package proxy

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
	"lane/pkg/nearest"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// Registry is where the engine looks services up.
type Registry interface {
	// Catalog is what is known now: one atomic load, never nil.
	Catalog() *lane.Catalog
	// Need makes sure that a service is watched and waits for its first answer
	// or for ctx. It is called for every request, so it must be cheap for a
	// service that has an answer, and not wait when ctx has ended.
	Need(ctx context.Context, service string) error
	// Services are the names of all services, for "did you mean".
	Services(ctx context.Context) ([]string, error)
}

// Meter counts by service, lane and instance. It is called on the way of each
// request, so it must be cheap and wait for nobody, and it keeps neither value.
type Meter interface {
	// Decided is called once for each decision that counts.
	Decided(d *lane.Decision)
	// Done is called once for each exchange, at its end.
	Done(e *traffic.Exchange)
	// Count is called for what happens outside of decisions: a rule that colored, a
	// tag that was not taken. value is that of the metric's own label, if it has one.
	Count(service string, l lane.Name, name, value string)
}

// Config is everything that a Transport needs. Registry, Router and Log are
// required; a zero value elsewhere is the default.
type Config struct {
	Registry Registry
	// Router decides. A developer's proxy wants a policy that rejects invalid
	// tags; a gateway's drops them.
	Router   *lane.Router
	Carriers *lane.Carriers // nil: lane.DefaultCarriers
	Names    *Names         // nil: no configured names
	// Lane colors what comes without a tag through the forward front; empty
	// colors nothing.
	Lane   lane.Name
	Caller lane.Caller
	// Sticky is where a request says who its user is, who keeps his version by it;
	// none keeps nobody.
	Sticky rules.Key
	// Browsers is what answers of services get for browsers.
	Browsers Browsers

	Log    *traffic.Log
	Counts *traffic.Counts // nil: counts of its own, see Transport.Counts
	Meter  Meter           // nil: nobody counts more than Counts

	// Roots verify the servers behind TLS that was opened, and services; nil: the
	// system's.
	Roots *x509.CertPool
	// Upstream is an inherited proxy, for external hosts only.
	Upstream Upstream
	// Via, if set, makes the connections to instances, by their addresses in the
	// registry, in place of the network. A *LinkError of it, also one of a connection's
	// Read and Write, says that the way failed, and not the instance.
	Via func(ctx context.Context, addr string) (net.Conn, error)
	// Away, if set, says whether the relay at whose addresses our own guards are
	// registered is known to be out of reach: then it is not even tried.
	Away func() bool
	// Self are addresses of our own listeners, host:port. The fronts add theirs.
	Self []string
	// Barred, if set, says why nobody is led to an address, which an instance has in the
	// registry or its name there has led to; nil where nothing speaks against it.
	Barred func(ctx context.Context, addr string) error
	// Resolves reports whether the local resolver knows a name; nil asks the
	// system's.
	Resolves func(ctx context.Context, host string) bool

	// Traces says which headers hold the id of a request's trace.
	Traces tracemap.Sources
	// TraceLane is the tag with which a request's trace came in, by its ids: a
	// sidecar's map knows it. Nil knows none.
	TraceLane func(keys *tracemap.Keys) lane.Name

	// Own, if set, keeps the traces that were in the session's lane: a request of one
	// that comes to the guard without a tag has lost it on the way, and that is said. It
	// lets no request in.
	Own *tracemap.Map

	KeepHeaders bool          // record heads, secrets masked
	KeepBodies  bool          // record the beginnings of bodies, traffic.MaxBody each
	FirstAnswer time.Duration // wait for a service's first answer; 0: 2 s
	DialTimeout time.Duration // 0: 3 s towards instances, 10 s elsewhere
	EjectFor    time.Duration // how long a refusing instance is skipped; 0: 5 s
	Now         func() time.Time
	Logger      *slog.Logger // nil: discards
}

// Transport colors, looks up, decides, sends and records. It is safe for
// concurrent use; its fronts share one.
type Transport struct {
	registry Registry
	router   *lane.Router
	carriers *lane.Carriers
	names    *Names
	lane     lane.Name
	caller   lane.Caller
	sticky   rules.Key
	sources  tracemap.Sources
	traces   func(*tracemap.Keys) lane.Name
	log      *traffic.Log
	counts   *traffic.Counts
	meter    Meter
	resolves func(context.Context, string) bool
	keep     bool
	bodies   bool
	first    time.Duration
	now      func() time.Time
	logger   *slog.Logger

	saidTraceless atomic.Bool // see traceless

	own  *tracemap.Map
	lost callers // by whom a tag was lost

	near     dialer // to instances
	far      dialer // to everything else
	services ways   // to instances: never through a proxy
	secured  secured
	external ways // to everything else
	opened   ways // to everything else, for what was opened: with roots of its own
	nearby   pool // to instances, by our own engine
	outside  pool // to everything else that no proxy leads to
	marks    marks
	upstream upstream
	ejected  ejected
	crossed  crossings
	browsers Browsers
	// tagHeaders are those that a preflight may ask for; nil: nobody answers that here.
	tagHeaders []string
	self       ownAddrs
	guards     sync.Map // instances of this process's own, each an own, by address in the registry
	away       func() bool
	picks      atomic.Uint64
}

var _ http.RoundTripper = (*Transport)(nil)

// NewTransport checks the configuration and makes a Transport. Close it.
func NewTransport(cfg Config) (*Transport, error) {
	if cfg.Registry == nil || cfg.Router == nil || cfg.Log == nil {
		return nil, errors.New("proxy: Registry, Router and Log are required")
	}
	t := &Transport{
		registry: cfg.Registry, router: cfg.Router, carriers: cfg.Carriers, names: cfg.Names,
		lane: cfg.Lane, sources: cfg.Traces, traces: cfg.TraceLane, caller: cfg.Caller, sticky: cfg.Sticky, log: cfg.Log, counts: cfg.Counts, meter: cfg.Meter,
		resolves: cfg.Resolves, keep: cfg.KeepHeaders, bodies: cfg.KeepBodies, now: cfg.Now, logger: cfg.Logger, own: cfg.Own,
		first: orDefault(cfg.FirstAnswer, 2*time.Second),
	}
	if t.carriers == nil {
		c := lane.DefaultCarriers()
		t.carriers = &c
	}
	if t.names == nil {
		t.names = &Names{}
	}
	if t.counts == nil {
		t.counts = &traffic.Counts{}
	}
	if t.now == nil {
		t.now = time.Now
	}
	if t.logger == nil {
		t.logger = slog.New(slog.DiscardHandler)
	}
	if t.resolves == nil {
		t.resolves = func(ctx context.Context, host string) bool {
			addrs, err := net.DefaultResolver.LookupHost(ctx, host)
			return err == nil && len(addrs) > 0
		}
	}
	t.away, t.browsers = cfg.Away, cfg.Browsers
	if t.browsers.AllowTag {
		t.tagHeaders = tagHeaders(t.carriers)
	}
	t.crossed.start(t.router.Policy(), t.caller.Zone)
	t.ejected.hold = orDefault(cfg.EjectFor, 5*time.Second)
	for _, a := range cfg.Self {
		t.self.add(a)
	}
	var err error
	if t.upstream, err = newUpstream(cfg.Upstream, &t.self); err != nil {
		return nil, err
	}
	t.near = dialer{timeout: orDefault(cfg.DialTimeout, 3*time.Second), self: &t.self, barred: cfg.Barred}
	t.far = dialer{timeout: orDefault(cfg.DialTimeout, 10*time.Second), self: &t.self}
	t.marks = newMarks(t.carriers, &t.sources)
	if cfg.Via != nil {
		t.near.via = func(ctx context.Context, addr string) (net.Conn, error) {
			if at, ours := t.ownGuard(addr, "", ""); ours && at == addr {
				var d net.Dialer
				return d.DialContext(ctx, "tcp", at)
			}
			return cfg.Via(ctx, addr)
		}
		t.near.timeout, t.nearby.once = orDefault(cfg.DialTimeout, 10*time.Second), true
	}
	t.nearby.dial, t.outside.dial = t.near.dial, t.far.dial
	t.services = newWays(t.near.dial)
	t.external = ways{newHTTP(t.far.dial), newH2C(func(ctx context.Context, _, addr string) (net.Conn, error) { return t.dialOut(ctx, addr) })}
	secure(t.external.plain, nil)
	t.external.plain.Proxy = t.upstream.forRequest
	t.opened = t.external
	if cfg.Roots != nil {
		t.opened.plain = secure(newHTTP(t.far.dial), cfg.Roots)
		t.opened.plain.Proxy = t.upstream.forRequest
	}
	t.secured.dial, t.secured.roots = t.near.dial, cfg.Roots
	return t, nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// Close ends idle connections. Call it when the fronts have ended.
func (t *Transport) Close() {
	t.services.close()
	t.secured.close()
	t.external.close()
	t.opened.close()
	t.nearby.close()
	t.outside.close()
}

// Counts are the totals so far.
func (t *Transport) Counts() *traffic.Counts { return t.counts }

// RoundTrip sends a request as the forward front does. Errors of ours come as
// responses; an error is returned only when the caller's context has ended.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req.WithContext(req.Context())
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	if out.Host == "" {
		out.Host = out.URL.Host
	}
	c := t.newCall(traffic.FrontForward, out)
	c.body.owned = true
	return c.forward(out)
}

// decisions are reused: a decision over a large service has large slices.
var decisions = sync.Pool{New: func() any { return new(lane.Decision) }}

// forward is the whole way of one request of the developer's.
func (c *call) forward(req *http.Request) (*http.Response, error) {
	t := c.t
	// 2 Look. It comes first: a host may name a tag beside the service.
	service, cat, prob := t.look(req.Context(), c.asked)
	if prob != nil {
		return c.refuse(req, prob, nil)
	}
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	ask := c.decide(service, cat, dec)
	if service == "" {
		c.colorOut(req.Header, ask.Tag)
		return c.sendOut(req, dec)
	}
	if dec.Kind == lane.KindError {
		return c.refuse(req, t.problem(req.Context(), cat, &ask, dec), dec)
	}
	c.colorIn(req.Header, dec)
	// 4 Send, 5 Record: when the response's body ends.
	return c.sendService(req, cat, &ask, dec)
}

// decide finds the tag of a request of the developer's, and what it leads to.
func (c *call) decide(service string, cat *lane.Catalog, dec *lane.Decision) lane.Request {
	t := c.t
	// 1 Color. What the request says comes first: it is how an untagged call is
	// made, and how a service passes on what it was called with.
	c.hostTag(service)
	c.cutTag()
	tag := c.got
	if tag.Kind == lane.TagNone && t.lane != "" {
		tag = lane.Tag{Kind: lane.TagLane, Lane: t.lane, Raw: string(t.lane)}
	}
	// 3 Decide.
	ask := lane.Request{
		Service: service, External: service == "", Tag: tag, Hops: c.passed,
		TraceID: c.ex.TraceID, StickyKey: c.user(), Caller: t.caller, Now: c.ex.Start, Excluded: t.ejected.now(cat, service, c.ex.Start),
	}
	if t.traces != nil {
		ask.TraceLane = t.traces(&c.keys)
		if service != "" && c.keys.Len() == 0 && tag.Kind == lane.TagNone {
			t.traceless(c, service)
		}
	}
	if t.own != nil && service != "" && tag.Kind == lane.TagLane && tag.Lane == t.lane {
		t.own.Put(&c.keys, tag.Lane)
	}
	t.decide(dec, cat, &ask)
	c.decided(dec)
	return ask
}

// decide decides by the policy, and by how many requests have left the zone.
func (t *Transport) decide(dec *lane.Decision, cat *lane.Catalog, ask *lane.Request) {
	t.crossed.ask(ask)
	t.router.DecideInto(dec, cat, ask)
	t.crossed.decided(ask, dec)
}

// traceless notes a call of a sidecar's application that bears neither a tag nor a
// trace's id: if it was made for a request of a lane, the tag is lost here. That is
// said aloud once, for it is how the application is made.
func (t *Transport) traceless(c *call, service string) {
	c.ex.Warnings = append(c.ex.Warnings, traffic.WarnNoTraceID)
	if t.saidTraceless.CompareAndSwap(false, true) {
		t.logger.Warn("the application makes calls without a trace id: if one is made for a request of a lane, its tag is lost; let it pass on one of the headers of docs/tracing.md, as docs/passing.md has it", "code", "NO_TRACE_ID", "service", service)
	}
}

// colorIn writes what a service is to see.
func (c *call) colorIn(h http.Header, dec *lane.Decision) {
	if w := c.t.color(h, c.got, dec.PassOn); len(w) > 0 {
		c.ex.Warnings = append(c.ex.Warnings, w...)
	}
	lane.WriteHops(h, c.passed+1)
}

// colorOut takes away what a host that is no service is not to see.
func (c *call) colorOut(h http.Header, tag lane.Tag) {
	t := c.t
	t.carriers.Strip(h)
	if tag.Kind == lane.TagLane && t.names.Colored(c.asked) {
		t.carriers.Write(h, string(tag.Lane))
		c.ex.Lane = tag.Lane
	}
	c.ex.Addr = c.asked
}

// color writes what goes on with the request. A carrier that already says it
// stays as it is; a tag that the decision dropped is taken away.
func (t *Transport) color(h http.Header, got, passOn lane.Tag) (warnings []string) {
	switch {
	case passOn.Kind == lane.TagLane:
		return t.carriers.Write(h, string(passOn.Lane))
	case passOn.Kind == lane.TagBaseline && got.Kind != lane.TagNone && got.Kind != lane.TagBaseline:
		return t.carriers.Write(h, lane.BaselineTag) // the entry's, over one that was made up on the way
	case passOn.Kind == lane.TagBaseline:
		return t.writeTag(h, lane.BaselineTag)
	case passOn.Kind == lane.TagNone && got.Kind != lane.TagNone:
		return t.carriers.Write(h, "")
	}
	return nil
}

// look finds the service that a host names, empty for an external host, and
// the catalog to decide by. Only the first request for a service waits.
func (t *Transport) look(ctx context.Context, asked string) (string, *lane.Catalog, *Problem) {
	cat := t.registry.Catalog()
	place := t.names.Classify(asked, cat)
	if place.Service == "" {
		return "", cat, nil
	}
	svc := cat.Service(place.Service)
	if svc == nil || !svc.HasSnapshot {
		cat = t.await(ctx, place.Service)
		svc = cat.Service(place.Service)
	} else {
		_ = t.registry.Need(over, place.Service) // in use
	}
	if !place.Bare || !t.trusted(cat, svc) {
		return place.Service, cat, nil
	}
	if svc != nil && (len(svc.Instances) > 0 || len(svc.Declared) > 0 || svc.ACLFiltered) {
		return place.Service, cat, nil
	}
	if place.Labelled {
		return "", cat, nil // any other host of this machine's
	}
	// A bare name that the registry lacks: a host of the local network, perhaps.
	wait, cancel := context.WithTimeout(ctx, t.first)
	defer cancel()
	if t.resolves(wait, place.Service) {
		return "", cat, nil
	}
	return "", cat, t.unknown(ctx, place.Service)
}

// trusted reports whether the catalog's silence about a service means that there
// is none: a fresh registry's, or a last answer that is not too old.
func (t *Transport) trusted(cat *lane.Catalog, svc *lane.Service) bool {
	tr := cat.Trust
	return tr.State == lane.Fresh || svc != nil && svc.HasSnapshot && !tr.Since.IsZero() &&
		t.now().Sub(tr.Since) <= t.router.Policy().MaxStale
}

// over is a context that has ended: Need with it does not wait, it only tells
// the registry that a service is in use.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// await waits for a service's first answer, for a bounded time, and returns the
// catalog then. No answer is not an absence: the catalog is then not trusted.
func (t *Transport) await(ctx context.Context, service string) *lane.Catalog {
	wait, cancel := context.WithTimeout(ctx, t.first)
	defer cancel()
	err := t.registry.Need(wait, service)
	cat := t.registry.Catalog()
	if s := cat.Service(service); err != nil && (s == nil || !s.HasSnapshot) {
		trust := cat.Trust
		trust.State = lane.Unreachable
		return cat.WithTrust(trust)
	}
	return cat
}

// Locate says which service a host names ("" for an external host) and by which
// catalog the next request for it would be decided. It sends nothing.
func (t *Transport) Locate(ctx context.Context, hostport string) (service string, cat *lane.Catalog, err error) {
	service, cat, p := t.look(ctx, hostport)
	if p != nil {
		return service, cat, p
	}
	return service, cat, nil
}

// unknown is the answer for a service that the registry does not have.
func (t *Transport) unknown(ctx context.Context, service string) *Problem {
	p := &Problem{Code: lane.CodeNoInstances, Service: service, Reason: lane.ReasonNoInstances,
		Message: "no service " + service + " in the registry, and no host of that name",
		Hint:    "start it, or check the name"}
	t.suggest(ctx, p)
	return p
}

// suggest adds the nearest names to a problem about an unknown service. It is
// not worth a long wait.
func (t *Transport) suggest(ctx context.Context, p *Problem) {
	wait, cancel := context.WithTimeout(ctx, min(t.first, 500*time.Millisecond))
	defer cancel()
	all, err := t.registry.Services(wait)
	if err != nil {
		return
	}
	if near := nearest.Words(p.Service, all); len(near) > 0 {
		p.Message += "; nearest: " + strings.Join(near, ", ")
		p.Hint = "did you mean " + near[0] + "?"
	}
}

// problem turns a decision that is an error into an answer.
func (t *Transport) problem(ctx context.Context, cat *lane.Catalog, ask *lane.Request, d *lane.Decision) *Problem {
	p := &Problem{Code: d.Code, Service: d.Service, Lane: d.Lane, Reason: d.Reason,
		Message: d.Message(), Hint: d.Hint(), public: d.Message(), publicHint: d.Hint()}
	switch d.Code {
	case lane.CodeNoInstances:
		t.suggest(ctx, p)
	case lane.CodeLaneUnhealthy, lane.CodeBaselineUnhealthy:
		// The registry may call it healthy: say who does not.
		if s := cat.Service(d.Service); s != nil {
			for i := range s.Instances {
				if in := &s.Instances[i]; slices.Contains(ask.Excluded, in.ID) {
					p.Message += "; " + in.ID + " at " + in.Addr + " has just refused a connection and is skipped for a few seconds"
					break
				}
			}
		}
	}
	return p
}
