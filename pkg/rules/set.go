package rules

import (
	"net/netip"
	"slices"
	"time"

	"lane/pkg/lane"
)

// Source is where a request's color comes from. They are asked in this order,
// whatever the priorities of the rules.
type Source uint8

// The sources.
const (
	SourceNone       Source = iota // nobody colored it
	SourceHeader                   // the request's own tag, from a trusted sender
	SourceWhitelist                // its user is on a list
	SourceRule                     // a condition on a user, a tenant or anything else of the request
	SourcePercentage               // its user is in a share of all
)

func (s Source) String() string {
	return [...]string{"none", "header", "whitelist", "rule", "percentage"}[s]
}

// Revision says which edition of the rules a Set is, and whose.
type Revision struct {
	Rev    string
	Author string
	Time   time.Time
	Note   string
}

// Info is what there is to say about one rule.
type Info struct {
	ID       string
	Priority int
	Source   Source
	Entries  []string // the services at which requests enter
	Lane     lane.Name
	Percent  float64 // of SourcePercentage, 0 to 100
	Key      string  // what a share or a whitelist goes by, as in "header x-user-id"
	Route    string  // of SourceWhitelist
	Match    string  // the condition in words; empty without one
	Line     int     // in the document
}

// Set is a document's rules, compiled. It never changes, so that a request that
// has loaded one is decided by it from beginning to end. The nil Set colors
// nothing and trusts nobody.
type Set struct {
	rev      Revision
	header   trust // whose tag counts
	identity trust // whose identity headers count
	reject   bool  // an invalid tag is refused, not dropped
	canary   string
	guarded  []string // identity headers
	// strip are the headers that are taken off: of a sender whose identity
	// headers count, and of another.
	strip struct{ trusted, other []string }

	rules  []*rule // by source, then priority
	tables map[string]*table
	lanes  map[lane.Name]bool // that a rule gives
}

// rule is one compiled rule.
type rule struct {
	id       string
	priority int
	entries  []string
	lane     lane.Name
	source   Source
	cond     *cond // nil: none
	key      place
	keyed    bool
	share    int // of 10,000
	route    string
	line     int
}

// Revision is the document's own account of itself.
func (s *Set) Revision() Revision {
	if s == nil {
		return Revision{}
	}
	return s.rev
}

// WithRevision is the same rules under another revision, for a store that keeps
// it beside the document.
func (s *Set) WithRevision(r Revision) *Set {
	c := Set{}
	if s != nil {
		c = *s
	}
	c.rev = r
	return &c
}

// Rules are the rules in the order in which they are asked.
func (s *Set) Rules() []Info {
	if s == nil {
		return nil
	}
	out := make([]Info, len(s.rules))
	for i, r := range s.rules {
		out[i] = r.info()
	}
	return out
}

func (r *rule) info() Info {
	out := Info{ID: r.id, Priority: r.priority, Source: r.source, Entries: slices.Clone(r.entries), Lane: r.lane,
		Route: r.route, Line: r.line}
	if r.source == SourcePercentage {
		out.Percent = float64(r.share) / 100
	}
	if r.keyed {
		out.Key = r.key.String()
	}
	if r.cond != nil {
		out.Match = r.cond.String()
	}
	return out
}

// at reports whether the rule acts at an entry.
func (r *rule) at(entry string) bool { return slices.Contains(r.entries, entry) }

// HasLane reports whether a rule gives the lane.
func (s *Set) HasLane(l lane.Name) bool { return s != nil && s.lanes[l] }

// Entries are the services for which there are rules, sorted.
func (s *Set) Entries() []string {
	if s == nil {
		return nil
	}
	var out []string
	for name := range s.tables {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// trust says of which senders something is believed.
type trust struct {
	all  bool
	nets []netip.Prefix
}

func (t *trust) holds(r *Request) bool {
	if r.Trusted || t.all {
		return true
	}
	if len(t.nets) == 0 || !r.Remote.IsValid() {
		return false
	}
	from := r.Remote.Unmap().WithZone("")
	for _, n := range t.nets {
		if n.Contains(from) {
			return true
		}
	}
	return false
}

func (t *trust) nobody() bool { return !t.all && len(t.nets) == 0 }
