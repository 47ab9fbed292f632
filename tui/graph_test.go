package tui

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

func graphOf(rows ...traffic.Exchange) graph {
	s := scene.Status()
	return newGraph(each(rows), scene.Now(), endsOf(&s))
}

func each(rows []traffic.Exchange) func(func(*traffic.Exchange) bool) {
	return func(yield func(*traffic.Exchange) bool) {
		for i := range rows {
			if !yield(&rows[i]) {
				return
			}
		}
	}
}

func TestGraph(t *testing.T) {
	g := graphOf(scene.Hour()...)
	for k, n := range map[edge]uint64{
		{"10.2.0.9", "orders", "LANE"}: 145, {"orders", "ledger", "BASE~fb"}: 145, {"orders", "users", "BASE~fb"}: 101,
		{"orders", "users", "LANE"}: 44, {"10.2.0.44", "orders", "GUARD"}: 37, {"me", "inventory", "BASE"}: 15,
	} {
		if f := g.edges[k]; f == nil || f.n != n {
			t.Errorf("%v: %+v, want %d", k, f, n)
		}
	}
	if len(g.edges) != 6 || g.fallsBack("orders") != "ledger 145 (5 err), users 101" || g.fallsBack("me") != "" || g.out("orders").n != 290 || g.out("ledger").n != 0 {
		t.Errorf("%d edges; orders falls back at %q", len(g.edges), g.fallsBack("orders"))
	}
	if f := g.edges[edge{"orders", "ledger", "BASE~fb"}]; f.failed != 5 || f.errors() != "3.4%" || f.quantile(.5) != "28" || f.quantile(.95) != "36" || f.quantile(1) != "36" {
		t.Errorf("%d failed, %s, %s, %s, %s", f.failed, f.errors(), f.quantile(.5), f.quantile(.95), f.quantile(1))
	}
}

// What lane itself had to answer is an error of neither side; what failed at an
// instance is one of that instance's.
func TestGraphErrorsOfNobody(t *testing.T) {
	at := scene.Now().Add(-time.Minute)
	row := func(code lane.Code, name lane.Name, kind lane.Kind, addr string) traffic.Exchange {
		return traffic.Exchange{Start: at, Front: traffic.FrontForward, Service: "users", Lane: name, Kind: kind, Code: code, Status: 503, Addr: addr}
	}
	rows := []traffic.Exchange{row(lane.CodeTagInvalid, "", lane.KindError, ""), row(lane.CodeNoInstances, "", lane.KindError, ""),
		row(lane.CodeNoInstances, "dev-alice", lane.KindError, "")}
	g := graphOf(rows...)
	if g.nobody != 3 || g.n != 3 || len(g.services) != 0 {
		t.Errorf("%d of nobody, %d calls, %v", g.nobody, g.n, g.services)
	}
	u := newUser(t, 80, 24).status().rows(rows...).keys("g")
	u.wantScreen("ERR", "3 calls with an error of lane's own, served by nobody", "not:LANE AGAINST BASELINE")
	// The twins.
	at503 := []traffic.Exchange{{Start: at, Front: traffic.FrontForward, Service: "users", Kind: lane.KindBaseline, Status: 503, Addr: "10.2.0.1:80", Instance: "users-1"},
		row(lane.CodeNoInstances, "", lane.KindBaseline, "10.2.0.1:80"), row(lane.CodeNoInstances, "dev-alice", lane.KindLaneMatch, "10.2.0.2:80"),
		row(lane.CodeNoInstances, "dev-alice", lane.KindFallback, "10.2.0.1:80")}
	g = graphOf(at503...)
	if s := g.services["users"]; g.nobody != 0 || s == nil || s.base.failed != 3 || s.lane.failed != 1 {
		t.Errorf("%d of nobody, %+v", g.nobody, s)
	}
	mine := row(lane.CodeNoInstances, "dev-alice", lane.KindLaneMatch, "")
	mine.Front = traffic.FrontGuard
	if g := graphOf(mine); g.nobody != 0 || g.in("users").failed != 1 {
		t.Errorf("%d of nobody: the guard was reached", g.nobody)
	}
	newUser(t, 80, 24).status().rows(at503...).keys("g").wantScreen("LANE AGAINST BASELINE", "not:served by nobody")
}

