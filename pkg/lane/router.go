package lane

import "maps"

// Router decides under one policy. It has no state and is safe for concurrent
// use.
type Router struct {
	p      Policy
	static map[string][]Candidate
	// matched is the counts of the common case, shared by all decisions.
	matched []Metric
}

// NewRouter makes a router. Its error is a *PolicyError that names the field.
func NewRouter(p Policy) (*Router, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	p = p.effective()
	p.BaselineStatic = maps.Clone(p.BaselineStatic)
	r := &Router{p: p, static: map[string][]Candidate{}, matched: []Metric{{Name: MetricMatch}}}
	for service, addrs := range p.BaselineStatic {
		for _, a := range addrs {
			r.static[service] = append(r.static[service], Candidate{
				Instance: &Instance{ID: a, Addr: a, Weight: 1, Registered: service}, Weight: 1 / float64(len(addrs))})
		}
	}
	return r, nil
}

// Policy is the policy that the router decides under, with what strict forces.
func (r *Router) Policy() Policy { return r.p }

// Decide returns the instances that may serve the request, and why. It depends
// on its arguments alone, and is total: any catalog, also nil, has a decision.
func (r *Router) Decide(c *Catalog, req Request) Decision {
	var d Decision
	r.DecideInto(&d, c, &req)
	return d
}

// DecideInto is Decide into a decision whose memory it uses again.
func (r *Router) DecideInto(d *Decision, c *Catalog, req *Request) {
	*d = Decision{Service: req.Service, chosen: d.chosen[:0], metrics: d.metrics[:0], warnings: d.warnings[:0]}
	s := c.Service(req.Service)
	q := query{r: r, req: req, d: d, s: s, x: s.indexed()}
	if c != nil {
		q.sw, q.trust, q.blind = &c.Switches, c.Trust, c.ClaimsUnknown
	}
	q.decide()
	if q.groupless { // here, and not by q: it would have every decision on the heap
		d.Group = c.Switches.ActiveGroup[req.Service]
	}
	if d.Code == CodeHardConstraint {
		d.Within = r.within(&req.Caller)
	}
	if d.Metrics == nil && len(d.metrics) > 0 {
		d.Metrics = d.metrics
	}
	if d.Warnings == nil && len(d.warnings) > 0 {
		d.Warnings = d.warnings
	}
}
