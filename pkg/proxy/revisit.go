package proxy

import (
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"lane/pkg/traffic"
)

// errUnserved says that there is no server to come back to.
var errUnserved = errors.New("no server has answered the exchange")

// Revisit sends a request of the session's own, by gRPC, to the very server that
// answered an exchange: the same instance, by the same way, as the same user and in
// the same lane. It is no request of the lane's: nothing decides, counts or records
// it. What a guard of this process let in is the guard's to revisit.
func (t *Transport) Revisit(req *http.Request, e *traffic.Exchange) (*http.Response, error) {
	u, err := url.Parse(e.URL)
	if err != nil || e.Addr == "" || e.Code != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errUnserved
	}
	h := t.sameUser(req.Header, e.ReqHeader)
	if e.Service == "" {
		if !t.names.Colored(u.Host) {
			t.carriers.Strip(h)
		}
		if u.Scheme == "http" {
			return t.external.h2c.RoundTrip(to(req, h, "http", u.Host, u.Host))
		}
		return t.opened.plain.RoundTrip(to(req, h, "https", u.Host, u.Host))
	}
	if e.Guard == traffic.GuardBounced {
		h[keyGuard] = []string{guardBounced}
	} else if e.Lane != "" {
		t.carriers.Write(h, string(e.Lane))
	}
	if u.Scheme == "http" {
		return t.services.h2c.RoundTrip(to(req, h, "http", e.Addr, u.Host))
	}
	if at, ours := t.ownGuard(e.Addr, e.Service, e.Lane); ours {
		return t.services.h2c.RoundTrip(to(req, h, "http", at, u.Host))
	}
	return t.secured.to(e.Addr).plain.RoundTrip(to(req, h, "https", net.JoinHostPort(u.Hostname(), "443"), u.Host))
}

// Revisit is Transport's for an exchange that the local process answered.
func (g *Guard) Revisit(req *http.Request, e *traffic.Exchange) (*http.Response, error) {
	u, err := url.Parse(e.URL)
	if err != nil || e.Code != "" {
		return nil, errUnserved
	}
	h := g.t.sameUser(req.Header, e.ReqHeader)
	g.t.carriers.Write(h, string(g.cfg.Lane))
	return g.local.h2c.RoundTrip(to(req, h, "http", g.cfg.Local[0], u.Host))
}

// to is a request to an address, for a host.
func to(req *http.Request, h http.Header, scheme, addr, host string) *http.Request {
	out := req.Clone(req.Context())
	out.Header, out.Host = h, host
	out.URL.Scheme, out.URL.Host = scheme, addr
	return out
}

// sameUser is what an exchange's request said of its user and its lane, and nothing
// of its own message or its trace.
func (t *Transport) sameUser(own http.Header, head traffic.Head) http.Header {
	h := http.Header{}
	for _, f := range head.Raw() {
		if name := http.CanonicalHeaderKey(f.Name); !strings.HasPrefix(name, "Grpc-") && !strings.HasPrefix(name, ":") && !ofMessage[name] {
			h[name] = append(h[name], f.Value)
		}
	}
	stripHop(h, "")
	for _, name := range t.sources.Names() {
		delete(h, http.CanonicalHeaderKey(name))
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // net/http would add its own
	}
	maps.Copy(h, own)
	return h
}

// ofMessage are the fields of a request that belong to its own message.
var ofMessage = map[string]bool{"Content-Type": true, "Content-Length": true, "Content-Encoding": true, "Accept-Encoding": true,
	"Expect": true, "Range": true, "Host": true, keyGuard: true}