// Services that call each other are drawn, each once.
func TestTreeEnds(t *testing.T) {
	g := graph{edges: map[edge]*figures{{"a", "b", "LANE"}: {n: 1}, {"b", "a", "LANE"}: {n: 1}, {"b", "b", "BASE"}: {n: 1}}}
	roots, below := g.tree()
	n := 0
	for _, r := range roots {
		n += len(below[r])
	}
	if len(roots) == 0 || n != 3 {
		t.Errorf("roots %v, %d edges drawn of 3", roots, n)
	}
}

func TestSparks(t *testing.T) {
	steps := []uint64{0, 1, 2, 3, 4, 5, 6, 7}
	if got := sparks(steps, 8, 7, false); got != " .:-=+*#" {
		t.Errorf("%q", got)
	}
	if got := sparks(steps, 4, 7, true); len([]rune(got)) != 4 {
		t.Errorf("%q", got)
	}
	if got := sparks(make([]uint64, 8), 8, 0, false); got != "        " {
		t.Errorf("nothing is drawn as %q", got)
	}
	if got := sparks([]uint64{9}, 1, 9, false); got != "#" {
		t.Errorf("the most is drawn as %q", got)
	}
}

// TestFallbacks: counted by service, lane and reason; ended by the lane itself, and
// begun anew after that; bounded.
func TestFallbacks(t *testing.T) {
	at := scene.Now()
	fb := func(service string, reason lane.Reason, sec int, status int) traffic.Exchange {
		return traffic.Exchange{Start: at.Add(time.Duration(sec) * time.Second), Service: service, Lane: "l", Kind: lane.KindFallback, Reason: reason, Status: status}
	}
	match := fb("a", lane.ReasonLaneMatch, 10, 200)
	match.Kind = lane.KindLaneMatch
	passed := match
	passed.Guard = traffic.GuardPassed
	var f fallbacks
	f = f.add(nil, []traffic.Exchange{fb("a", lane.ReasonLaneAbsent, 2, 200), fb("a", lane.ReasonLaneAbsent, 1, 503), fb("a", lane.ReasonProportional, 1, 200), fb("b", lane.ReasonLaneAbsent, 1, 200), passed})
	if len(f.all) != 3 || f.all[0].n != 2 || f.all[0].failed != 1 || !f.all[0].since.Equal(at.Add(time.Second)) || !f.all[0].last.Equal(at.Add(2*time.Second)) || !f.all[0].ended.IsZero() {
		t.Fatalf("%+v", f.all)
	}
	f = f.add(nil, []traffic.Exchange{match})
	if f.all[0].ended.IsZero() || !f.all[1].ended.IsZero() || !f.all[2].ended.IsZero() {
		t.Errorf("ended: %v, %v, %v", f.all[0].ended, f.all[1].ended, f.all[2].ended)
	}
	f = f.add(nil, []traffic.Exchange{fb("a", lane.ReasonLaneAbsent, 20, 200)})
	if x := f.all[0]; x.n != 1 || !x.since.Equal(at.Add(20*time.Second)) || !x.ended.IsZero() {
		t.Errorf("%+v", x)
	}
	// What never was a row counts as much.
	last := fb("a", lane.ReasonLaneAbsent, 30, 200)
	f = f.add([]traffic.Tally{{N: 40, Failed: 3, First: at.Add(25 * time.Second), Last: &last}}, nil)
	if x := f.all[0]; x.n != 41 || x.failed != 3 || !x.last.Equal(last.Start) || !x.since.Equal(at.Add(20*time.Second)) || x.why == "" || x.of != nil {
		t.Errorf("%+v", x)
	}
	ended := match
	ended.Start = at.Add(40 * time.Second)
	f = f.add([]traffic.Tally{{N: 9, First: ended.Start, Last: &ended}}, nil)
	if x := f.all[0]; x.ended.IsZero() {
		t.Errorf("%+v", x)
	}
	for i := range 1000 {
		f = f.add(nil, []traffic.Exchange{fb("s"+string(rune('a'+i%26))+string(rune('a'+i/26%26)), lane.ReasonLaneAbsent, 1, 200)})
	}
	if len(f.all) != fallbacksMost || f.more == 0 {
		t.Errorf("%d kept, %d more", len(f.all), f.more)
	}
}

