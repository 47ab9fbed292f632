package proxy

import (
	"context"
	"net/http"
	"slices"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// enters reports whether a request is colored here: it has no tag, its trace has
// none, and no guard has sent it to the baseline.
func (in *Inbound) enters(c *call) bool {
	if in.cfg.Color == nil || c.guarded || c.got.Kind != lane.TagNone && c.got.Kind != lane.TagInvalid {
		return false
	}
	return in.t.traces == nil || in.t.traces(&c.keys) == ""
}

func (in *Inbound) color(ctx context.Context, c *call, heads rules.Headers) (rules.Result, rules.Revision) {
	return in.cfg.Color(ctx, &rules.Request{Entry: in.cfg.Service, Host: c.asked, Target: string(c.target),
		Tag: c.got, Headers: heads, Remote: remoteOf(c.ex.From)})
}

// wanted reports whether coloring makes a difference to a request, or is to be told.
func wanted(r *rules.Result) bool { return decides(r) || len(r.Failed) > 0 || len(r.Warnings) > 0 }

func decides(r *rules.Result) bool { return r.Tag.Kind == lane.TagLane || r.Ambiguous || r.Refuse }

// enter colors a request that enters here, and decides one that gets a lane: the
// lane's own instance of this service serves it, if there is one. done is false where
// the application does.
func (in *Inbound) enter(c *call, r *http.Request) (resp *http.Response, done bool, err error) {
	if !in.enters(c) {
		return nil, false, nil
	}
	e := entry{route: &Route{Service: in.cfg.Service}}
	var rev rules.Revision
	e.color, rev = in.color(r.Context(), c, rules.Map(r.Header))
	if !decides(&e.color) {
		for range e.color.Failed {
			c.count(in.cfg.Service, "", metricWhitelist, "", "")
		}
		c.ex.Warnings = append(c.ex.Warnings, e.color.Warnings...)
		return nil, false, nil
	}
	e.rev = rev.Rev
	c.ex.Service = in.cfg.Service
	c.colored(in.cfg.Service, &e)
	if p := e.refused(c, true); p != nil {
		resp, err = c.refuse(r, p, nil)
		return resp, true, err
	}
	if c.got.Kind == lane.TagInvalid {
		in.t.carriers.Write(r.Header, "")
	}
	c.got = e.color.Tag
	in.learn(c, r.Header)
	if e.color.Canary != "" {
		r.Header[e.color.Canary] = []string{"true"}
	}
	// Another request of the trace may have come first, with another lane: that counts.
	tag := in.t.carriers.Read(r.Header)
	cat := in.t.catalogOf(r.Context(), in.cfg.Service)
	ask := lane.Request{Service: in.cfg.Service, Tag: tag, Hops: c.passed, TraceID: c.ex.TraceID, StickyKey: c.user(),
		Caller: in.t.caller, Now: c.ex.Start, Excluded: in.t.ejected.now(cat, in.cfg.Service, c.ex.Start)}
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	in.t.decide(dec, cat, &ask)
	if home(dec) && hasSnapshot(cat, in.cfg.Service) {
		// The registry has no baseline for it, and it stands here.
		if in.t.decide(dec, in.withApp(cat), &ask); dec.Kind != lane.KindError {
			c.ex.Warnings = append(c.ex.Warnings, "not_registered:"+in.cfg.Service)
			in.unregistered()
		}
	}
	dec.RuleRev = rev.Rev
	c.decided(dec)
	switch dec.Kind {
	case lane.KindError:
		resp, err = c.refuse(r, in.t.problem(r.Context(), cat, &ask, dec), dec)
	case lane.KindLaneMatch:
		c.ex.Instance, c.ex.Addr, c.ex.Tries = "", "", 0 // not the application
		c.colorIn(r.Header, dec)
		resp, err = c.sendService(r, cat, &ask, dec)
	default:
		c.ex.Instance, c.ex.Addr, c.ex.Tries = in.cfg.InstanceID, in.cfg.App[0], 1
		resp, err = in.here(c, r, dec)
	}
	if err == nil && e.rev != "" {
		resp.Header[lane.HeaderRuleRev] = []string{e.rev}
	}
	return resp, true, err
}

// home reports whether a decision found no baseline: before a sidecar's own application
// that is no error, for the baseline stands behind the sidecar whatever is registered.
func home(dec *lane.Decision) bool {
	if dec.Kind != lane.KindError {
		return false
	}
	switch dec.Code {
	case lane.CodeNoInstances, lane.CodeNoBaseline, lane.CodeBaselineUnhealthy, lane.CodeHardConstraint:
		return true
	}
	return false
}

// withApp is a catalog in which the application is an instance of the service's baseline.
func (in *Inbound) withApp(cat *lane.Catalog) *lane.Catalog {
	app := lane.Instance{ID: in.cfg.InstanceID, Addr: in.cfg.App[0], Weight: 1,
		Env: in.t.caller.Env, Tenant: in.t.caller.Tenant, Zone: in.t.caller.Zone, Group: cat.Switches.ActiveGroup[in.cfg.Service]}
	var all []lane.Instance
	var declared []lane.Name
	if s := cat.Service(in.cfg.Service); s != nil {
		all, declared = s.Instances, s.Declared
	}
	for _, c := range cat.Claims { // of a service that nobody has registered
		if c.Service == in.cfg.Service && c.Session != "" && !slices.Contains(declared, c.Lane) {
			declared = append(slices.Clip(declared), c.Lane)
		}
	}
	out := lane.NewCatalog(cat.Trust, cat.Claims, cat.Switches, lane.NewService(in.cfg.Service, append(slices.Clip(all), app), declared))
	out.ClaimsUnknown, out.ClaimsDenied = cat.ClaimsUnknown, cat.ClaimsDenied
	return out
}

// unregistered says once that the registry has no baseline of the service.
func (in *Inbound) unregistered() {
	if in.saidAlone.CompareAndSwap(false, true) {
		in.t.logger.Warn("the registry has no instance of the baseline that could serve, and the application serves all the same: register it, or let the sidecar do it (--register)", "service", in.cfg.Service)
	}
}
