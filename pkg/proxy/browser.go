package proxy

import (
	"net/http"
	"slices"
	"strings"

	"lane/pkg/http1"
	"lane/pkg/lane"
)

// Browsers is what answers of services get for callers that are browsers, which know
// nothing of lanes. The zero value changes nothing.
type Browsers struct {
	// AllowTag has the answer to a CORS preflight allow the tag's header, to a page that
	// the service lets in.
	AllowTag bool
	// NoStore are the answers that no cache is to keep: one kept them by their URL, which
	// is the same in every lane.
	NoStore NoStore
}

// NoStore says of which answers no copy is kept.
type NoStore string

// Of which. The zero value is none.
const (
	NoStoreOff  NoStore = "off"
	NoStoreLane NoStore = "lane" // of requests that have a lane
	NoStoreAll  NoStore = "all"
)

const (
	corsAsks   = "Access-Control-Request-Headers"
	corsAllows = "Access-Control-Allow-Headers"
	corsOrigin = "Access-Control-Allow-Origin"
	noStore    = "no-store"
)

// storing are the fields by which a response says how it may be kept, in lower case;
// those of caches at the environment's edge come before Cache-Control there. Beside them
// are those for one kind of cache (RFC 9213), which end in ofCDN.
var storing = []string{"cache-control", "expires", "pragma", "cdn-cache-control", "surrogate-control", "edge-control", "x-accel-expires"}

const ofCDN = "-cdn-cache-control"

// preflight is a browser's question whether a page may send the tag.
type preflight struct {
	tag  string // which of the tag's headers it asks for; empty: no such question
	rest string // what else it asks for
}

// tagHeaders are the headers in which a page could send the tag, in lower case. Baggage
// is everybody's.
func tagHeaders(c *lane.Carriers) (out []string) {
	for _, n := range append(c.Names(), lane.HeaderTag) {
		if n = strings.ToLower(n); n != "baggage" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// readPreflight notes the question. Servers that do not know the tag refuse all of a
// question that names it, so that it is answered here, and the rest there.
func (c *call) readPreflight() {
	if c.t.tagHeaders == nil || c.ex.Method != http.MethodOptions || c.head.Get("Origin") == "" || c.head.Get("Access-Control-Request-Method") == "" {
		return
	}
	var tag, rest []string
	for name := range strings.SplitSeq(c.head.Get(corsAsks), ",") {
		switch name = strings.Trim(name, " \t"); {
		case slices.ContainsFunc(c.t.tagHeaders, func(h string) bool { return strings.EqualFold(h, name) }):
			tag = append(tag, strings.ToLower(name))
		case name != "":
			rest = append(rest, name)
		}
	}
	c.pre = preflight{strings.Join(tag, ", "), strings.Join(rest, ", ")}
}

// asks reports whether the request goes to a service with a question that is answered
// here.
func (c *call) asks() bool { return c.pre.tag != "" && c.ex.Service != "" }

// passOn leaves the service's part of the question in a request's map.
func (p *preflight) passOn(h http.Header) {
	if delete(h, corsAsks); p.rest != "" {
		h[corsAsks] = []string{p.rest}
	}
}

// fresh reports whether no copy of the answer is to be kept.
func (c *call) fresh() bool {
	return c.ex.Service != "" && (c.t.browsers.NoStore == NoStoreAll || c.t.browsers.NoStore == NoStoreLane && c.ex.Lane != "")
}

// forBrowser changes a service's answer in its map.
func (c *call) forBrowser(resp *http.Response) {
	h := resp.Header
	if c.asks() && len(h[corsOrigin]) > 0 {
		h[corsAllows] = append(h[corsAllows], c.pre.tag)
	}
	if c.fresh() && resp.StatusCode != http.StatusSwitchingProtocols {
		for name := range h {
			if stores(&http1.Field{Name: name}) {
				delete(h, name)
			}
		}
		h["Cache-Control"] = []string{noStore}
	}
}

// stores reports whether a field says how a response may be kept.
func stores(f *http1.Field) bool {
	if at := len(f.Name) - len(ofCDN); at > 0 && strings.EqualFold(f.Name[at:], ofCDN) {
		return true
	}
	return slices.ContainsFunc(storing, func(name string) bool { return f.Is(name) })
}