// Calls that came too fast for the list are in the rates, and it is said that they
// are not in the numbers; a call that has lasted for long is not taken for one.
func TestGraphOfAListWithGaps(t *testing.T) {
	rows := scene.Stream(1, 100)
	for i := range rows {
		rows[i].Start = scene.Now().Add(time.Duration(i-100) * 100 * time.Millisecond)
	}
	rows[50].Start = scene.Now().Add(-time.Hour)
	u := newUser(t, 100, 40).status().rows(rows...).keys("g").wantScreen("not:too fast")
	whole := u.screen()
	for i := range rows {
		rows[i].Seq = uint64(10*i + 1) // nine of ten have gone
	}
	u = newUser(t, 100, 40).status().rows(rows...).keys("g")
	u.wantScreen("882 more came too fast for the list. Rates are of all, CALLS of those listed.")
	rate := regexp.MustCompile(`users +> BASE~fb +([0-9.]+) .* ([0-9]+)\n`)
	one, ten := rate.FindStringSubmatch(whole), rate.FindStringSubmatch(u.screen())
	if one == nil || ten == nil || one[1] != "1.4" || ten[1] != "14" || one[2] != ten[2] {
		t.Errorf("%q became %q:\n%s\n%s", one, ten, whole, u.screen())
	}
}

// The graph goes back five minutes where the list does, and says how far it does not.
func TestGraphGoesBack(t *testing.T) {
	age := func(n int, d time.Duration) []traffic.Exchange { // the last one now
		rows := calls(n)
		for i := range rows {
			rows[i].Start = scene.Now().Add(-time.Duration(n-1-i) * d)
		}
		return rows
	}
	gone := func(rows []traffic.Exchange) []traffic.Exchange { // others came before them
		for i := range rows {
			rows[i].Seq += 100
		}
		return rows
	}
	long := gone(age(61, time.Second)) // the first one has lasted for an hour
	long[0].Start, long[0].Took = long[1].Start.Add(-time.Hour), time.Hour
	for name, c := range map[string]struct {
		rows []traffic.Exchange
		want string
	}{
		"a young session":         {age(11, time.Second), "in the last 10s"},
		"nearly all":              {age(291, time.Second), "in the last 4m50s"},
		"one before that time":    {age(400, time.Second), "in the last 5m"},
		"others before the list":  {gone(age(11, time.Second)), "in the last 10s (the newest 11 rows)"},
		"all of it, and more":     {gone(age(400, time.Second)), "in the last 5m"},
		"a full list":             {gone(age(ringSize, 20*time.Millisecond)), "in the last 1m30s (the newest 5,000 rows)"},
		"a full list of an hour":  {gone(age(ringSize, time.Second)), "in the last 5m"},
		"one that lasted an hour": {long, "in the last 59s (the newest 61 rows)"},
	} {
		u := newUser(t, 120, 40).status().rows(c.rows...).keys("g")
		if got, _, _ := strings.Cut(u.m.graphText(118)[0].text, "\n"); got != "WHO CALLED WHOM "+c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		u.keys("esc", "S").wantScreen("p50 1 ms, p95 1 ms, " + c.want)
	}
}

// A lane of which no instance is well has failed its calls; one that nobody has has not.
func TestGraphOfAClosedPort(t *testing.T) {
	at := scene.Now().Add(-time.Minute)
	down := traffic.Exchange{Seq: 1, Start: at, Front: traffic.FrontForward, Service: "orders", Lane: "dev-alice", Kind: lane.KindError, Code: lane.CodeLaneUnhealthy, Status: 503}
	none := down
	none.Code, none.Service = lane.CodeLaneNoMatch, "payments"
	g := graphOf(down, none)
	if f := g.in("orders"); f.n != 1 || f.errors() != "100%" || g.nobody != 1 || g.in("payments").n != 0 {
		t.Errorf("%+v, %d of nobody", f, g.nobody)
	}
	closed := func(s *control.Status) { s.Services[0].State = control.StateLocalClosed }
	u := newUser(t, 140, 40).status(closed).rows(down)
	u.wantScreen("LOCAL PORT CLOSED", "0.02       -    100%  its lane callers get errors").keys("S").wantScreen("0.02 requests/s in the lane, 100% failed", "none in the lane in the last 5 minutes")
}

func TestLasted(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0s", 59 * time.Second: "59s", time.Minute: "1m", 119 * time.Second: "1m50s", 5 * time.Minute: "5m", 599 * time.Second: "9m50s", 10 * time.Minute: "10m", 3 * time.Hour: "3h"} {
		if got := lasted(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
