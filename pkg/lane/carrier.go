package lane

import (
	"slices"
	"strings"
)

// Carrier is one place of a request that can hold a tag.
type Carrier struct {
	Header string // the header's name; "baggage" where Member is set
	Member string // key of the member, for a header that is a W3C baggage list
	Prefix string // fixed text before the lane's name, as in "group/"
	// ReadOnly carriers are read and never written.
	ReadOnly bool
}

// Carriers are the places where a request's tag is read and written.
type Carriers struct {
	Header  string    // the canonical header
	Aliases []string  // more headers that are read, in this order
	Extra   []Carrier // a preset's, read after the aliases and written too
	Member  string    // the canonical member of the baggage header; empty: none
	// BaselineNames are more names that mean the baseline in a tag.
	BaselineNames []string
}

// DefaultCarriers are the header x-lane-tag and the baggage member lane.
func DefaultCarriers() Carriers { return Carriers{Header: HeaderTag, Member: "lane"} }

// Read takes the tag out of a request: from the canonical header, else the first
// alias that has one, else a preset's carriers, else the baggage member. Keys
// match in any case. Another carrier that names something else is reported in
// Conflict. More than one distinct value in one header is an invalid tag.
func (c *Carriers) Read(h map[string][]string) Tag {
	if len(h) == 0 {
		return Tag{}
	}
	var tag Tag
	c.each(func(k Carrier) {
		if t, found := c.readOne(h, k); found {
			tag.join(t, k.Header)
		}
	})
	return tag
}

// each visits the carriers in the order of reading.
func (c *Carriers) each(visit func(Carrier)) {
	visit(Carrier{Header: c.Header})
	for _, a := range c.Aliases {
		visit(Carrier{Header: a, ReadOnly: true})
	}
	for _, e := range c.Extra {
		visit(e)
	}
	if c.Member != "" {
		visit(Carrier{Header: "baggage", Member: c.Member})
	}
}

// maxDistinct bounds the values of one header that are told apart: two make it
// invalid, and a few more are shown.
const maxDistinct = 4

// readOne reads one carrier; false if the request does not have it.
func (c *Carriers) readOne(h map[string][]string, k Carrier) (Tag, bool) {
	lines := get(h, k.Header)
	if len(lines) == 0 {
		return Tag{}, false
	}
	if k.Member != "" {
		v, ok := BaggageValue(lines, k.Member)
		return c.parse(v, k.Prefix), ok
	}
	if len(lines) == 1 && !strings.Contains(lines[0], ",") {
		return c.parse(lines[0], k.Prefix), true
	}
	// Several lines, or lines that a proxy has joined: one value, repeated, is
	// that value; two are none that we could choose.
	var distinct []string
	for _, line := range lines {
		for v := range strings.SplitSeq(line, ",") {
			v = strings.Trim(v, " \t")
			if v != "" && len(distinct) < maxDistinct && strings.HasPrefix(v, k.Prefix) && !slices.Contains(distinct, v) {
				distinct = append(distinct, v)
			}
		}
	}
	switch len(distinct) {
	case 0:
		return Tag{}, true
	case 1:
		return c.parse(distinct[0], k.Prefix), true
	}
	return Tag{Kind: TagInvalid, Raw: strings.Join(distinct, ", "), Conflict: distinct}, true
}

// InHeader reports whether the canonical header names a lane or the baseline, whatever
// other carriers do.
func (c *Carriers) InHeader(h map[string][]string) bool {
	t, _ := c.readOne(h, Carrier{Header: c.Header})
	return t.Kind != TagNone
}

// parse reads a carrier's value. A value without the carrier's prefix belongs to
// somebody else.
func (c *Carriers) parse(v, prefix string) Tag {
	if prefix != "" {
		rest, ours := strings.CutPrefix(strings.Trim(v, " \t"), prefix)
		if !ours {
			return Tag{}
		}
		v = rest
	}
	return ParseTag(v, c.BaselineNames...)
}

