package lane

import "slices"

// pool counts a lane's instances, or the baseline's, that pass the hard
// constraints.
type pool struct {
	members int    // registered, draining ones too
	live    int    // not draining
	serving int    // healthy by the registry
	healthy int    // serving and not excluded
	only    *group // the one group that they all come from, if nothing is left out of it
}

// hardConstraints is step 10.
func (q *query) hardConstraints() bool {
	found := false
	for i := range q.parts() {
		if p := q.part(i); p != nil && (q.r.p.Zone != ZoneRequired || p.zones[q.req.Caller.Zone] > 0) {
			found = true
			break
		}
	}
	if !found {
		q.count(MetricHardConstraint)
		q.fail(CodeHardConstraint, ReasonHardConstraint)
		return false
	}
	if q.sw != nil && q.sw.ActiveGroup != nil {
		if g := q.sw.ActiveGroup[q.req.Service]; g != "" {
			q.group, q.grouped = g, q.namesGroups()
		}
	}
	return true
}

// wide reports whether the caller's env and tenant ask for nothing.
func (q *query) wide() bool {
	c := &q.req.Caller
	return (c.Env == "" || !q.r.p.EnvRequired) && c.Tenant == ""
}

// parts is how many parts a caller has to look at.
func (q *query) parts() int {
	if q.wide() {
		return 1
	}
	return len(q.x.parts)
}

// part is the i-th of these, nil if it does not fit the caller.
func (q *query) part(i int) *part {
	if q.wide() {
		return &q.x.all
	}
	p, c := &q.x.parts[i], &q.req.Caller
	if c.Env != "" && q.r.p.EnvRequired && p.env != c.Env || c.Tenant != "" && p.tenant != c.Tenant {
		return nil
	}
	return p
}

// inZone reports whether the caller's zone, where it is a hard constraint,
// allows the instance.
func (q *query) inZone(in *Instance) bool {
	return q.r.p.Zone != ZoneRequired || in.Zone == q.req.Caller.Zone
}

// namesGroups reports whether any baseline instance left by the hard
// constraints names a group.
func (q *query) namesGroups() bool {
	for i := range q.parts() {
		p := q.part(i)
		if p == nil || p.lanes[""] == nil || p.lanes[""].named == 0 {
			continue
		}
		for _, in := range p.lanes[""].members {
			if in.Group != "" && q.inZone(in) {
				return true
			}
		}
	}
	return false
}

// keeps reports whether an instance of a matching part belongs to its pool.
func (q *query) keeps(lane Name, in *Instance) bool {
	return q.inZone(in) && (lane != "" || !q.grouped || in.Group == q.group)
}

func (q *query) excluded(in *Instance) bool {
	return len(q.req.Excluded) > 0 && slices.Contains(q.req.Excluded, in.ID)
}

// pool counts without looking at the instances, unless something other than the
// lane, env and tenant tells them apart.
func (q *query) pool(lane Name) pool {
	var out pool
	whole := q.r.p.Zone != ZoneRequired && (lane != "" || !q.grouped) && len(q.req.Excluded) == 0
	groups := 0
	for i := range q.parts() {
		p := q.part(i)
		if p == nil {
			continue
		}
		g := p.lanes[lane]
		if g == nil {
			continue
		}
		groups++
		out.only = g
		if whole {
			n := len(g.set(q.r.p.AllowWarning))
			out.members += len(g.members)
			out.live += g.live
			out.serving += n
			out.healthy += n
			continue
		}
		for _, in := range g.members {
			if !q.keeps(lane, in) {
				continue
			}
			out.members++
			if !in.drains() {
				out.live++
			}
			if in.serves(q.r.p.AllowWarning) {
				out.serving++
				if !q.excluded(in) {
					out.healthy++
				}
			}
		}
	}
	if !whole || groups != 1 {
		out.only = nil
	}
	return out
}

// gather puts the pool's n healthy instances into the decision's own memory.
func (q *query) gather(lane Name, n int) []Candidate {
	out := slices.Grow(q.d.chosen[:0], n)
	groups := 0
	for i := range q.parts() {
		p := q.part(i)
		if p == nil || p.lanes[lane] == nil {
			continue
		}
		groups++
		for _, c := range p.lanes[lane].set(q.r.p.AllowWarning) {
			if q.keeps(lane, c.Instance) && !q.excluded(c.Instance) {
				out = append(out, c)
			}
		}
	}
	if groups > 1 {
		slices.SortFunc(out, func(a, b Candidate) int { return byID(a.Instance, b.Instance) })
	}
	q.d.chosen = out
	return out
}
