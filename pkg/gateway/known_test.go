package gateway

import (
	"testing"

	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/rules"
)

func TestNamesThatNoRegistryHas(t *testing.T) {
	parse := func(doc string) *rules.Set {
		t.Helper()
		s, err := rules.Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one := parse("entry: shop\nrules:\n  - { id: r, priority: 1, lane: pressure, match: { path: { prefix: /p } } }\n")
	two := parse("entry: shop\nrules:\n  - { id: r, priority: 1, lane: dev-two, match: { path: { prefix: /p } } }\n")
	var inForce *rules.Set
	k := NewKnown([]proxy.Route{{Service: "shop"}, {Service: "bff", Prefix: "/bff", Upstreams: map[lane.Name]string{"": "127.0.0.1:1", "v2": "127.0.0.1:2"}}},
		func() *rules.Set { return inForce })
	lanes := func(when string, want map[lane.Name]bool) {
		t.Helper()
		for l, is := range want {
			if k.Lane(l) != is {
				t.Errorf("%s: lane %q: %v", when, l, !is)
			}
		}
	}
	lanes("without rules", map[lane.Name]bool{"v2": true, "pressure": false, "": false, "made-up": false})
	inForce = one
	lanes("one", map[lane.Name]bool{"v2": true, "pressure": true, "dev-two": false})
	inForce = two
	lanes("two", map[lane.Name]bool{"v2": true, "pressure": false, "dev-two": true})
	if !k.Service("bff") || k.Service("shop") || k.Service("") {
		t.Error("the services with upstreams")
	}
}
