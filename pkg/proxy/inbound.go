package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

const (
	metricTagMissing  = "lane_tag_missing_total"
	metricTagConflict = "lane_tag_conflict_total"

	missingMapped   = "trace_mapped" // its trace came in with a tag
	missingNoHeader = "no_header"    // the entry gives each request one
)

// Inbound is the front of a sidecar before its application. It lets everything
// through, and learns which tag a trace came in with, so that the application's
// own calls find it again.
type Inbound struct {
	t     *Transport
	srv   *server
	cfg   InboundConfig
	local ways
	pool  pool
	dial  dialer
	// saidAlone is set when it was said that the registry does not know the application.
	saidAlone atomic.Bool
	own       *ownAddrs // an application that is this front itself would be called for ever
}

// InboundConfig says before what a sidecar stands. Learn is required.
type InboundConfig struct {
	Service string
	// InstanceID is the application's in the registry.
	InstanceID string
	// App are the application's addresses, dialled in this order.
	App []string
	// Learn takes the tag that a request came with, none among them, and gives the
	// one that its trace has from now on.
	Learn func(keys *tracemap.Keys, tag lane.Name) lane.Name
	// Stamped says that the entry gives each request a tag: one without has lost it.
	Stamped bool
	// Color, if set, makes the service an entry: it colors a request without a tag,
	// of a trace that has none, by the rules in force. Of one that it makes a
	// difference to it is asked again, and that answer counts.
	Color func(ctx context.Context, r *rules.Request) (rules.Result, rules.Revision)
	// Probes are paths that are answered here: 200 while the application's port
	// accepts, else 503.
	Probes []string
	// Drain is how long the end waits for requests; 0 is 30 s. When Force is closed
	// it waits no longer.
	Drain time.Duration
	Force <-chan struct{}
}

// NewInbound checks the configuration and makes the front.
func NewInbound(t *Transport, cfg InboundConfig) (*Inbound, error) {
	if cfg.Service == "" || len(cfg.App) == 0 || cfg.Learn == nil {
		return nil, errors.New("proxy: a sidecar needs a service, its application's address and a map of traces")
	}
	in := &Inbound{t: t, cfg: cfg, own: &ownAddrs{}}
	in.dial = dialer{timeout: 3 * time.Second, order: slices.Clone(cfg.App), self: in.own}
	in.local, in.pool.dial = newWays(in.dial.dial), in.dial.dial
	in.srv = newServer(t, traffic.FrontSidecar, in.line, in.handle, true, cfg.Drain)
	in.srv.force = cfg.Force
	return in, nil
}

// Serve serves until ctx ends, then drains and returns when nothing of it runs.
func (in *Inbound) Serve(ctx context.Context, ln net.Listener) error {
	in.own.add(ln.Addr().String())
	defer in.local.close()
	defer in.pool.close()
	return in.srv.run(ctx, ln)
}

// InFlight counts the requests that are being served, upgraded ones apart.
func (in *Inbound) InFlight() int { return in.srv.inFlight() }

// learn tells the map of a request, and writes what the map knows better into its
// head: the decision nearest to the entry counts.
func (in *Inbound) learn(c *call, h http.Header) {
	t := in.t
	came := lane.Name("")
	switch c.got.Kind {
	case lane.TagLane:
		came = c.got.Lane
	case lane.TagBaseline:
		came = lane.BaselineTag
	case lane.TagInvalid: // counts as absent
		c.count(in.cfg.Service, "", metricRejected, "reason", "invalid")
		c.ex.Warnings = append(c.ex.Warnings, "tag_rejected:invalid")
	}
	has := in.cfg.Learn(&c.keys, came)
	lan := has // the lane of what is counted
	if lan == lane.BaselineTag {
		lan = ""
	}
	switch {
	case came == "" && has != "":
		c.count(in.cfg.Service, lan, metricTagMissing, "reason", missingMapped)
		c.ex.Warnings = append(c.ex.Warnings, "tag_missing:"+missingMapped)
	case came == "" && in.cfg.Stamped:
		c.count(in.cfg.Service, "", metricTagMissing, "reason", missingNoHeader)
		c.ex.Warnings = append(c.ex.Warnings, "tag_missing:"+missingNoHeader)
	case has != "" && has != came:
		c.count(in.cfg.Service, lan, metricTagConflict, "", "")
		c.ex.Warnings = append(c.ex.Warnings, "tag_conflict:"+string(came)+"!="+string(has))
	}
	if has == "" {
		has = came
	}
	switch {
	case c.got.Kind == lane.TagInvalid && has == "":
		t.carriers.Write(h, "")
	case has != "" && has != came:
		c.ex.Warnings = append(c.ex.Warnings, t.carriers.Write(h, string(has))...)
	case has != "":
		c.ex.Warnings = append(c.ex.Warnings, t.heal(h, string(has))...)
	}
	c.ex.Service, c.ex.Kind, c.ex.Reason = in.cfg.Service, lane.KindBaseline, lane.ReasonUntagged
	if has != "" && has != lane.BaselineTag {
		c.ex.Lane = has
	}
	c.ex.Instance, c.ex.Addr, c.ex.Tries = in.cfg.InstanceID, in.cfg.App[0], 1
}

