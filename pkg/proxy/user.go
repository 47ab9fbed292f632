package proxy

import (
	"net/http"

	"lane/pkg/http1"
	"lane/pkg/rules"
)

// user is who the request's user is, as far as it says so where the settings look.
func (c *call) user() string {
	var id string
	var twice bool
	switch h := c.head.(type) {
	case *http1.Head:
		id, twice = c.t.sticky.Of((*rules.Head)(h))
	case http.Header:
		id, twice = c.t.sticky.Of(rules.Map(h))
	}
	if twice {
		c.ex.Warnings = append(c.ex.Warnings, rules.WarnKeyTwice+"sticky")
	}
	return id
}

// user is the call's, unless its sender may not say who he is: what is taken off such
// a request counts for nothing here, either.
func (e *entry) user(c *call) string {
	if h := c.t.sticky.Header(); h != "" && sameWord(e.color.Strip, h) {
		return ""
	}
	return c.user()
}
