package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
)

// The services of the bookshop.
const (
	productpage = "productpage"
	details     = "details"
	reviews     = "reviews"
	ratings     = "ratings"
)

// shopOrder is the bookshop in the order of its names, and whom each calls.
var shopOrder = [...]struct {
	name  string
	calls []string
	says  string
}{
	{details, nil, "a book of 200 pages"},
	{productpage, []string{details, reviews}, "the bookshop"},
	{ratings, nil, "four of five"},
	{reviews, []string{ratings}, "readers liked it"},
}

// baseline is what a service of the baseline says of itself.
const baseline = "baseline"

// passedOn are the headers that a service gives to those that it calls: the
// trace, and with it the lane. Nothing else makes a lane work across services.
var passedOn = [...]string{lane.HeaderTag, "baggage", "traceparent", "tracestate", "x-request-id"}

// page is what a service answers: who it is, and what it got from those that it
// called.
type page struct {
	Service string `json:"service"`
	By      string `json:"by"` // baseline, or the lane
	Says    string `json:"says"`
	Request string `json:"request"` // x-request-id, as it arrived
	Trace   string `json:"trace"`   // traceparent, as it arrived
	Calls   []call `json:"calls,omitempty"`
}

// call is one call of a service's, as it went.
type call struct {
	Service  string `json:"service"`
	Status   int    `json:"status"`
	Decision string `json:"decision"` // X-Lane-Decision
	Code     string `json:"code,omitempty"`
	Page     *page  `json:"page,omitempty"`
}

// Chain is the calls below a page along reviews, in words.
func (p *page) Chain() string {
	if p == nil {
		return "nobody"
	}
	s := p.Service + "(" + p.By + ")"
	for i := range p.Calls {
		switch c := &p.Calls[i]; {
		case c.Service == details && c.Page != nil && c.Page.By == baseline:
			// Always the same; a sentence about a chain has no room for it.
		case c.Page != nil:
			s += " -> " + c.Page.Chain()
		default:
			s += fmt.Sprintf(" -> %s: %d %s", c.Service, c.Status, c.Code)
		}
	}
	return s
}

// called is the page of a service in the chain, nil if it was not called.
func (p *page) called(service string) *page {
	if p == nil || p.Service == service {
		return p
	}
	for i := range p.Calls {
		if found := p.Calls[i].Page.called(service); found != nil {
			return found
		}
	}
	return nil
}

// all calls f for every page of the chain.
func (p *page) all(f func(*page)) {
	if p == nil {
		return
	}
	f(p)
	for i := range p.Calls {
		p.Calls[i].Page.all(f)
	}
}

// service is one HTTP service of the shop, as anybody might have written it: it
// knows nothing of lanes but to pass headers on.
type service struct {
	name, by, says string
	calls          []string
	client         *http.Client // how it reaches the others
	addr           string       // host:port

	served atomic.Int64
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	got := page{Service: s.name, By: s.by, Says: s.says,
		Request: r.Header.Get("x-request-id"), Trace: r.Header.Get("traceparent")}
	for _, other := range s.calls {
		got.Calls = append(got.Calls, s.call(r, other))
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(got) // the caller has gone away
}

// callLimit is longer than any answer inside one machine takes.
const callLimit = 5 * time.Second

// call asks another service the same thing that r asked this one.
func (s *service) call(r *http.Request, other string) call {
	c := call{Service: other}
	ctx, cancel := context.WithTimeout(r.Context(), callLimit)
	defer cancel()
	_, book, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+other+"/"+other+"/"+book, nil)
	if err != nil {
		c.Code = err.Error()
		return c
	}
	for _, h := range passedOn {
		if v := r.Header.Values(h); len(v) > 0 {
			req.Header[http.CanonicalHeaderKey(h)] = v
		}
	}
	res, err := s.client.Do(req)
	if err != nil {
		c.Code = err.Error()
		return c
	}
	a := read(res)
	c.Status, c.Decision, c.Code, c.Page = a.Status, a.Decision, a.Code, a.Page
	return c
}

// answer is a response, as far as the demo looks at it.
type answer struct {
	Status         int
	Decision, Code string
	Guard          string // x-lane-guard
	Page           *page  // nil if a service did not answer
}

// read takes a response in and closes it.
func read(res *http.Response) answer {
	defer func() { _ = res.Body.Close() }()
	a := answer{Status: res.StatusCode, Decision: res.Header.Get(lane.HeaderDecision),
		Code: res.Header.Get(lane.HeaderError), Guard: res.Header.Get(lane.HeaderGuard)}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		return a
	}
	var p page
	if json.Unmarshal(body, &p) == nil && p.Service != "" {
		a.Page = &p
	}
	return a
}
