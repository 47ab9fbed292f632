package lane

import "time"

const (
	warnAllWeightsZero = "all_weights_zero_equalised"
	crossLocalEmpty    = "local_empty"
	crossNotEnough     = "local_insufficient"
)

// narrow is steps 18 to 22: from the pool to the instances that may serve this
// request, and their shares. m is counted once there are some.
func (q *query) narrow(lane Name, from pool, m Metric) {
	if from.only != nil && q.shared(from.only) {
		set := from.only.set(q.r.p.AllowWarning)
		q.d.Chosen = set[:len(set):len(set)]
		q.serve(m)
		return
	}
	set := q.gather(lane, from.healthy)
	c := &q.req.Caller
	if c.Self != "" { // 18
		set = keep(set, func(in *Instance) bool { return in.Addr != c.Self })
		if len(set) == 0 {
			q.fail(CodeLoopDetected, ReasonOnlyThisProxy)
			return
		}
	}
	if c.InstanceID != "" && anyOther(set, c.InstanceID) { // 19
		set = keep(set, func(in *Instance) bool { return in.ID != c.InstanceID })
	}
	lostVersion := false
	if v := q.req.Version; v != "" { // 20
		if has(set, func(in *Instance) bool { return in.Version == v }) {
			set = keep(set, func(in *Instance) bool { return in.Version == v })
		} else {
			lostVersion = true
		}
	}
	set = q.stick(set)     // 20'
	set, ok := q.zone(set) // 21
	if !ok {
		return
	}
	q.weigh(set) // 22
	q.d.Chosen = set
	if lostVersion {
		q.count(MetricVersionFallback)
	}
	q.serve(m)
}

// serve counts a decision that has an instance.
func (q *query) serve(m Metric) {
	switch {
	case m.Name == "":
	case m.Name == MetricMatch && len(q.d.metrics) == 0:
		q.d.Metrics = q.r.matched[:1:1]
	default:
		q.d.metrics = append(q.d.metrics, m)
	}
}

// shared reports whether the group's own candidates are the answer: nothing of
// this request tells them apart.
func (q *query) shared(g *group) bool {
	c := &q.req.Caller
	if q.req.Version != "" || q.req.StickyKey != "" && g.versions > 1 {
		return false
	}
	if c.Self != "" {
		if _, here := q.x.addrs[c.Self]; here {
			return false
		}
	}
	if c.InstanceID != "" {
		if _, here := q.x.ids[c.InstanceID]; here {
			return false
		}
	}
	if q.r.p.Zone == ZoneAffinity && c.Zone != "" && g.zoned > 0 {
		return false
	}
	return q.r.p.Warmup == 0 || g.dated == 0
}

// zone is the affinity to the caller's zone; false ends the decision.
func (q *query) zone(set []Candidate) ([]Candidate, bool) {
	p, z := &q.r.p, q.req.Caller.Zone
	if p.Zone != ZoneAffinity || z == "" || !has(set, func(in *Instance) bool { return in.Zone != "" }) {
		return set, true
	}
	local := 0
	for _, c := range set {
		if c.Instance.Zone == z {
			local++
		}
	}
	inZone := func(in *Instance) bool { return in.Zone == z }
	switch {
	case local > 0 && local >= p.MinLocal:
		return keep(set, inZone), true
	case local > 0 && q.mayCross():
		q.countBy(MetricCrossZone, "reason", crossNotEnough)
		return set, true
	case local > 0:
		q.count(MetricCrossZoneDenied)
		return keep(set, inZone), true
	case p.OnEmpty == OnEmptyCross, p.OnEmpty == OnEmptyCap && q.mayCross():
		q.countBy(MetricCrossZone, "reason", crossLocalEmpty)
		return set, true
	}
	q.count(MetricCrossZoneDenied)
	q.fail(CodeZoneCap, ReasonCrossZoneNotAllowed)
	return nil, false
}

// mayCross reports whether one more request may leave the caller's zone.
func (q *query) mayCross() bool {
	cross, total := max(q.req.Cross, 0), max(q.req.Total, 0)
	return (float64(cross)+1)/(float64(total)+1) <= q.r.p.MaxCross
}

// weigh gives each candidate its share.
func (q *query) weigh(set []Candidate) {
	sum := 0.0
	for i := range set {
		in := set[i].Instance
		set[i].Weight = float64(in.Weight) * q.warmth(in)
		sum += set[i].Weight
	}
	if sum == 0 {
		q.warnAlso(warnAllWeightsZero)
	}
	normalise(set)
}

// warnAlso adds a warning to those that the catalog may share.
func (q *query) warnAlso(text string) {
	if q.d.Warnings != nil {
		q.d.warnings = append(q.d.warnings, q.d.Warnings...)
		q.d.Warnings = nil
	}
	q.warn(text)
}

// warmth is the part of its weight that an instance has after its uptime.
func (q *query) warmth(in *Instance) float64 {
	w := q.r.p.Warmup
	if w == 0 || in.FirstSeen.IsZero() {
		return 1
	}
	f := float64(min(max(q.req.Now.Sub(in.FirstSeen), time.Duration(0)), w)) / float64(w)
	if q.r.p.Curve == CurveQuadratic {
		f *= f
	}
	return f
}

// normalise turns weights into shares; without any weight they are equal.
func normalise(set []Candidate) {
	sum := 0.0
	for i := range set {
		sum += set[i].Weight
	}
	for i := range set {
		if sum > 0 {
			set[i].Weight /= sum
		} else {
			set[i].Weight = 1 / float64(len(set))
		}
	}
}

// keep filters a set in its own memory.
func keep(set []Candidate, yes func(*Instance) bool) []Candidate {
	out := set[:0]
	for _, c := range set {
		if yes(c.Instance) {
			out = append(out, c)
		}
	}
	return out
}

func has(set []Candidate, yes func(*Instance) bool) bool {
	for _, c := range set {
		if yes(c.Instance) {
			return true
		}
	}
	return false
}

func anyOther(set []Candidate, id string) bool {
	return has(set, func(in *Instance) bool { return in.ID != id })
}
