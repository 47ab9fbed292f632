package rules

import "strings"

// kind is a part of a request.
type kind uint8

const (
	kindHeader kind = iota
	kindCookie
	kindQuery
	kindPath
	kindHost
)

func (k kind) String() string { return [...]string{"header", "cookie", "query", "path", "host"}[k] }

// named reports whether a request has several of the kind, told apart by name.
func (k kind) named() bool { return k <= kindQuery }

// place is where a value stands in a request.
type place struct {
	kind kind
	name string // of a header in lower case
	// guarded places count only from a sender whose identity is trusted.
	guarded bool
}

func (p place) String() string {
	if p.name == "" {
		return p.kind.String()
	}
	return p.kind.String() + " " + p.name
}

// cursor walks through the values of one place, without memory of its own. It
// does not hold the request, which would put that on the heap.
type cursor struct {
	p    place
	line int    // of a header: the next one
	rest string // of a cookie line, or of the query: what is not read yet
	more bool   // there is a rest
	done bool
}

func (v *view) at(p place) cursor {
	c := cursor{p: p, done: p.guarded && v.strange}
	if p.kind == kindQuery {
		c.rest, c.more = v.query, v.query != ""
	}
	return c
}

// next is the next value, without white space around it.
func (c *cursor) next(v *view) (string, bool) {
	if c.done {
		return "", false
	}
	switch c.p.kind {
	case kindHeader:
		return c.header(v.req.Headers, c.p.name)
	case kindCookie:
		return c.cookie(v.req.Headers)
	case kindQuery:
		return c.parameter()
	case kindPath:
		c.done = true
		return v.path, true
	default:
		c.done = true
		return v.host, true
	}
}

func (c *cursor) header(h Headers, name string) (string, bool) {
	if h == nil {
		return "", false
	}
	value, ok := h.Line(name, c.line)
	c.line++
	return strings.Trim(value, " \t"), ok
}

func (c *cursor) cookie(h Headers) (string, bool) {
	for {
		if !c.more {
			line, ok := c.header(h, "cookie")
			if !ok {
				return "", false
			}
			c.rest, c.more = line, true
		}
		var pair string
		pair, c.rest, c.more = strings.Cut(c.rest, ";")
		name, value, ok := strings.Cut(pair, "=")
		if !ok || strings.Trim(name, " \t") != c.p.name {
			continue
		}
		value = strings.Trim(value, " \t")
		if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' {
			value = value[1 : n-1]
		}
		return value, true
	}
}

func (c *cursor) parameter() (string, bool) {
	for c.more {
		var pair string
		pair, c.rest, c.more = strings.Cut(c.rest, "&")
		name, value, _ := strings.Cut(pair, "=")
		if decode(name, true) == c.p.name {
			return strings.Trim(decode(value, true), " \t"), true
		}
	}
	return "", false
}

// one is the value of a place that has only one: none, an empty one, and two
// that differ are no value that anybody could be known by.
func (v *view) one(p place) (value string, twice bool) {
	for c := v.at(p); ; {
		s, ok := c.next(v)
		if !ok {
			return value, false
		}
		if value, twice = joined(value, s); twice {
			return "", true
		}
	}
}

// joined is the value of a place in which another one stands, too.
func joined(value, s string) (one string, twice bool) {
	switch {
	case s == "":
		return value, false
	case value == "" || s == value:
		return s, false
	}
	return "", true
}
