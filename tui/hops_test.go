package tui

import (
	"strings"
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// trail is a call of the lane's that calls on, as the session sees it.
func trail() []*traffic.Exchange {
	began := scene.Now()
	guard := traffic.Exchange{Seq: 1, Start: began, Took: 68 * time.Millisecond, TraceID: "t", Front: traffic.FrontGuard, Guard: traffic.GuardPassed,
		Service: "order-service", From: "10.2.0.9", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Status: 200}
	on := traffic.Exchange{Seq: 2, Start: began.Add(4 * time.Millisecond), Took: 33 * time.Millisecond, TraceID: "t", Front: traffic.FrontForward,
		Service: "ledger", From: "127.0.0.1", Kind: lane.KindFallback, Reason: lane.ReasonLaneAbsent, Status: 500}
	return []*traffic.Exchange{&on, &guard}
}

// TestHopsNameWhoCalledWhom: however narrow it is, names come first, and give way last.
func TestHopsNameWhoCalledWhom(t *testing.T) {
	for w, want := range map[int]string{
		90: "  10.2.0.9 -> order-service (at the guard)  LANE    200    68 ms  +<0.1 ms\n!|order-service -> ledger                   BASE~fb 500    33 ms     +4 ms  <- this one",
		78: "  10.2.0.9 -> order-service (at the guard)  LANE    200    68 ms  +<0.1 ms\n!|order-service -> ledger                   BASE~fb 500    33 ms     +4 ms",
		66: "  10.2.0.9 -> order-service (at the guard)  LANE    200    68 ms\n!|order-service -> ledger                   BASE~fb 500    33 ms",
		50: "  10.2.0.9 -> order-service  LANE    200    68 ms\n!|order-service -> ledger    BASE~fb 500    33 ms",
		45: "  10.2.0.9 -> order-service  LANE       68 ms\n!|order-service -> ledger    BASE~fb    33 ms",
		36: "  10.2.~ -> order~  LANE       68 ms\n!|order~ -> ledger  BASE~fb    33 ms",
	} {
		var lines []string
		for _, c := range hopLines(hopsOf(trail(), 2, text{}), w) {
			if wide(c.text) > w {
				t.Errorf("%d: %q is wider", w, c.text)
			}
			lines = append(lines, strings.TrimRight(c.text, " "))
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%d:\n%s\nwant\n%s", w, got, want)
		}
	}
}

// TestHopsBesideTheList: the mock-up of a wide screen has them there.
func TestHopsBesideTheList(t *testing.T) {
	u := newUser(t, 140, 40).status().rows(*trail()[1], *trail()[0]).keys("4")
	u.wantScreen("| !|order-service -> ledger    BASE~fb    33 ms", "|   10.2.0.9 -> order-service  LANE       68 ms")
}
