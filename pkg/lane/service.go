package lane

import (
	"cmp"
	"slices"
)

// ServiceOption changes how NewService reads metadata.
type ServiceOption func(*meta)

// WithMetaKeys sets which metadata keys name the lane, first non-empty wins.
// Only "lane" and "tag" are known; others are never set. The default is both,
// in this order.
func WithMetaKeys(keys ...string) ServiceOption {
	return func(m *meta) { m.keys = slices.Clone(keys) }
}

// WithBaselineNames adds names that mean the baseline in an instance's metadata.
func WithBaselineNames(names ...string) ServiceOption {
	return func(m *meta) { m.baseline = slices.Clone(names) }
}

// NewService makes the catalog's picture of a service that the registry has
// answered for. It keeps the instances and groups them once, so that a decision
// does not look at each of them; nothing of them may be changed afterwards.
func NewService(name string, instances []Instance, declared []Name, opts ...ServiceOption) *Service {
	m := meta{keys: []string{"lane", "tag"}}
	for _, o := range opts {
		o(&m)
	}
	return &Service{Name: name, Instances: instances, Declared: declared, HasSnapshot: true, index: newIndex(instances, m)}
}

// indexed is the service's index, nil without a service. A literal Service has
// none: it is decided rightly, but every decision pays for the grouping.
func (s *Service) indexed() *index {
	if s == nil {
		return nil
	}
	if s.index.made {
		return &s.index
	}
	x := newIndex(s.Instances, meta{keys: []string{"lane", "tag"}})
	return &x
}

// meta says how metadata is read.
type meta struct {
	keys     []string
	baseline []string
}

// place is where an instance belongs: a lane, the baseline ("") or nowhere.
type place struct {
	in         *Instance
	lane       Name
	quarantine string // why it is in no set; empty if it is in one
	conflict   bool   // its metadata keys disagree
}

// place reads the lane of an instance from its metadata.
func (m meta) place(in *Instance) place {
	p := place{in: in}
	var taken Tag
	for _, key := range m.keys {
		var raw string
		switch key {
		case "lane":
			raw = in.MetaLane
		case "tag":
			raw = in.MetaTag
		}
		t := ParseTag(raw, m.baseline...)
		switch {
		case t.Kind == TagNone:
		case taken.Kind == TagNone:
			taken = t
		case !taken.same(t):
			p.conflict = true
		}
	}
	switch {
	case taken.Kind == TagInvalid:
		p.quarantine = "malformed lane"
	case taken.Kind == TagLane:
		p.lane = taken.Lane
	case in.Local && taken.Kind == TagNone:
		p.quarantine = "local without a lane"
	case in.Local:
		p.quarantine = "local under the baseline's name"
	}
	return p
}

// index is a service's instances grouped for decisions, made once. Each part is
// the instances of one env and tenant; all is every instance, for callers that
// have neither.
type index struct {
	made   bool
	places []place // by ID
	parts  []part
	all    part
	ids    map[string]struct{}
	addrs  map[string]struct{}
	// notes are the warnings that every decision over the service carries.
	notes []string
}

// part is the instances with the same hard properties.
type part struct {
	env, tenant string
	count       int            // with the quarantined ones
	zones       map[string]int // how many in each zone, with the quarantined ones
	lanes       map[Name]*group
}

// group is one lane's instances, or the baseline's, in a part.
type group struct {
	members  []*Instance // by ID
	live     int         // members that do not drain
	zoned    int         // members that have a zone
	named    int         // members that have a group (blue, green)
	dated    int         // members whose uptime is known
	versions int         // how many different ones the members have
	healthy  []Candidate // passing or warning, weighed without warm-up
	passing  []Candidate // passing only, weighed without warm-up
}

func newIndex(instances []Instance, m meta) index {
	x := index{made: true, places: make([]place, len(instances)),
		ids: make(map[string]struct{}, len(instances)), addrs: make(map[string]struct{}, len(instances)),
		all: part{zones: map[string]int{}, lanes: map[Name]*group{}}}
	for i := range instances {
		x.places[i] = m.place(&instances[i])
	}
	slices.SortStableFunc(x.places, func(a, b place) int { return byID(a.in, b.in) })
	at := map[[2]string]int{}
	for _, p := range x.places {
		x.ids[p.in.ID], x.addrs[p.in.Addr] = struct{}{}, struct{}{}
		if p.quarantine != "" {
			x.notes = append(x.notes, "quarantined:"+p.in.ID)
		}
		if p.conflict {
			x.notes = append(x.notes, "meta_conflict:"+p.in.ID)
		}
		key := [2]string{p.in.Env, p.in.Tenant}
		n, ok := at[key]
		if !ok {
			n = len(x.parts)
			at[key] = n
			x.parts = append(x.parts, part{env: p.in.Env, tenant: p.in.Tenant,
				zones: map[string]int{}, lanes: map[Name]*group{}})
		}
		x.parts[n].add(p)
		x.all.add(p)
	}
	for i := range x.parts {
		x.parts[i].weigh()
	}
	x.all.weigh()
	return x
}

// byID orders instances; IDs are unique on one node only, so the address decides
// between equal ones.
func byID(a, b *Instance) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Addr, b.Addr))
}

func (p *part) add(pl place) {
	p.count++
	p.zones[pl.in.Zone]++
	if pl.quarantine != "" {
		return
	}
	g := p.lanes[pl.lane]
	if g == nil {
		g = &group{}
		p.lanes[pl.lane] = g
	}
	if !slices.ContainsFunc(g.members, func(in *Instance) bool { return in.Version == pl.in.Version }) {
		g.versions++
	}
	g.members = append(g.members, pl.in)
	if !pl.in.drains() {
		g.live++
	}
	if pl.in.Zone != "" {
		g.zoned++
	}
	if pl.in.Group != "" {
		g.named++
	}
	if !pl.in.FirstSeen.IsZero() {
		g.dated++
	}
}

// weigh makes the candidates that most decisions can share.
func (p *part) weigh() {
	for _, g := range p.lanes {
		for _, in := range g.members {
			c := Candidate{Instance: in, Weight: float64(in.Weight)}
			if in.serves(true) {
				g.healthy = append(g.healthy, c)
			}
			if in.serves(false) {
				g.passing = append(g.passing, c)
			}
		}
		normalise(g.healthy)
		normalise(g.passing)
	}
}

// set is the group's healthy instances.
func (g *group) set(allowWarning bool) []Candidate {
	if allowWarning {
		return g.healthy
	}
	return g.passing
}

// drains reports whether the instance is registered but gets no new requests.
func (in *Instance) drains() bool { return in.Draining || in.Weight <= 0 }

// serves reports whether the instance can be given a request.
func (in *Instance) serves(allowWarning bool) bool {
	return !in.drains() && (in.Health == Passing || in.Health == Warning && allowWarning)
}
