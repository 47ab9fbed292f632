package tui

import (
	"slices"
	"testing"
	"time"

	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// What of the traffic somebody should know stands with what happened to the session, the
// newest first: each once, with how often it was; what is as it should be does not.
func TestTheNewsOfTheTraffic(t *testing.T) {
	at := func(s int) time.Time { return scene.Now().Add(time.Duration(s) * time.Second) }
	base := traffic.Exchange{Front: traffic.FrontForward, Service: "inventory", Kind: lane.KindBaseline, Instance: "inv-2", Addr: "10.2.0.9:80", Status: 503}
	own, well, ours := base, base, base
	own.Service, own.Kind, own.Lane, own.Instance = "orders", lane.KindLaneMatch, "dev-alice", "orders-1"
	well.Status = 404
	ours.Code, ours.Kind = lane.CodeLaneUnhealthy, lane.KindError
	bounced := traffic.Exchange{Front: traffic.FrontGuard, Service: "orders", Guard: traffic.GuardBounced, Kind: lane.KindBaseline, Status: 200, From: "10.2.0.44:4711"}
	rejected := bounced
	rejected.Guard, rejected.From = traffic.GuardRejected, "10.2.0.45:4711"
	var rows []traffic.Exchange
	for i, e := range []traffic.Exchange{base, own, bounced, well, ours, rejected, bounced, base} {
		e.Seq, e.Start = uint64(i+1), at(i-40)
		rows = append(rows, e)
	}
	old := base
	old.Seq, old.Start, old.Service = 9, at(-301), "long-ago"
	m := newUser(t, 140, 40).status(func(s *control.Status) {
		s.History = []control.Event{{At: at(-50), Text: "first"}, {At: at(-37), Text: "second"}, {At: at(-37), Text: "a third"}}
	}).rows(append(rows, old)...).keys("l").m
	var got []string
	for _, e := range m.news() {
		got = append(got, e.Level+" "+e.Text)
	}
	want := []string{
		"warn inventory: 503 from the baseline's inv-2, 2 times (not your lane)",
		"warn orders: the guard sent 2 requests from 10.2.0.44 on to the baseline",
		"warn orders: the guard turned 1 request from 10.2.0.45 away",
		" a third", " second",
		"warn orders: 500 from the lane's orders-1", " first"}
	want[5] = "warn orders: 503 from the lane's orders-1"
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// However many services and callers there are, so many are told apart.
func TestTheNewsAreBounded(t *testing.T) {
	m := matters{}
	for i := range 3 * mattersMost {
		m.add(&traffic.Exchange{Service: "orders", Guard: traffic.GuardBounced, From: string(rune('a' + i))})
	}
	if len(m) != mattersMost {
		t.Errorf("%d", len(m))
	}
}
