package lane

import "fmt"

// Explanation is a decision with every instance of the service.
type Explanation struct {
	Decision  Decision
	Instances []Verdict // by ID
}

// Verdict is what a decision did with one instance.
type Verdict struct {
	Instance *Instance
	Chosen   bool
	Share    float64 // of a chosen one, 0 to 1
	// Why is why it was left out, in a few words; empty for a chosen one.
	Why string
}

// Explain decides, and says of each instance of the service whether it is chosen
// or why not. It is Decide at a price: for people, not for requests.
func (r *Router) Explain(c *Catalog, req Request) Explanation {
	e := Explanation{Decision: r.Decide(c, req)}
	s := c.Service(req.Service)
	if s == nil {
		return e
	}
	x := s.indexed()
	share := make(map[*Instance]float64, len(e.Decision.Chosen))
	for _, k := range e.Decision.Chosen {
		share[k.Instance] = k.Weight
	}
	w := witness{p: &r.p, d: &e.Decision, req: &req}
	if g := c.Switches.ActiveGroup[req.Service]; g != "" {
		w.group = g
		w.grouped = w.namesGroups(x)
	}
	for _, p := range x.places {
		v := Verdict{Instance: p.in}
		if v.Share, v.Chosen = share[p.in]; !v.Chosen {
			v.Why = w.why(p)
		}
		e.Instances = append(e.Instances, v)
	}
	return e
}

// witness says of one instance why a decision has left it out, in the order in
// which the decision asks.
type witness struct {
	p       *Policy
	d       *Decision
	req     *Request
	group   string
	grouped bool
}

func (w *witness) namesGroups(x *index) bool {
	for _, p := range x.places {
		if p.quarantine == "" && p.lane == "" && p.in.Group != "" && w.hard(p.in) == "" {
			return true
		}
	}
	return false
}

// hard is the hard constraint that the instance fails.
func (w *witness) hard(in *Instance) string {
	c := &w.req.Caller
	switch {
	case w.p.EnvRequired && c.Env != "" && in.Env != c.Env:
		return "other env: " + shown(in.Env)
	case c.Tenant != "" && in.Tenant != c.Tenant:
		return "other tenant: " + shown(in.Tenant)
	case w.p.Zone == ZoneRequired && in.Zone != c.Zone:
		return "other zone: " + shown(in.Zone)
	}
	return ""
}

// version is that of what was chosen, which a sticky key keeps to one.
func (w *witness) version() string { return w.d.Chosen[0].Instance.Version }

func shown(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (w *witness) why(p place) string {
	in, d := p.in, w.d
	if p.quarantine != "" {
		return "quarantined: " + p.quarantine
	}
	if why := w.hard(in); why != "" {
		return why
	}
	if d.Kind == KindExternal || d.Kind == KindStatic {
		return "not looked at: " + d.Message()
	}
	switch d.Code {
	case CodeTagInvalid, CodeRegistryUnavailable, CodeHardConstraint:
		return "not looked at: " + d.Message()
	case CodeLoopDetected:
		if d.Reason == ReasonMaxHops {
			return "not looked at: " + d.Message()
		}
	}
	if why := w.wrongSet(p); why != "" {
		return why
	}
	switch {
	case in.Draining:
		return "draining"
	case in.Weight <= 0:
		return "draining: weight 0"
	case !in.serves(w.p.AllowWarning):
		return ill(in)
	}
	for _, id := range w.req.Excluded {
		if id == in.ID {
			return "refused a connection just now"
		}
	}
	c := &w.req.Caller
	switch {
	case c.Self != "" && in.Addr == c.Self:
		return "it is this proxy itself"
	case d.Kind == KindError:
		return "not chosen: " + d.Message()
	case c.InstanceID != "" && in.ID == c.InstanceID:
		return "it is the caller itself"
	case w.req.StickyKey != "" && in.Version != w.version() && (w.req.Version == "" || w.req.Version != w.version()):
		return fmt.Sprintf("version %s: the request's key is in %s", shown(in.Version), shown(w.version()))
	case w.req.Version != "" && in.Version != w.req.Version:
		return fmt.Sprintf("version %s, not %s", shown(in.Version), w.req.Version)
	case c.Zone != "" && in.Zone != c.Zone:
		return fmt.Sprintf("zone %s: the caller's zone %s has instances", shown(in.Zone), c.Zone)
	}
	return "not chosen"
}

// wrongSet says why an instance's lane, or the baseline, is not the set that the
// decision chose from.
func (w *witness) wrongSet(p place) string {
	d := w.d
	switch {
	case p.lane != "" && d.Lane == "":
		return fmt.Sprintf("lane %s: the request belongs to the baseline", p.lane)
	case p.lane != "" && p.lane != d.Lane:
		return fmt.Sprintf("lane %s is not yours", p.lane)
	case p.lane == "" && d.Lane != "" && d.Kind == KindLaneMatch:
		return fmt.Sprintf("baseline: lane %s serves this request", d.Lane)
	case p.lane == "" && d.Lane != "" && (d.Code == CodeLaneUnhealthy || d.Code == CodeLaneNoMatch || d.Code == CodeRegistryStale):
		return "baseline: " + d.Message()
	case p.lane != "" && d.Kind == KindDegraded:
		return "lane: the policy sends this share of requests to the baseline"
	case p.lane == "" && w.grouped && p.in.Group != w.group:
		return fmt.Sprintf("group %s is not active: %s is", shown(p.in.Group), w.group)
	}
	return ""
}

func ill(in *Instance) string {
	word := "critical"
	if in.Health == Warning {
		word = "warning"
	}
	if in.HealthNote != "" {
		return word + ": " + plain(in.HealthNote)
	}
	return word
}
