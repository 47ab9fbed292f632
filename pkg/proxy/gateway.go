package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

const (
	// CodeNoRoute is 404: a gateway leads nothing of this host and path anywhere.
	CodeNoRoute lane.Code = "E_NO_ROUTE"

	metricColor     = "lane_color_total"
	metricRejected  = "lane_tag_rejected_total"
	metricWhitelist = "lane_whitelist_errors_total"
)

// Gateway is an entry of the shared environment: it finds the service that a
// request is for, gives the request its tag, and sends it on as every front does.
// Each request leaves it with a tag, "baseline" among them: one that comes to a
// service without any has lost it on the way.
type Gateway struct {
	t      *Transport
	srv    *server
	cfg    GatewayConfig
	routes *routes
	// outside is what is taken off the requests of who is not trusted, mark what
	// this entry knows its own requests by.
	outside *outside
	mark    string
}

// GatewayConfig says what a gateway leads where. Color is required.
type GatewayConfig struct {
	Routes []Route
	// Color colors a request by the rules in force: it is called once for a
	// request, and everything that is said of the rules is of that one call.
	Color func(ctx context.Context, r *rules.Request) (rules.Result, rules.Revision)
	// Expose says who learns more than the decision and the lane; empty:
	// ExposeTrusted.
	Expose Expose
	// Drain is how long the end waits for requests; 0 is 30 s. When Force is closed
	// it waits no longer.
	Drain time.Duration
	Force <-chan struct{}
}

// NewGateway checks the configuration and makes the front.
func NewGateway(t *Transport, cfg GatewayConfig) (*Gateway, error) {
	r, err := newRoutes(cfg.Routes)
	if err != nil {
		return nil, err
	}
	g := &Gateway{t: t, cfg: cfg, routes: r, outside: newOutside(&t.sources), mark: newMark()}
	g.srv = newServer(t, traffic.FrontGateway, g.line, g.handle, true, cfg.Drain)
	g.srv.force = cfg.Force
	return g, nil
}

// Serve serves until ctx ends, then drains and returns when nothing of it runs.
func (g *Gateway) Serve(ctx context.Context, ln net.Listener) error {
	g.t.self.add(ln.Addr().String())
	return g.srv.run(ctx, ln)
}

// entry is a request at the gateway: where it goes, and what it was given.
type entry struct {
	route *Route
	color rules.Result
	rev   string
	ask   lane.Request
	cat   *lane.Catalog
	said  said

	outside *outside       // what is taken off, nil: nothing
	start   tracemap.Start // of a trace that begins here
	via     string
}

// said is what a response says beside what its server has said.
type said struct {
	decision, guard, rev, warning string
}

// admit finds the route, colors and decides. A problem ends the request.
func (g *Gateway) admit(ctx context.Context, c *call, heads rules.Headers, h http.Header, dec *lane.Decision) (entry, *Problem) {
	t := g.t
	dec.Kind, dec.Code = "", "" // it has been another request's
	var e entry
	var plain bool
	if e.route, plain = g.routes.find(c.asked, c.target); e.route != nil {
		c.ex.Service = e.route.Service
	}
	var rev rules.Revision
	e.color, rev = g.cfg.Color(ctx, &rules.Request{
		Entry: c.ex.Service, Host: c.asked, Target: string(c.target), Tag: c.got, Headers: heads, Remote: remoteOf(c.ex.From),
	})
	e.rev = rev.Rev
	e.said.rev = rev.Rev
	c.colored(c.ex.Service, &e)
	g.believe(c, h, &e)
	if p := e.refused(c, plain); p != nil {
		return e, p
	}
	c.cutTag()
	c.target = c.target.strip(e.route.Strip)
	if e.route.Upstreams != nil {
		e.cat = g.routes.fixed(t.registry.Catalog())
	} else {
		e.cat = t.catalogOf(ctx, e.route.Service)
	}
	e.ask = lane.Request{
		Service: e.route.Service, Tag: e.color.Tag, Hops: c.passed, TraceID: c.ex.TraceID, StickyKey: e.user(c),
		Caller: t.caller, Now: c.ex.Start, Excluded: t.ejected.now(e.cat, e.route.Service, c.ex.Start),
	}
	t.decide(dec, e.cat, &e.ask)
	dec.RuleRev = rev.Rev
	c.decided(dec)
	if dec.Kind == lane.KindError {
		return e, t.problem(ctx, e.cat, &e.ask, dec)
	}
	return e, nil
}

// refused is the answer to a request that goes nowhere, whatever its lane.
func (e *entry) refused(c *call, plain bool) *Problem {
	switch {
	case !plain || e.color.Ambiguous:
		return &Problem{Code: CodeBadTarget, status: http.StatusBadRequest, Service: c.ex.Service,
			Message: "two servers could read this path in two ways: " + clip(c.target.path(), maxURL),
			Hint:    "leave . and .. out; a route or a rule tells /, //, \\ and %2F apart here"}
	case e.route == nil:
		what := c.asked + c.target.path()
		if c.target == "*" {
			what = c.asked + " as a whole (OPTIONS *)"
		}
		return &Problem{Code: CodeNoRoute, status: http.StatusNotFound,
			Message: "no route for " + what, Hint: "see the gateway's routes"}
	case e.color.Refuse:
		return &Problem{Code: lane.CodeTagInvalid, Reason: lane.ReasonTagInvalid, Service: e.route.Service,
			Message: "the request's tag is no lane's name: " + c.got.Raw, Hint: "names are a-z, 0-9 and -, as in dev-alice"}
	}
	return nil
}

