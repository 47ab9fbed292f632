//go:build unix

package cmd

import (
	"slices"
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
)

// relayClaims has the session of a relay claim services of lanes, each "LANE/SERVICE/INSTALL".
func (d *desk) relayClaims(id string, claims ...string) {
	d.t.Helper()
	var s struct{ ID string }
	d.call("PUT", "/v1/session/create", map[string]any{"NodeChecks": []string{}, "TTL": "10m", "Behavior": "delete", "LockDelay": "1ms"}, &s)
	for _, c := range claims {
		part := strings.Split(c, "/")
		value := map[string]any{"owner": "somebody", "host": "desk-7", "install": part[2], "session": s.ID, "mode": "shared", "registered": part[1],
			"id": consul.InstanceID(lane.Name(part[0]), part[1], part[2]), "relay": "box:7443", "relay_id": id, "generation": 7}
		d.call("PUT", "/v1/kv/lane/declared/"+part[0]+"/"+part[1]+"?acquire="+s.ID, value, nil)
	}
}

// Claims of a relay go when neither it nor one of their instances is registered, whatever
// the health, and only when that was asked for.
func TestGCOfRelaysThatAreGone(t *testing.T) {
	consultest.EachOwn(t, func(t *testing.T, addr string) {
		d := newDesk(t, addr)
		relay := func(id, status string) { d.instance(id, consul.RelayService, nil, status) }
		relay("lane-relay:10.0.0.1:7443", "passing")
		relay("lane-relay:10.0.0.2:7443", "critical") // it was there a minute ago
		d.relayClaims("lane-relay:10.0.0.1:7443", "dev-bob/lives/b0b")
		d.relayClaims("lane-relay:10.0.0.2:7443", "dev-bob/dying/b0b")
		d.relayClaims("lane-relay:10.0.0.3:7443", "dev-bob/served/b0b", "dev-carol/served/ca01") // of which one is
		d.laneInstance("dev-carol", "served", "ca01", "passing")
		d.relayClaims("lane-relay:10.0.0.4:7443", "dev-bob/removing/b0b")
		d.laneInstance("dev-bob", "removing", "b0b", "critical")
		d.relayClaims("", "dev-bob/unannounced/b0b")
		d.sessionOf("dev-alice", "orders") // it runs here, and is on its way to the next relay
		d.relayClaims("lane-relay:10.0.0.5:7443", "dev-alice/orders/"+d.install)
		lives := d.holds()
		d.relayClaims("lane-relay:10.0.0.6:7443", "dev-bob/gone/b0b", "dev-dave/gone/da7e")
		all := d.holds()

		for _, args := range [][]string{{"gc", "--yes"}, {"gc", "--gone-relays", "--dry-run"}} {
			code, out, errOut := d.run(args...)
			if code != exitOK || !slices.Equal(d.holds(), all) || strings.Count(out, "its relay box:7443 is gone") != 2 || !strings.Contains(out, "lane/declared/dev-dave/gone") {
				t.Errorf("%v: %d, registry %v\n%s%s", args, code, d.holds(), out, errOut)
			}
		}
		if code, out, errOut := d.run("gc", "--gone-relays", "--yes"); code != exitOK || !slices.Equal(d.holds(), lives) || strings.Count(out, "removed") != 2 {
			t.Errorf("%d, registry %v, want %v\n%s%s", code, d.holds(), lives, out, errOut)
		}
		for _, id := range d.holds() { // the registry may be shared
			if !strings.HasPrefix(id, "lane/") {
				d.call("PUT", "/v1/agent/service/deregister/"+id, nil, nil)
			}
		}
	})
}