// Write puts the tag, as its raw text, into the canonical header, the preset's
// carriers and the baggage member. An empty tag removes it from every carrier
// that is read. Of each header that it writes it leaves one key, the literal
// lower-case one, and everything else as it is. A baggage header without room,
// and a header that holds somebody else's prefix, are left alone; the warnings
// say so. Writing twice is writing once.
func (c *Carriers) Write(h map[string][]string, tag string) (warnings []string) {
	tag = strings.Trim(tag, " \t")
	if tag == "" {
		c.each(func(k Carrier) {
			if !k.taken(h) {
				drop(h, k)
			}
		})
		return nil
	}
	baseline := ParseTag(tag, c.BaselineNames...).Kind == TagBaseline
	c.each(func(k Carrier) {
		foreign := k.Prefix != "" || (k.Header != c.Header && (k.Header != "baggage" || k.Member != c.Member))
		switch {
		case k.ReadOnly:
		case k.taken(h):
			warnings = append(warnings, "carrier_taken:"+k.Header)
		case foreign && baseline:
			// Other systems know no tag for the baseline: they would look
			// for a lane of that name.
			drop(h, k)
		case k.Member == "":
			set(h, k.Header, []string{k.Prefix + tag})
		default:
			lines, err := MergeBaggage(get(h, k.Header), k.Member, k.Prefix+tag)
			if err != nil {
				warnings = append(warnings, "baggage_full:"+k.Member)
			}
			set(h, k.Header, lines)
		}
	})
	return warnings
}

// Strip removes everything of ours from the head of a request that leaves for an
// external host: the canonical header, aliases, a preset's carriers, the baggage
// member, the cookie, the hop count, the guard's mark and the entries. Foreign baggage and
// other cookies stay.
func (c *Carriers) Strip(h map[string][]string) {
	c.each(func(k Carrier) { drop(h, k) })
	set(h, HeaderTag, nil)
	set(h, HeaderHops, nil)
	set(h, HeaderGuard, nil)
	set(h, HeaderVia, nil)
	stripCookie(h, strings.ToLower(c.Header))
}

// taken reports whether a header with a prefix holds a value of somebody else.
func (k Carrier) taken(h map[string][]string) bool {
	if k.Prefix == "" || k.Member != "" {
		return false
	}
	return slices.ContainsFunc(get(h, k.Header), func(line string) bool {
		return !blank(line) && !strings.HasPrefix(strings.Trim(line, " \t"), k.Prefix)
	})
}

func drop(h map[string][]string, k Carrier) {
	if k.Member == "" {
		set(h, k.Header, nil)
		return
	}
	if lines := get(h, k.Header); len(lines) > 0 {
		set(h, k.Header, RemoveBaggage(lines, k.Member))
	}
}

// get is a header's lines under every spelling of its name.
func get(h map[string][]string, name string) []string {
	var first string
	found := 0
	for k := range h {
		if len(k) == len(name) && strings.EqualFold(k, name) {
			if found++; found == 1 || k < first {
				first = k
			}
		}
	}
	switch found {
	case 0:
		return nil
	case 1:
		return h[first]
	}
	var keys []string
	for k := range h {
		if len(k) == len(name) && strings.EqualFold(k, name) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	var lines []string
	for _, k := range keys {
		lines = append(lines, h[k]...)
	}
	return lines
}

// set leaves exactly the literal lower-case key with lines, or no key at all.
func set(h map[string][]string, name string, lines []string) {
	low := strings.ToLower(name)
	for k := range h {
		if k != low && len(k) == len(name) && strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
	if len(lines) == 0 {
		delete(h, low)
		return
	}
	h[low] = lines
}

// Names are the headers that Read looks at and Write writes.
func (c *Carriers) Names() []string {
	var names []string
	c.each(func(k Carrier) { names = append(names, k.Header) })
	return names
}
