package rules

import (
	"errors"
	"fmt"
	"strings"
)

// Key is where a request says who its user is: a header or a cookie. The zero value
// is none.
type Key struct{ p place }

// ParseKey reads header=NAME or cookie=NAME. It takes what the key of a percentage
// takes: nothing that is chance, or that many users share.
func ParseKey(s string) (Key, error) {
	const instead = "take a header or a cookie that names a user or a tenant"
	part, name, ok := strings.Cut(s, "=")
	part = strings.TrimSpace(part)
	if why := noKeys[strings.ToLower(strings.ReplaceAll(part, "-", "_"))]; why != "" {
		return Key{}, fmt.Errorf("%s %s; %s", part, why, instead)
	}
	if !ok {
		return Key{}, fmt.Errorf("%q: say { header: NAME } or { cookie: NAME }, or in a variable header=NAME or cookie=NAME", s)
	}
	if name = strings.TrimSpace(name); name == "" {
		return Key{}, fmt.Errorf("the %s has no name; say { %s: NAME }", part, part)
	}
	switch part {
	case kindHeader.String():
		lower := strings.ToLower(name)
		if why := checkHeader(lower); why != "" {
			return Key{}, fmt.Errorf("header %q: %s", name, why)
		}
		if why := badKeys[lower]; why != "" {
			return Key{}, fmt.Errorf("header %s %s; %s", lower, why, instead)
		}
		return Key{place{kind: kindHeader, name: lower}}, nil
	case kindCookie.String():
		if !isToken(name) {
			return Key{}, fmt.Errorf("%q is no cookie's name", name)
		}
		if strings.HasPrefix(strings.ToLower(name), "x-lane-") {
			return Key{}, errors.New("cookie " + name + " is lane's own; " + instead)
		}
		return Key{place{kind: kindCookie, name: name}}, nil
	}
	return Key{}, fmt.Errorf("%q is no place of a key; say { header: NAME } or { cookie: NAME }", part)
}

// String is the form that ParseKey reads, "" for none.
func (k Key) String() string {
	if k.p.name == "" {
		return ""
	}
	return k.p.kind.String() + "=" + k.p.name
}

// Header is the header that the key stands in, "" for a cookie and for none.
func (k Key) Header() string {
	if k.p.kind != kindHeader {
		return ""
	}
	return k.p.name
}

// Of is who a request's user is: "" without the key, with an empty one, and, which
// twice says, with two that differ.
func (k Key) Of(h Headers) (user string, twice bool) {
	if k.p.name == "" {
		return "", false
	}
	for c := (cursor{p: k.p}); ; { // no view, which would be on the heap for every request
		var s string
		ok := false
		if k.p.kind == kindHeader {
			s, ok = c.header(h, k.p.name)
		} else {
			s, ok = c.cookie(h)
		}
		if !ok {
			return user, false
		}
		if user, twice = joined(user, s); twice {
			return "", true
		}
	}
}
