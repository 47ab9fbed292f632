package rules

import (
	"slices"

	"lane/pkg/lane"
)

// Members reports whether an ID is on a route's whitelist. It is asked at most
// once for each whitelist of a request; an error is a no.
type Members func(route, id string) (bool, error)

// Rejected says why a request's own tag does not count.
type Rejected string

// Why a request's own tag does not count; the words are those of the metric.
const (
	RejectedUntrusted Rejected = "untrusted" // its sender may not choose a lane
	RejectedInvalid   Rejected = "invalid"   // it is no lane's name
)

// Warnings of a Result begin with one of these words, and end with the rule's ID.
const (
	WarnWhitelist = "whitelist_failed:"
	WarnKeyTwice  = "key_ambiguous:"
)

// Result says which lane a request belongs to, and why.
type Result struct {
	Tag    lane.Tag // TagNone: no lane, and no wish for the baseline by name
	Source Source
	Rule   string // its ID; empty for SourceHeader and SourceNone
	// Rejected is set where the request's own tag does not count: the caller
	// takes it off.
	Rejected Rejected
	// Trusted is set where the sender may choose a lane: what the request says of
	// itself beside its tag, such as its trace, counts too.
	Trusted bool
	// Refuse is set where an invalid tag is not to be dropped: the request is
	// answered with an error.
	Refuse bool
	// Ambiguous is set where two servers could read the path in two ways that the
	// rules tell apart, or one of whose segments is . or ..: the request has no
	// lane, and is answered with an error.
	Ambiguous bool
	// Strip are the headers, in lower case, that the request may not keep,
	// whether it has them or not: identity headers of somebody who may not set
	// them, and the canary header. To be read only.
	Strip []string
	// Canary is the header that says that the request has a lane; empty:
	// none is wanted, or it has none.
	Canary string
	// Failed are the whitelist look-ups that had an error, which counts as a
	// no, as in Warnings.
	Failed   []error
	Warnings []string
}

// Color decides which lane a request belongs to. It allocates nothing for a
// request that no rule wants. members may be nil if no rule has a whitelist.
func (s *Set) Color(r *Request, members Members) Result {
	if s == nil {
		s = &Set{}
	}
	res := Result{Strip: s.strip.trusted, Trusted: s.header.holds(r)}
	strange := !s.identity.holds(r)
	if strange {
		res.Strip = s.strip.other
	}
	switch r.Tag.Kind {
	case lane.TagNone:
	case lane.TagInvalid: // counts as absent: the next source decides
		res.Rejected = RejectedInvalid
		if s.reject {
			res.Refuse = true
			return res
		}
	default:
		if res.Trusted {
			res.Tag, res.Source = r.Tag, SourceHeader
			return s.emit(res)
		}
		res.Rejected = RejectedUntrusted
	}
	t := s.tables[r.Entry]
	if t == nil {
		return res
	}
	v := newView(r, strange)
	hit := t.hit(&v, members, &res)
	if v.loose != "" && !v.dots {
		v.path = v.loose
		v.dots = hit != t.hit(&v, members, &Result{})
	}
	if v.dots {
		res.Ambiguous = true
		return res
	}
	if hit == nil {
		return res
	}
	res.Tag = lane.Tag{Kind: lane.TagLane, Lane: hit.lane, Raw: string(hit.lane)}
	res.Source, res.Rule = hit.source, hit.id
	return s.emit(res)
}

func (s *Set) emit(res Result) Result {
	if res.Tag.Kind == lane.TagLane {
		res.Canary = s.canary
	}
	return res
}

// hit is the rule that wants the request.
func (t *table) hit(v *view, members Members, res *Result) *rule {
	if r := t.member(v, members, res); r != nil {
		return r
	}
	return t.first(v, res)
}

// member is the first rule on whose whitelist the request's user is.
func (t *table) member(v *view, members Members, res *Result) *rule {
	for _, r := range t.whitelists {
		if r.cond != nil && !r.cond.holds(v) {
			continue
		}
		id := r.user(v, res)
		if id == "" {
			continue
		}
		if members == nil {
			res.warn(WarnWhitelist + r.id)
			continue
		}
		on, err := members(r.route, id)
		if err != nil {
			res.Failed = append(res.Failed, err)
			res.warn(WarnWhitelist + r.id)
			continue
		}
		if on {
			return r
		}
	}
	return nil
}

// matches reports whether a rule that has no whitelist wants the request.
func (r *rule) matches(v *view, res *Result) bool {
	if r.cond != nil && !r.cond.holds(v) {
		return false
	}
	if r.source != SourcePercentage {
		return true
	}
	key := r.user(v, res)
	return key != "" && lane.Bucket(r.id, key) < r.share
}

// user is who the request's user is, or "".
func (r *rule) user(v *view, res *Result) string {
	id, twice := v.one(r.key)
	if twice {
		res.warn(WarnKeyTwice + r.id)
	}
	return id
}

func (res *Result) warn(w string) {
	if !slices.Contains(res.Warnings, w) {
		res.Warnings = append(res.Warnings, w)
	}
}
