package tui

import (
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// pair are a call of ours to orders, ms milliseconds after a minute ago, and its arrival.
func pair(ms int) (call, arrives traffic.Exchange) {
	at := scene.Now().Add(-time.Minute + time.Duration(ms)*time.Millisecond)
	call = traffic.Exchange{Seq: uint64(2*ms + 2), Start: at, Took: 10 * time.Millisecond, Front: traffic.FrontForward, From: "127.0.0.1:5000", Method: "GET", URL: "http://orders/a?b",
		Service: "orders", Kind: lane.KindLaneMatch, Lane: "dev-alice", Status: 200, Instance: "lane:dev-alice:orders:3f9c", Addr: "10.2.0.77:40117", TraceID: "t"}
	arrives = call
	arrives.Seq, arrives.Start, arrives.Took = call.Seq-1, at.Add(time.Millisecond), 8*time.Millisecond
	arrives.Front, arrives.From, arrives.URL = traffic.FrontGuard, "10.2.0.77:5001", "http://10.2.0.77:40117/a?b"
	arrives.Guard, arrives.Instance, arrives.Addr = traffic.GuardPassed, "", "127.0.0.1:8080"
	return call, arrives
}

// One call of ours that ends in our own process is one; a call of somebody else on this
// machine, though much like it, is another one.
func TestGraphCountsOnce(t *testing.T) {
	call, arrives := pair(0)
	far := arrives
	far.Seq, far.From = 100, "10.2.0.9:5000"
	near := arrives
	near.Seq, near.From = 101, "127.0.0.1:5000"
	old := call
	old.Seq, old.Start = 102, scene.Now().Add(-6*time.Minute)
	with := func(e traffic.Exchange, change func(*traffic.Exchange)) traffic.Exchange {
		change(&e)
		return e
	}
	me, local := edge{"me", "orders", "LANE"}, edge{"local", "orders", "LANE"}
	for name, c := range map[string]struct {
		rows []traffic.Exchange
		want map[edge]uint64
	}{
		"a call and its arrival":      {[]traffic.Exchange{old, arrives, call}, map[edge]uint64{me: 1}},
		"the call ends first":         {[]traffic.Exchange{call, arrives}, map[edge]uint64{me: 1}},
		"the arrival alone":           {[]traffic.Exchange{near}, map[edge]uint64{local: 1}},
		"somebody far, beside":        {[]traffic.Exchange{arrives, far, call}, map[edge]uint64{me: 1, {"10.2.0.9", "orders", "LANE"}: 1}},
		"somebody here, at once":      {[]traffic.Exchange{arrives, near, call}, map[edge]uint64{me: 1, local: 1}},
		"somebody here, before":       {[]traffic.Exchange{with(near, func(e *traffic.Exchange) { e.Start, e.TraceID = call.Start.Add(-5*time.Millisecond), "" }), with(call, func(e *traffic.Exchange) { e.TraceID = "" })}, map[edge]uint64{me: 1, local: 1}},
		"somebody here, after":        {[]traffic.Exchange{call, with(near, func(e *traffic.Exchange) { e.Start = call.Start.Add(50 * time.Millisecond) })}, map[edge]uint64{me: 1, local: 1}},
		"another path":                {[]traffic.Exchange{with(near, func(e *traffic.Exchange) { e.URL = "http://orders/a?c" }), call}, map[edge]uint64{me: 1, local: 1}},
		"another method":              {[]traffic.Exchange{with(near, func(e *traffic.Exchange) { e.Method = "PUT" }), call}, map[edge]uint64{me: 1, local: 1}},
		"another trace":               {[]traffic.Exchange{with(near, func(e *traffic.Exchange) { e.TraceID = "u" }), call}, map[edge]uint64{me: 1, local: 1}},
		"sent to somebody who joined": {[]traffic.Exchange{near, with(call, func(e *traffic.Exchange) { e.Instance, e.Addr = "lane:dev-alice:orders:77aa", "10.2.0.88:1" })}, map[edge]uint64{me: 1, local: 1}},
		"a guard known by its address": {[]traffic.Exchange{arrives, with(call, func(e *traffic.Exchange) { e.Instance = "" })},
			map[edge]uint64{me: 1}},
	} {
		for i := range c.rows { // all are listed
			c.rows[i].Seq = uint64(i + 1)
		}
		g := graphOf(c.rows...)
		for k, n := range c.want {
			if f := g.edges[k]; f == nil || f.n != n {
				t.Errorf("%s: %v: %+v, want %d", name, k, f, n)
			}
		}
		if len(g.edges) != len(c.want) {
			t.Errorf("%s: %d edges: %v", name, len(g.edges), g.edges)
		}
	}
}

// Calls of ours at once have an arrival each, in whatever order they end.
func TestTwinsOfCallsAtOnce(t *testing.T) {
	var rows []traffic.Exchange
	for i := range 20 {
		call, arrives := pair(i)
		call.Took, call.TraceID, arrives.TraceID = time.Duration(10+7*i%30)*time.Millisecond, "", "" // of one trace, they would be the service's own
		rows = append(rows, arrives, call)
	}
	if g := graphOf(rows...); g.n != 20 || g.edges[edge{"me", "orders", "LANE"}].n != 20 {
		t.Errorf("%d calls: %v", g.n, g.edges)
	}
}

// By a relay a call of ours comes from wherever the relay has it from; one that came to
// the relay itself is somebody's.
func TestTwinsByARelay(t *testing.T) {
	s := scene.Status()
	s.Relay = &control.RelayStatus{State: control.RelayOK}
	s.Services[0].Guard = ""
	call, arrives := pair(0)
	call.Addr, arrives.From = "10.2.0.5:40001", "203.0.113.9:5000"
	late := arrives
	late.Seq, late.Start = call.Seq+1, arrives.Start.Add(time.Second)
	g := newGraph(each([]traffic.Exchange{arrives, call, late}), scene.Now(), endsOf(&s))
	if g.n != 2 || g.edges[edge{"me", "orders", "LANE"}] == nil || g.edges[edge{"203.0.113.9", "orders", "LANE"}].n != 1 {
		t.Errorf("%d calls: %v", g.n, g.edges)
	}
	// The twin: without a relay it is nobody's call but that caller's.
	s.Relay = nil
	if g := newGraph(each([]traffic.Exchange{arrives, call}), scene.Now(), endsOf(&s)); g.n != 2 {
		t.Errorf("%d calls", g.n)
	}
}

// Where rows came too fast for the list, an arrival without its call is nobody's known:
// it may be ours. What came from elsewhere is still that caller's.
func TestCallerNotListed(t *testing.T) {
	call, arrives := pair(0)
	near := arrives
	near.Seq, near.From, near.Start = call.Seq+1, "127.0.0.1:5000", call.Start.Add(time.Second)
	far := near
	far.Seq, far.From = call.Seq+2, "10.2.0.9:5000"
	local, unknown, him := edge{"local", "orders", "LANE"}, edge{notListed, "orders", "LANE"}, edge{"10.2.0.9", "orders", "LANE"}
	if g := graphOf(arrives, call, near, far); g.edges[local] == nil || g.edges[unknown] != nil || g.edges[him] == nil {
		t.Errorf("all listed: %v", g.edges)
	}
	near.Seq, far.Seq = near.Seq+100, far.Seq+100
	if g := graphOf(arrives, call, near, far); g.edges[local] != nil || g.edges[unknown] == nil || g.edges[him] == nil || g.edges[edge{"me", "orders", "LANE"}] == nil {
		t.Errorf("a hundred not listed: %v", g.edges)
	}
	// The twin: a session that calls nobody of its own has no such rows.
	if g := graphOf(near, far, func() traffic.Exchange { e := near; e.Seq = far.Seq + 100; return e }()); g.edges[local] == nil || g.edges[unknown] != nil {
		t.Errorf("no call of ours: %v", g.edges)
	}
}