// line serves a request that came as HTTP/1.
func (in *Inbound) line(l *line) {
	req := &l.req
	if req.Target[0] != '/' && req.Target != "*" {
		l.handle(in.handle, "")
		return
	}
	c := l.open(req.Host, req.Host, "http://"+req.Host+req.Target, target(req.Target))
	if slices.Contains(in.cfg.Probes, c.target.path()) {
		l.handle(in.handle, "")
		return
	}
	if in.enters(c) {
		if color, _ := in.color(l.ctx, c, (*rules.Head)(&req.Head)); wanted(&color) {
			l.handle(in.handle, "") // few, and some of them go elsewhere
			return
		}
	}
	in.learn(c, l.way.k.h)
	if err := l.send(&in.pool, in.cfg.App[0]); err != nil {
		if p := in.closed(c, err); p != nil {
			l.refuse(c, p, nil)
			return
		}
		l.fail(err, "", &lane.Instance{ID: in.cfg.InstanceID, Addr: in.cfg.App[0]})
		return
	}
	l.respond(&in.pool, said{})
}

// handle serves what came as HTTP/2, or in a form that needs net/http.
func (in *Inbound) handle(w *writer, r *http.Request) {
	c := in.t.newCall(traffic.FrontSidecar, r)
	defer c.checkBroken(w)
	defer c.early.over()
	c.w, c.early.w = w, w.hints(r)
	var resp *http.Response
	var err error
	switch {
	case r.Method == http.MethodConnect || c.target == "":
		resp, err = c.refuse(r, &Problem{Code: CodeBadTarget, status: http.StatusBadRequest,
			Message: "a service is asked for a path", Hint: "begin the request target with /"}, nil)
	case slices.Contains(in.cfg.Probes, c.target.path()):
		probe(c, w, func() bool { return accepts(in.dial) })
		return
	default:
		var done bool
		if resp, done, err = in.enter(c, r); done {
			break
		}
		in.learn(c, r.Header)
		resp, err = in.here(c, r, nil)
	}
	if err == nil {
		c.relay(w, resp)
	}
}

// here sends a request to the application. dec is the decision that it is for the
// baseline, nil if there was none.
func (in *Inbound) here(c *call, r *http.Request, dec *lane.Decision) (*http.Response, error) {
	app := &lane.Instance{ID: in.cfg.InstanceID, Addr: in.cfg.App[0]}
	resp, err := c.roundTrip(&in.local, r, "http", app.Addr, false)
	if err != nil {
		if p := in.closed(c, err); p != nil && r.Context().Err() == nil {
			return c.refuse(r, p, nil)
		}
		return c.lost(r, err, "", app)
	}
	c.cleanResponse(resp)
	if dec != nil {
		resp.Header[lane.HeaderDecision] = []string{c.says(dec, app)}
	}
	return c.answered(resp), nil
}

// closed is the answer if the application took no connection, else nil.
func (in *Inbound) closed(c *call, err error) *Problem {
	var refused *DialError
	if !errors.As(err, &refused) {
		return nil
	}
	p := &Problem{Code: lane.CodeUpstreamConnect, Service: in.cfg.Service,
		Message: "the application of " + in.cfg.Service + " takes no connection at " + strings.Join(in.cfg.App, ", ") + ": " + cause(refused.Err),
		Hint:    "start it, or check --app"}
	c.ex.Err = p.Message
	return p
}
