package chain

import (
	"cmp"
	"fmt"
	"slices"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Session is the name of who has sent the request: the proxy of a developer's session.
const Session = "session"

// Gateway is the name of an entry in a chain.
const Gateway = "gateway"

// Verdict is what a trace is found to be.
type Verdict string

// The verdicts, from the best to the worst.
const (
	Complete Verdict = "complete"
	Unknown  Verdict = "unknown" // no break is seen, but not everything was
	Broken   Verdict = "broken"
	NoData   Verdict = "no_data"
)

// Seen is what one router, or the session itself, says of a trace.
type Seen struct {
	Session bool
	Hops    Hops
}

// Trace is the judged chain of one request.
type Trace struct {
	ID      string  `json:"trace_id"`
	Verdict Verdict `json:"verdict"`
	Links   []Link  `json:"links"` // in depth-first order
	Break   *Break  `json:"break,omitempty"`
	// Unseen are services that no router that was asked stands before: what they
	// called nobody knows.
	Unseen  []string `json:"unseen"`
	Missing []string `json:"missing"` // what was expected, service@lane, and is not there
}

// State is how the tag was found at a link.
type State string

// The states of a link.
const (
	Equal     State = "equal"
	Missed    State = "missing"
	Different State = "different"
	Unsure    State = "unknown"
	Outside   State = "outside" // to a host that is no service: it gets no tag
)

// Link is one call, from a service to another.
type Link struct {
	Depth    int       `json:"depth"`
	From     string    `json:"from"` // empty: nobody has seen who called
	To       string    `json:"to"`
	State    State     `json:"state"`
	Lane     lane.Name `json:"lane"` // with which it went on
	Decision lane.Kind `json:"decision"`
	Instance string    `json:"instance"`
	Served   string    `json:"served"` // the lane of who served it, or baseline
	Why      string    `json:"why,omitempty"`
}

// Break is the first place, in depth-first order, where the tag is lost.
type Break struct {
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
}

func (b *Break) String() string {
	if b.From == "" {
		return fmt.Sprintf("BREAK at %s: %s", b.To, b.Why)
	}
	return fmt.Sprintf("BREAK between %s and %s: %s", b.From, b.To, b.Why)
}

// Wanted is a service, and the lane, or baseline, of the instance that has to serve it.
type Wanted struct{ Service, Lane string }

func (w Wanted) String() string { return w.Service + "@" + w.Lane }

// Rules are what a trace is judged by.
type Rules struct {
	Lane   lane.Name // empty: of a trace that has none
	Expect []Wanted
	Ends   []string // services that need no router: they call nobody
}

// node is a hop that is to be placed.
type node struct {
	Hop
	router  int
	session bool
	by      string // who called, of a call
	placed  bool
}

type judge struct {
	Rules
	nodes []*node
	out   Trace
}

// Judge makes a trace's chain of what was seen of it.
func Judge(r Rules, id string, seen []Seen) Trace {
	j := judge{Rules: r, out: Trace{ID: id, Links: []Link{}, Unseen: []string{}, Missing: []string{}}}
	data := false
	for i, s := range seen {
		for _, h := range s.Hops.Hops {
			n := &node{Hop: h, router: i, session: s.Session, by: s.Hops.Service}
			if n.session {
				n.by = Session
			}
			data = data || !n.session || !n.call()
			j.nodes = append(j.nodes, n)
		}
	}
	if !data {
		j.out.Verdict, j.out.Links = NoData, []Link{}
		return j.out
	}
	slices.SortStableFunc(j.nodes, func(a, b *node) int { return a.Start.Compare(b.Start) })
	// A call within a request that came in at the same router is placed below it.
	for _, root := range []func(*node) bool{
		func(n *node) bool { return n.session && n.call() && !j.within(n) },
		func(n *node) bool { return n.Front == traffic.FrontGateway },
		func(n *node) bool { return !n.call() },
		func(n *node) bool { return true },
	} {
		for _, n := range j.nodes {
			if !n.placed && root(n) {
				j.place(n, 0, true)
			}
		}
	}
	j.out.Missing = j.missing()
	switch {
	case j.out.Break != nil:
		j.out.Verdict = Broken
	case len(j.out.Unseen) > 0 || slices.ContainsFunc(j.out.Links, func(l Link) bool { return l.State == Unsure }),
		!slices.ContainsFunc(j.out.Links, func(l Link) bool { return l.State == Equal }): // nobody had to have the tag
		j.out.Verdict = Unknown
	default:
		j.out.Verdict = Complete
	}
	return j.out
}

// within says whether a call was made while its router worked on a request of the trace.
func (j *judge) within(n *node) bool {
	return slices.ContainsFunc(j.nodes, func(o *node) bool { return o.router == n.router && !o.call() && n.during(&o.Hop) })
}

// place puts a hop, and all that follows from it, into the chain. ok says that up to
// here the tag was there.
func (j *judge) place(n *node, depth int, ok bool) {
	n.placed = true
	switch {
	case n.Front == traffic.FrontGateway:
		j.entry(n, depth, ok)
	case n.call():
		j.call(n, depth, ok)
	default:
		j.orphan(n, depth)
	}
}

// call is a call of a service, or of the session, and what came of it.
func (j *judge) call(n *node, depth int, ok bool) {
	l := n.link(depth, n.by, n.Service)
	if n.Service == "" {
		l.To, l.State = "another host", Outside
		j.add(l)
		// A gateway is no service of the registry.
		for _, g := range j.nodes {
			if n.session && !g.placed && g.Front == traffic.FrontGateway {
				j.place(g, depth+1, ok)
				return
			}
		}
		return
	}
	j.follow(n, &l, ok)
}

// follow judges a call by what its caller sent and by what came to the service.
func (j *judge) follow(n *node, l *Link, ok bool) {
	at := len(j.out.Links)
	to := j.arrival(n)
	l.State = j.state(string(n.Lane))
	switch {
	case l.State != Equal && !ok:
		l.Why = "lost before"
	case l.State != Equal && n.Strayed && n.Others > 0:
		l.State, l.Why = Unsure, fmt.Sprintf("made without the trace; it may be of one of %d other requests in %s", n.Others, l.From)
	case l.State != Equal && n.Strayed:
		l.Why = fmt.Sprintf("%s; the trace header was not propagated by %s", got(l.To, string(n.Lane)), l.From)
	case l.State != Equal:
		l.Why = fmt.Sprintf("%s; the trace was there, but %s did not know its tag", got(l.To, string(n.Lane)), sidecarOf(l.From))
	case n.Code != "":
		l.State, l.Why = Unsure, "it went nowhere: "+string(n.Code)
	case to != nil && j.state(to.Tag) != Equal:
		l.State = j.state(to.Tag)
		l.Why = fmt.Sprintf("%s, though it was sent with it: it was taken off on the way", got(l.To, to.Tag))
	case n.Strayed:
		l.Why = "the tag was passed on, the trace was not: what follows is not seen"
	}
	broken := l.State == Missed || l.State == Different
	if ok && broken {
		j.lost(l.From, l.To, l.Why)
	}
	if to == nil && l.State == Equal && !slices.Contains(j.Ends, l.To) {
		if l.Why == "" {
			l.Why = "no sidecar of " + l.To + " has seen it: what it calls is unknown"
		}
		if !slices.Contains(j.out.Unseen, l.To) {
			j.out.Unseen = append(j.out.Unseen, l.To)
		}
	}
	j.out.Links = slices.Insert(j.out.Links, at, *l)
	if to != nil {
		to.placed = true
		j.below(to, l.Depth+1, ok && !broken)
	}
}

// sidecarOf is who has to know a trace's tag for a service.
func sidecarOf(service string) string {
	if service == Gateway || service == Session {
		return "the " + service
	}
	return "the sidecar of " + service
}

// entry is a request at a gateway, which is a call to the service behind it.
func (j *judge) entry(n *node, depth int, ok bool) {
	state := j.state(string(n.Lane))
	if state != Equal {
		l := n.link(depth, Gateway, n.Service)
		l.State = state
		l.Why = "no rule gave it the lane"
		if state == Different {
			l.Why = fmt.Sprintf("it was given lane %s", n.Lane)
		}
		if ok {
			j.lost("", Gateway, l.Why)
		}
		j.add(l)
		if to := j.arrival(n); to != nil {
			to.placed = true
			j.below(to, depth+1, false)
		}
		return
	}
	l := n.link(depth, Gateway, n.Service)
	j.follow(n, &l, ok)
}

// orphan is a request of which nobody has seen the call.
func (j *judge) orphan(n *node, depth int) {
	l := n.link(depth, "", n.Service)
	l.State = j.state(n.Tag)
	ok := l.State == Equal
	if !ok {
		l.From = j.before(n)
		l.Why = fmt.Sprintf("%s; the call did not go through the proxy of %s", got(n.Service, n.Tag), cmp.Or(l.From, "its caller"))
		j.lost(l.From, n.Service, l.Why)
	}
	j.add(l)
	j.below(n, depth+1, ok)
}

// before is the last service that the trace came to before it came there: most likely
// its caller, for routers' clocks may differ.
func (j *judge) before(n *node) string {
	last := ""
	for _, o := range j.nodes {
		if o == n {
			break
		}
		if !o.call() && o.Front != traffic.FrontGateway && o.router != n.router {
			last = o.Service
		}
	}
	return last
}

// below places the calls that a service made for a request.
func (j *judge) below(came *node, depth int, ok bool) {
	for _, n := range j.nodes {
		if !n.placed && n.router == came.router && n.call() && n.during(&came.Hop) {
			if n.session { // a session stands before processes of its own
				n.by = came.Service
			}
			j.place(n, depth, ok)
		}
	}
}

// arrival is the request at the service of a call that came of that call.
func (j *judge) arrival(n *node) *node {
	for _, o := range j.nodes {
		if !o.placed && !o.call() && o.Front != traffic.FrontGateway && o.Service == n.Service && !n.Strayed {
			return o
		}
	}
	return nil
}

func (j *judge) state(tag string) State {
	switch tag {
	case string(j.Lane):
		return Equal
	case lane.BaselineTag:
		if j.Lane == "" { // the entry has said it
			return Equal
		}
		return Missed
	case "":
		return Missed
	}
	return Different
}

// got says what came instead of the lane's tag.
func got(to, tag string) string {
	if tag == "" {
		return to + " got no tag"
	}
	return fmt.Sprintf("%s got the tag %q", to, tag)
}

func (j *judge) lost(from, to, why string) {
	if j.out.Break == nil {
		j.out.Break = &Break{From: from, To: to, Why: why}
	}
}

func (j *judge) add(l Link) { j.out.Links = append(j.out.Links, l) }

func (n *node) link(depth int, from, to string) Link {
	served := lane.BaselineTag
	if n.Decision == lane.KindLaneMatch {
		served = string(n.Lane)
	}
	return Link{Depth: depth, From: from, To: to, Lane: n.Lane, Decision: n.Decision, Instance: n.Instance, Served: served}
}

// missing is what was expected and is not there.
func (j *judge) missing() []string {
	out := []string{}
	for _, w := range j.Expect {
		if !slices.ContainsFunc(j.out.Links, func(l Link) bool { return l.To == w.Service && l.Served == w.Lane && l.From != "" }) {
			out = append(out, w.String())
		}
	}
	return out
}
