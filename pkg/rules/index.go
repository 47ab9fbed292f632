package rules

import "slices"

// table is the rules of one entry service, made ready for look-up: a request is
// compared only with rules that look for something which it has.
type table struct {
	whitelists []*rule
	rules      []*rule // the others, in order
	groups     []group
}

// group are the rules that look for something in one place.
type group struct {
	place
	exact map[string][]int // by the value that has to be there
	some  []int            // any value may do
}

// need is something without which a rule cannot match. Without exact, it is
// that the place has a value at all.
type need struct {
	place
	value string
	exact bool
}

func newTable(rules []*rule) *table {
	t := &table{}
	at := map[place]int{}
	for _, r := range rules {
		if r.source == SourceWhitelist {
			t.whitelists = append(t.whitelists, r)
			continue
		}
		pos := len(t.rules)
		t.rules = append(t.rules, r)
		for _, n := range r.needs() {
			g, ok := at[n.place]
			if !ok {
				g = len(t.groups)
				at[n.place] = g
				t.groups = append(t.groups, group{place: n.place, exact: map[string][]int{}})
			}
			t.groups[g].add(n, pos)
		}
	}
	return t
}

func (g *group) add(n need, pos int) {
	list := g.some
	if n.exact {
		list = g.exact[n.value]
	}
	if !slices.Contains(list[max(0, len(list)-1):], pos) { // the same value twice in one rule
		list = append(list, pos)
	}
	if n.exact {
		g.exact[n.value] = list
	} else {
		g.some = list
	}
}

// needs are the needs of a rule, one of which at least a matching request meets.
func (r *rule) needs() []need {
	var found []need
	if r.cond != nil {
		found = needsOf(r.cond)
	}
	if r.keyed && !slices.ContainsFunc(found, func(n need) bool { return n.exact }) {
		return []need{{place: r.key}}
	}
	return found
}

func needsOf(c *cond) []need {
	switch c.op {
	case opAll: // whichever is rarest: values before names before what each request has
		var best []need
		for i := range c.subs {
			if n := needsOf(&c.subs[i]); best == nil || cost(n) < cost(best) {
				best = n
			}
		}
		return best
	case opAny:
		var out []need
		for i := range c.subs {
			out = append(out, needsOf(&c.subs[i])...)
		}
		return out
	}
	if len(c.exact) == 0 {
		return []need{{place: c.place}}
	}
	out := make([]need, len(c.exact))
	for i, v := range c.exact {
		out[i] = need{place: c.place, value: v, exact: true}
	}
	return out
}

func cost(needs []need) int {
	sum := 0
	for _, n := range needs {
		switch {
		case n.exact:
			sum++
		case n.kind.named():
			sum += 1000
		default:
			sum += 1000000
		}
	}
	return sum
}

// first is the first rule that matches, or nil.
func (t *table) first(v *view, res *Result) *rule {
	best := len(t.rules)
	for i := range t.groups {
		g := &t.groups[i]
		c := v.at(g.place)
		for n := 0; ; n++ {
			value, ok := c.next(v)
			if !ok {
				break
			}
			if n == 0 {
				best = t.earliest(g.some, best, v, res)
			}
			if list := g.exact[value]; list != nil {
				best = t.earliest(list, best, v, res)
			}
		}
	}
	if best == len(t.rules) {
		return nil
	}
	return t.rules[best]
}

// earliest is the first of the listed rules that matches, if it comes before
// best.
func (t *table) earliest(list []int, best int, v *view, res *Result) int {
	for _, pos := range list {
		if pos >= best {
			break
		}
		if t.rules[pos].matches(v, res) {
			return pos
		}
	}
	return best
}
