package proxy

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lane/pkg/lane"
)

// An instance of this process's own, registered at the address of a relay that does not
// lead here now, is asked at its guard: the registry shows a dead relay's instance for a
// while, and it lives. The address may be another claim's by then, which is not ours.
func TestOwnGuardBehindARelayThatIsAway(t *testing.T) {
	var away, cut atomic.Bool
	for name, change := range map[string]func(*Config){
		"by the network": func(c *Config) { c.Away = away.Load },
		"by the relay": func(c *Config) {
			c.Away = away.Load
			c.Via = func(ctx context.Context, addr string) (net.Conn, error) {
				if cut.Load() {
					return nil, &LinkError{Err: context.Canceled}
				}
				var d net.Dialer
				return d.DialContext(ctx, "tcp", addr)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			away.Store(false)
			cut.Store(false)
			s := newShop(t, change)
			relay := newBackend(t, "relay", nil)
			local := newBackend(t, "local", nil)
			g, err := NewGuard(s.tr, GuardConfig{Lane: "dev-alice", Service: "order-service", InstanceID: "o-mine", Local: []string{local.addr()}})
			if err != nil {
				t.Fatal(err)
			}
			at := s.serve(g.Serve)
			eventually(t, "the guard serves", func() bool { _, ok := s.tr.guards.Load(at); return ok })
			stands := func(addr string) {
				s.reg.set(service("order-service", instance("o-base", s.base.addr(), ""), instance("o-mine", addr, "dev-alice")),
					service("inventory", instance("i-base", s.inventory.addr(), ""), instance("i-theirs", addr, "dev-alice")))
				g.Far(addr)
			}
			wants := func(service, who string) {
				t.Helper()
				for way, c := range map[string]*http.Client{"our own engine": s.client(), "net/http": {Transport: s.tr, Timeout: testLimit}} {
					a := do(t, c, "POST", "http://"+service+"/", nil, strings.NewReader("once"))
					if got := a.header.Get("X-Who"); a.status != 200 || got != who || !strings.HasPrefix(a.header.Get(lane.HeaderDecision), "LANE_MATCH; lane=dev-alice;") {
						t.Errorf("%s by %s: %d %q, want %q; %s", service, way, a.status, got, who, a.header.Get(lane.HeaderDecision))
					}
				}
			}

			stands(relay.addr())
			wants("order-service", "relay")
			wants("inventory", "relay")
			away.Store(true)
			wants("order-service", "local")
			wants("inventory", "relay") // over no connection that leads to our guard
			away.Store(false)
			wants("order-service", "relay")

			// Nobody has said yet that it is away: it takes no connection.
			cut.Store(true)
			stands(closedAddr(t))
			wants("order-service", "local")
			if a := s.get("http://inventory/"); a.header.Get(lane.HeaderError) == "" {
				t.Errorf("another's: %d from %q", a.status, a.header.Get("X-Who"))
			}
			wants("order-service", "local") // it has refused nothing
		})
	}
}
