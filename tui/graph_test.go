package tui

import (
	"regexp"
	"testing"
	"time"

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
	if len(g.edges) != 6 || g.fallsBack("orders") != "ledger 145, users 101" || g.fallsBack("me") != "" {
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
