package rules

import (
	"fmt"

	"lane/pkg/lane"
)

// Listed is what a whitelist has said.
type Listed string

// What a whitelist says of a user.
const (
	ListedYes    Listed = "yes"
	ListedNo     Listed = "no"
	ListedFailed Listed = "failed"    // no answer, which counts as a no
	ListedUnask  Listed = "not asked" // the rule was out before, or nobody knows the list
)

// Asked is what became of one rule.
type Asked struct {
	Info
	Hit bool
	// Why is the first thing that kept it from the request, in a few words; empty
	// for the one that it hit.
	Why string
	// Bucket is the user's, of 10,000, and -1 where there is none: the rule is no
	// percentage, or was out before.
	Bucket int
	Listed Listed // of a whitelist; else empty
}

// Coloring is how a request got its lane.
type Coloring struct {
	Result
	// Readings are what two servers make of an ambiguous path: the rule that gives the
	// lane as the path stands, and with %2F, backslashes and several separators taken
	// for one; "" is none. Both are empty where a segment . or .. is what is ambiguous.
	Readings [2]string
	// Asked are the rules of the entry in the order in which they are asked, up to
	// the one that gave the lane; none where the request's own tag decided.
	Asked []Asked
}

// Explain colors a request as Color does, and says of each rule why it was not that
// one. It is Color at a price: for people, not for requests. A value of the request
// is in none of its words.
func (s *Set) Explain(r *Request, members Members) Coloring {
	once := members.once()
	out := Coloring{Result: s.Color(r, once)}
	if s == nil || out.Refuse || out.Source == SourceHeader || s.tables[r.Entry] == nil {
		return out
	}
	v := newView(r, !s.identity.holds(r))
	if out.Ambiguous && !v.dots {
		out.Readings = s.tables[r.Entry].readings(v, once)
	}
	for _, x := range s.rules { // in the order of the sources, then of the priorities
		if x.at(r.Entry) {
			a := x.asked(&v, once)
			if out.Asked = append(out.Asked, a); a.Hit {
				break
			}
		}
	}
	return out
}

func (t *table) readings(v view, members Members) (rules [2]string) {
	for i, path := range []string{v.path, v.loose} {
		v.path = path
		if hit := t.hit(&v, members, &Result{}); hit != nil {
			rules[i] = hit.id
		}
	}
	return rules
}

// once asks each question once, so that two readings of the rules see one answer.
func (m Members) once() Members {
	if m == nil {
		return nil
	}
	type answer struct {
		on  bool
		err error
	}
	known := map[[2]string]answer{}
	return func(route, id string) (bool, error) {
		a, is := known[[2]string{route, id}]
		if !is {
			a.on, a.err = m(route, id)
			known[[2]string{route, id}] = a
		}
		return a.on, a.err
	}
}

func (r *rule) asked(v *view, members Members) Asked {
	a := Asked{Info: r.info(), Bucket: -1}
	if r.source == SourceWhitelist {
		a.Listed = ListedUnask
	}
	if r.cond != nil {
		if a.Why = r.cond.unmet(v); a.Why != "" {
			return a
		}
	}
	key := ""
	if r.keyed {
		var twice bool
		if key, twice = v.one(r.key); twice {
			a.Why = r.key.String() + ": there are two that differ"
			return a
		} else if key == "" {
			a.Why = r.key.String() + ": " + v.lack(r.key)
			return a
		}
	}
	switch r.source {
	case SourceWhitelist:
		a.Listed, a.Why = r.listed(key, members)
	case SourcePercentage:
		if a.Bucket = lane.Bucket(r.id, key); a.Bucket >= r.share {
			a.Why = fmt.Sprintf("the user's bucket %d is not below %d", a.Bucket, r.share)
		}
	}
	a.Hit = a.Why == ""
	return a
}

func (r *rule) listed(id string, members Members) (Listed, string) {
	if members == nil {
		return ListedUnask, "nobody knows the whitelist " + r.route
	}
	on, err := members(r.route, id)
	switch {
	case err != nil:
		return ListedFailed, "the whitelist " + r.route + " gives no answer"
	case !on:
		return ListedNo, "the user is not on the whitelist " + r.route
	}
	return ListedYes, ""
}

// unmet is the first condition that does not hold, and why; empty if all do.
func (c *cond) unmet(v *view) string {
	switch {
	case c.holds(v):
		return ""
	case c.op == opAll:
		for i := range c.subs {
			if why := c.subs[i].unmet(v); why != "" {
				return why
			}
		}
	case c.op == opAny:
		return "none of: " + c.String()
	}
	return c.leaf.String() + ": " + v.lack(c.place)
}

// lack is why a place has not the value that was looked for, without that value.
func (v *view) lack(p place) string {
	dropped := p.guarded && v.strange
	p.guarded = false
	c := v.at(p)
	switch _, there := c.next(v); {
	case !there:
		return "it is not there"
	case dropped:
		return "it does not count from this sender"
	}
	return "it is another one"
}