// catalogOf is the catalog with a service, waited for if it has not been asked for yet.
func (t *Transport) catalogOf(ctx context.Context, service string) *lane.Catalog {
	cat := t.registry.Catalog()
	if !hasSnapshot(cat, service) {
		return t.await(ctx, service)
	}
	_ = t.registry.Need(over, service) // in use
	return cat
}

func hasSnapshot(cat *lane.Catalog, service string) bool {
	s := cat.Service(service)
	return s != nil && s.HasSnapshot
}

// colored records what coloring did.
func (c *call) colored(service string, e *entry) {
	lan := e.color.Tag.Lane
	if e.color.Rule != "" {
		c.count(service, lan, metricColor, "rule", e.color.Rule)
		c.ex.Rule = e.color.Rule
	}
	c.ex.RuleRev = e.rev
	if r := string(e.color.Rejected); r != "" {
		c.count(service, lan, metricRejected, "reason", r)
		e.warn(c, "tag_rejected:"+r)
	}
	for range e.color.Failed {
		c.count(service, lan, metricWhitelist, "", "")
	}
	c.ex.Warnings = append(c.ex.Warnings, e.color.Warnings...)
}

// write puts what was decided into a head: h holds its carriers.
func (g *Gateway) write(c *call, h http.Header, e *entry, dec *lane.Decision) {
	t := g.t
	if e.outside != nil {
		e.outside.takeFrom(h)
	}
	if e.color.Rejected != "" || c.got.Kind != lane.TagNone && e.color.Source != rules.SourceHeader {
		t.carriers.Write(h, "")
	}
	pass := dec.PassOn
	if pass.Kind != lane.TagLane {
		pass = lane.Tag{Kind: lane.TagBaseline, Raw: lane.BaselineTag}
	}
	raw := lane.BaselineTag
	if pass.Kind == lane.TagLane {
		raw = string(pass.Lane)
	}
	c.ex.Warnings = append(c.ex.Warnings, t.carriers.Write(h, raw)...)
	delete(h, keyGuard) // of a client, it would end the request at the next guard
	lane.WriteHops(h, c.passed+1)
	put(h, lane.HeaderVia, e.via)
	e.begin(h)
}

// line serves a request that came as HTTP/1.
func (g *Gateway) line(l *line) {
	req := &l.req
	if req.Target[0] != '/' && req.Target != "*" {
		l.handle(g.handle, "")
		return
	}
	c := l.open(req.Host, req.Host, "http://"+req.Host+req.Target, target(req.Target))
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	e, prob := g.admit(l.ctx, c, (*rules.Head)(&req.Head), l.way.k.h, dec)
	if prob != nil {
		var of *lane.Decision
		if dec.Kind == lane.KindError {
			of = dec
		}
		l.said = e.said
		l.refuse(c, prob, of)
		return
	}
	g.write(c, l.way.k.h, &e, dec)
	l.way.take, l.way.outside = e.color.Strip, e.outside
	if e.color.Canary != "" {
		l.way.give = e.color.Canary + ": true"
	}
	l.sendService(&g.t.nearby, e.cat, &e.ask, dec, e.said)
}

// handle serves what came as HTTP/2, or in a form that needs net/http.
func (g *Gateway) handle(w *writer, r *http.Request) {
	c := g.t.newCall(traffic.FrontGateway, r)
	defer c.checkBroken(w)
	defer c.early.over()
	c.w, c.early.w = w, w.hints(r)
	if r.Method == http.MethodConnect || c.target == "" {
		resp, err := c.refuse(r, &Problem{Code: CodeBadTarget, status: http.StatusBadRequest,
			Message: "a gateway is asked for a path", Hint: "begin the request target with /"}, nil)
		if err == nil {
			c.relay(w, resp)
		}
		return
	}
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	e, prob := g.admit(r.Context(), c, rules.Map(r.Header), r.Header, dec)
	var resp *http.Response
	var err error
	if prob != nil {
		var of *lane.Decision
		if dec.Kind == lane.KindError {
			of = dec
		}
		resp, err = c.refuse(r, prob, of)
	} else {
		g.write(c, r.Header, &e, dec)
		for _, h := range []http.Header{r.Header, r.Trailer} {
			for name := range h {
				if sameWord(e.color.Strip, name) {
					delete(h, name)
				}
			}
		}
		if e.outside != nil {
			e.outside.takeFrom(r.Trailer)
		}
		if e.color.Canary != "" {
			r.Header[e.color.Canary] = []string{"true"}
		}
		c.take, c.give = e.color.Strip, e.color.Canary
		c.cutTrailer()
		resp, err = c.sendService(r, e.cat, &e.ask, dec)
	}
	if err == nil {
		e.said.put(resp.Header)
		c.relay(w, resp)
	}
}

// put writes what a gateway says into a response's map.
func (s *said) put(h http.Header) {
	if s.rev != "" {
		h[lane.HeaderRuleRev] = []string{s.rev}
	}
	if s.warning != "" {
		h[lane.HeaderWarning] = []string{s.warning}
	}
}

// remoteOf is a caller's address without its port.
func remoteOf(from string) netip.Addr {
	ap, err := netip.ParseAddrPort(from)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// sameWord reports whether a list, in lower case, has a field's name: in any letter
// case, and with _ for -, which is the same to many applications.
func sameWord(list []string, name string) bool {
	for _, s := range list {
		if len(s) == len(name) && strings.EqualFold(s, strings.ReplaceAll(name, "_", "-")) {
			return true
		}
	}
	return false
}
