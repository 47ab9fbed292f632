package tui

import (
	"testing"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
	"lane/tui/internal/scene"
)

// cutOff is a request under way that the loss of the tunnel has cut off.
func cutOff() traffic.Exchange {
	return traffic.Exchange{Seq: 8, Start: scene.Now().Add(-15 * time.Second), Took: 1200 * time.Millisecond, Front: traffic.FrontGuard,
		From: "10.2.0.9:40112", Method: "POST", URL: "http://orders/api/orders", Proto: "HTTP/1.1", Service: "orders", Tag: "dev-alice",
		Lane: "dev-alice", Kind: lane.KindLaneMatch, Reason: lane.ReasonLaneMatch, Guard: traffic.GuardPassed, Code: traffic.CodeRelayLost,
		Err: "the tunnel to the relay broke under the request", Instance: "lane:dev-alice:orders:1", Addr: "127.0.0.1:8080", Tries: 1}
}

// TestARequestThatTheTunnelCutOff: it is LOST wherever it is shown, without a status: what
// its caller got, this end does not know.
func TestARequestThatTheTunnelCutOff(t *testing.T) {
	u := newUser(t, 140, 40).running().rows(cutOff())
	u.wantScreen("14:02:00.000 orders       POST /api/orders                      -  1200 LOST    10.2.0.9", "Why       the tunnel to the relay broke under")
	u.keys("G", "enter").wantScreen("LOST (the tunnel broke, or is away)", "no response E_RELAY_LOST")
	u.keys("esc", "/route:lost", "enter").wantScreen("LOST", "not:BASE~fb")
	u = newUser(t, 140, 40).status().rows(append(scene.Hour(), cutOff())...).keys("g")
	u.wantScreen("! LOST")
	newUser(t, 140, 40).running().keys("?").wantScreen("LOST    the tunnel broke, or is away", "guard, lost, err")
	if routeMark(traffic.RouteLost) != traffic.MarkError || routeClass(traffic.RouteLost) != badText {
		t.Error("another mark than in the list")
	}
	twin := cutOff() // somebody who left
	twin.Code, twin.Err = "", "the caller went away before the answer"
	newUser(t, 140, 40).running().rows(twin).wantScreen("1200 LANE    10.2.0.9", "not:LOST")
}
