package tui

import (
	"cmp"
	"slices"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// ends are the session's own ends, by which a call of its own proxy to its own guard is
// known.
type ends struct {
	own       map[string]bool // its services
	instances map[string]bool // as the registry has them
	guards    map[string]bool // their addresses
	here      map[string]bool // hosts from which this machine calls them
	tunnel    bool            // calls come by a relay, from wherever that says
}

func endsOf(s *control.Status) ends {
	e := ends{own: map[string]bool{}, instances: map[string]bool{}, guards: map[string]bool{},
		here: map[string]bool{"local": true}, tunnel: s.Relay != nil}
	for _, v := range s.Services {
		e.own[v.Name] = true
		if v.ID != "" {
			e.instances[v.ID] = true
		}
		if host := hostOf(v.Guard); host != v.Guard {
			e.guards[v.Guard], e.here[host] = true, true
		}
	}
	return e
}

// sent says that a call of our own proxy went to one of our own guards.
func (s *ends) sent(e *traffic.Exchange) bool {
	return e.Front == traffic.FrontForward && e.Kind == lane.KindLaneMatch && e.Service != "" &&
		(s.instances[e.Instance] || s.guards[e.Addr])
}

// let says that a request that a guard let in may be a call of our own proxy.
func (s *ends) let(e *traffic.Exchange) bool {
	return e.Guard == traffic.GuardPassed && (s.tunnel || s.here[traffic.From(e)])
}

// request is what a call and its arrival have in common.
type request struct{ service, method, path, trace string }

func requestOf(e *traffic.Exchange) request {
	return request{e.Service, e.Method, traffic.PathOf(e), e.TraceID}
}

// clockSlack is what two clock readings of one process may differ by, on their way
// through texts.
const clockSlack = time.Millisecond

// twins are the rows, by their Seq, of requests that are there twice: a call that our own
// proxy sent to our own guard, which let it in. The row of the guard is the twin. It has
// the same words and begins while the call is under way; each call has one at most, so
// that calls of others, be it from this machine, stay.
func twins(rows func(func(*traffic.Exchange) bool), s ends, since time.Time) map[uint64]bool {
	type row struct {
		seq      uint64
		from, to time.Time
	}
	var sent []row
	var asked []request
	let := map[request][]row{}
	for e := range rows {
		if e.Start.Before(since) {
			continue
		}
		r := row{e.Seq, e.Start, e.Start.Add(e.Took)}
		switch {
		case s.sent(e):
			sent, asked = append(sent, r), append(asked, requestOf(e))
		case s.let(e):
			k := requestOf(e)
			let[k] = append(let[k], r)
		}
	}
	if len(sent) == 0 || len(let) == 0 {
		return nil
	}
	for _, l := range let {
		slices.SortFunc(l, func(a, b row) int { return a.from.Compare(b.from) })
	}
	// The call that ends first takes the earliest arrival that it can have: so each finds
	// one, if there is a way for all.
	order := make([]int, len(sent))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(sent[a].to.Compare(sent[b].to), cmp.Compare(a, b))
	})
	out := map[uint64]bool{}
	for _, i := range order {
		c, l := sent[i], let[asked[i]]
		at, _ := slices.BinarySearchFunc(l, c.from.Add(-clockSlack), func(r row, from time.Time) int { return r.from.Compare(from) })
		for ; at < len(l) && !l[at].from.After(c.to.Add(clockSlack)); at++ {
			if !out[l[at].seq] {
				out[l[at].seq] = true
				break
			}
		}
	}
	return out
}
