package relay_test

import (
	"strings"
	"testing"

	"lane/pkg/consul"
	"lane/pkg/consul/consultest"
	"lane/pkg/lane"
	"lane/pkg/relay/facts"
)

// What the registry has forgotten, as an agent that was restarted without its state, is
// registered and claimed anew, at the same port, and its laptop hears nothing of it.
func TestARegistryThatForgets(t *testing.T) {
	consultest.Each(t, func(t *testing.T, addr string) {
		w := newWorld(t, addr)
		r := w.relay(consultest.Name(t, "forgets"), nil)
		l := w.laptop(r.addr, w.token(w.grant(nil)), "box", says(t, "box"))
		at := l.hold(w.claim())[facts.Address]
		there := func() bool { in := w.instances(); return len(in) == 1 && strings.Contains(in[0], at+" passing") }
		w.eventually("passing", there)
		w.put("/v1/agent/service/deregister/"+consul.InstanceID(lane.Name(w.lane), w.service, "box"), "")
		w.eventually("the instance is back", there)

		before := w.claims()[0].Session
		w.put("/v1/session/destroy/"+before, "")
		w.eventually("the claim is back", func() bool {
			cl := w.claims()
			return len(cl) == 1 && cl[0].Session != "" && cl[0].Session != before && cl[0].Install == "box"
		})
		w.eventually("and the instance with it", there)
		if body := get(at, w.lane); body != "box" {
			t.Error(body)
		}
		if lost := r.audit.lines("lost"); len(lost) != 0 {
			t.Errorf("%v", lost)
		}
		l.release("one")
		w.nothing("released")
	})
}
