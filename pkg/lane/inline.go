package lane

import (
	"slices"
	"strings"
)

// A browser sets no header on a link, a WebSocket or a preflight. What it can
// send instead is a cookie, a query parameter or a host:
//
//	Cookie: x-lane-tag=dev-alice
//	GET /orders?x-lane-tag=dev-alice
//	Host: dev-alice.order-service.localhost
//
// Cookie and parameter have the canonical header's name in lower case. They are
// read after all headers, and never written.

// ReadRequest takes the tag out of a request: from its headers as Read does, else
// the cookie, else the query of the target, a request target in origin form. The
// first that holds something counts; another one that disagrees is in Conflict.
func (c *Carriers) ReadRequest(h map[string][]string, target string) Tag {
	tag := c.Read(h)
	name := strings.ToLower(c.Header)
	tag.join(c.readCookie(get(h, "cookie"), name), "cookie")
	tag.join(c.readQuery(target, name), "query")
	return tag
}

// join adds what a weaker carrier holds, found at from: it counts if nothing else
// does, and is a conflict if it says something else.
func (t *Tag) join(u Tag, from string) {
	switch {
	case u.Kind == TagNone:
	case t.Kind == TagNone:
		*t = u
		t.From = from
	case t.Kind != TagInvalid && !t.same(u) && !slices.Contains(t.Conflict, u.Value()):
		t.Conflict, t.Places = append(t.Conflict, u.Value()), append(t.Places, from)
	}
}

// Join is the tag with what a weaker carrier, a host's label, holds.
func (c *Carriers) Join(t Tag, label string) Tag {
	t.Conflict, t.Places = slices.Clip(t.Conflict), slices.Clip(t.Places)
	t.join(c.parse(label, ""), "host")
	return t
}

// values collects what the places of one carrier hold: one value, repeated, is
// that value; two are none that we could choose.
type values []string

func (v *values) add(s string) {
	s = strings.Trim(s, " \t")
	if s != "" && len(*v) < maxDistinct && !slices.Contains(*v, s) {
		*v = append(*v, s)
	}
}

func (v values) tag(c *Carriers) Tag {
	switch len(v) {
	case 0:
		return Tag{}
	case 1:
		return c.parse(v[0], "")
	}
	return Tag{Kind: TagInvalid, Raw: strings.Join(v, ", "), Conflict: v}
}

func (c *Carriers) readCookie(lines []string, name string) Tag {
	var found values
	for _, line := range lines {
		if !strings.Contains(line, name) {
			continue
		}
		for pair := range strings.SplitSeq(line, ";") {
			k, v, _ := strings.Cut(pair, "=")
			if strings.Trim(k, " \t") != name {
				continue
			}
			v = strings.Trim(v, " \t")
			if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
				v = v[1 : len(v)-1]
			}
			found.add(v)
		}
	}
	return found.tag(c)
}

// stripCookie removes the cookie of that name, and leaves the others byte for
// byte, under whatever spelling of the header they came.
func stripCookie(h map[string][]string, name string) {
	for key, lines := range h {
		if len(key) != len("cookie") || !strings.EqualFold(key, "cookie") ||
			!slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, name) }) {
			continue
		}
		out := make([]string, 0, len(lines))
		for _, line := range lines {
			if left, removed := cutCookie(line, name); !removed || left != "" {
				out = append(out, left)
			}
		}
		if len(out) == 0 {
			delete(h, key)
			continue
		}
		h[key] = out
	}
}

func cutCookie(line, name string) (left string, removed bool) {
	var kept []string
	for pair := range strings.SplitSeq(line, ";") {
		if k, _, _ := strings.Cut(pair, "="); strings.Trim(k, " \t") == name {
			removed = true
			continue
		}
		if removed && len(kept) == 0 { // the space after a semicolon goes with the cookie before it
			pair = strings.TrimLeft(pair, " \t")
		}
		kept = append(kept, pair)
	}
	if !removed {
		return line, false
	}
	return strings.Join(kept, ";"), true
}

func (c *Carriers) readQuery(target, name string) Tag {
	var found values
	_, query, _ := strings.Cut(target, "?")
	if !mayName(query, name) {
		return Tag{}
	}
	for pair := range strings.SplitSeq(query, "&") {
		if k, v, _ := strings.Cut(pair, "="); Unescape(k) == name {
			found.add(Unescape(v))
		}
	}
	return found.tag(c)
}

// mayName tells cheaply that a query has no parameter of that name: the name is
// not in it, nor anything that could be an encoding of it.
func mayName(query, name string) bool {
	return query != "" && (strings.Contains(query, name) || strings.Contains(query, "%"))
}

// CutQuery removes our parameter from a request target, every time that it is
// there, and leaves all else byte for byte. A question mark with nothing left
// behind it goes too.
func (c *Carriers) CutQuery(target string) string {
	name := strings.ToLower(c.Header)
	path, query, _ := strings.Cut(target, "?")
	if !mayName(query, name) {
		return target
	}
	kept := make([]string, 0, 8)
	removed := false
	for pair := range strings.SplitSeq(query, "&") {
		if k, _, _ := strings.Cut(pair, "="); Unescape(k) == name {
			removed = true
			continue
		}
		kept = append(kept, pair)
	}
	switch {
	case !removed:
		return target
	case len(kept) == 0:
		return path
	}
	return path + "?" + strings.Join(kept, "&")
}

// CutHost reads LABEL.SERVICE.localhost, in lower case and without a port. The
// label is what a tag would be; whether it is a lane's name, and whether there is
// such a service, is not looked at.
func CutHost(host string) (label, service string, ok bool) {
	rest, ok := strings.CutSuffix(host, ".localhost")
	if !ok {
		return "", "", false
	}
	label, service, ok = strings.Cut(rest, ".")
	if !ok || label == "" || service == "" || strings.Contains(service, ".") {
		return "", "", false
	}
	return label, service, true
}
