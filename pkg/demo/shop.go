package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
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
	{details, nil, "200 pages, paperback"},
	{productpage, []string{details, reviews}, "The Comedy of Errors"},
	{ratings, nil, "four of five"},
	{reviews, []string{ratings}, "readers liked it"},
}

// baseline is what a service of the baseline says of itself.
const baseline = "baseline"

// passedOn is the one header that a service gives to those that it calls, as a
// service does that has heard of tracing, and never of lanes.
const passedOn = "X-Request-Id"

// page is what a service answers: who it is, and what it got from those that it
// called.
type page struct {
	Service  string `json:"service"`
	By       string `json:"by"`       // baseline, or the lane
	Instance string `json:"instance"` // its ID in the registry
	Says     string `json:"says"`
	Request  string `json:"request"` // x-request-id, as it arrived
	Tag      string `json:"tag"`     // x-lane-tag, as it arrived: the service only shows it
	Calls    []call `json:"calls,omitempty"`
}

// call is one call of a service's, as it went.
type call struct {
	Service  string `json:"service"`
	Status   int    `json:"status"`
	Decision string `json:"decision"` // X-Lane-Decision
	Code     string `json:"code,omitempty"`
	Page     *page  `json:"page,omitempty"`
}

// Chain is who took part in a page, in words: details of the baseline, which
// nobody asks about, are left out.
func (p *page) Chain() string {
	if p == nil {
		return "nobody"
	}
	s, sep := p.Service+"("+p.By+")", " -> "
	for i := range p.Calls {
		switch c := &p.Calls[i]; {
		case c.Service == details && c.Page != nil && c.Page.By == baseline:
			continue
		case c.Page != nil:
			s += sep + c.Page.Chain()
		default:
			s += fmt.Sprintf("%s%s: %d %s", sep, c.Service, c.Status, c.Code)
		}
		sep = ", "
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

// all calls f for every call of the chain.
func (p *page) all(f func(*call)) {
	if p == nil {
		return
	}
	for i := range p.Calls {
		f(&p.Calls[i])
		p.Calls[i].Page.all(f)
	}
}

// service is one HTTP service of the shop, as anybody might have written it: it
// knows nothing of lanes.
type service struct {
	name, by, says string
	instance       string // its ID in the registry
	calls          []string
	client         *http.Client // how it reaches the others
	addr           string       // host:port
	shop           *front       // of productpage alone: what its page says besides

	mu     sync.Mutex
	served map[string]int // requests by the tag that they came with
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.served == nil {
		s.served = map[string]int{}
	}
	s.served[r.Header.Get(lane.HeaderTag)]++
	s.mu.Unlock()
	if s.shop != nil && s.shop.other(w, r) {
		return
	}
	got := page{Service: s.name, By: s.by, Instance: s.instance, Says: s.says,
		Request: r.Header.Get(passedOn), Tag: r.Header.Get(lane.HeaderTag)}
	for _, other := range s.calls {
		got.Calls = append(got.Calls, s.call(r, other))
	}
	if s.shop != nil && wantsHTML(r) {
		s.shop.write(w, r, &got)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(got) // the caller has gone away
}

// by is how many requests came with a tag, and how many without it.
func (s *service) counts(tag string) (with, without int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t, n := range s.served {
		if t == tag {
			with += n
		} else {
			without += n
		}
	}
	return with, without
}

// total is how many requests came at all.
func (s *service) total() int {
	_, n := s.counts("no tag is called that")
	return n
}

// callLimit is longer than any answer inside one machine takes.
const callLimit = 20 * time.Second

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
	if v := r.Header.Values(passedOn); len(v) > 0 {
		req.Header[passedOn] = v
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
	Asked          string // the id that it was asked with; empty: none
	Status         int
	Decision, Code string
	Guard          string // x-lane-guard
	Warning        string // x-lane-warning
	Rev            string // x-lane-rule-rev
	Body           []byte
	Page           *page // nil if a service did not answer
}

// read takes a response in and closes it.
func read(res *http.Response) answer {
	defer func() { _ = res.Body.Close() }()
	h := res.Header
	a := answer{Status: res.StatusCode, Decision: h.Get(lane.HeaderDecision), Code: h.Get(lane.HeaderError),
		Guard: h.Get(lane.HeaderGuard), Warning: h.Get(lane.HeaderWarning), Rev: h.Get(lane.HeaderRuleRev)}
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	a.Body = body
	if err != nil || res.StatusCode != http.StatusOK {
		return a
	}
	var p page
	if json.Unmarshal(body, &p) == nil && p.Service != "" {
		a.Page = &p
	}
	return a
}

// kind is the first word of a decision, and field one of its fields.
func kind(decision string) string {
	k, _, _ := strings.Cut(decision, ";")
	return k
}

func field(decision, name string) string {
	for f := range strings.SplitSeq(decision, "; ") {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v
		}
	}
	return ""
}
