package consul_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"lane/pkg/consul"
	"lane/pkg/lane"
)

func TestInstancesAreConverted(t *testing.T) {
	check := func(id, status, output string) *api.HealthCheck {
		return &api.HealthCheck{CheckID: id, Name: id, Status: status, Output: output}
	}
	long := strings.Repeat("é", 300)
	for name, c := range map[string]struct {
		entry api.ServiceEntry
		want  lane.Instance
	}{
		"the node's address where the service has none": {
			api.ServiceEntry{Node: &api.Node{Node: "n", Address: "10.0.0.1"}, Service: &api.AgentService{ID: "a", Port: 80}},
			lane.Instance{ID: "a", Addr: "10.0.0.1:80", Node: "n", Weight: 1, Registered: "s"},
		},
		"IPv6": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "2001:db8::1", Port: 80}},
			lane.Instance{ID: "a", Addr: "[2001:db8::1]:80", Weight: 1, Registered: "s"},
		},
		"IPv6 in brackets": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "[2001:db8::1]", Port: 80}},
			lane.Instance{ID: "a", Addr: "[2001:db8::1]:80", Weight: 1, Registered: "s"},
		},
		"metadata": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1, Weights: api.AgentWeights{Passing: 7},
				Meta: map[string]string{"lane": "l", "tag": "t", "env": "e", "tenant": "n", "zone": "z", "version": "v", "group": "g",
					"lane-weight": "0", "lane-draining": "true", "lane-local": "true", "lane-owner": "o"}}},
			lane.Instance{ID: "a", Addr: "h:1", MetaLane: "l", MetaTag: "t", Env: "e", Tenant: "n", Zone: "z", Version: "v", Group: "g",
				Weight: 0, Draining: true, Local: true, Owner: "o", Registered: "s"},
		},
		"the registry's weight, where the metadata's is no number": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1, Weights: api.AgentWeights{Passing: 7},
				Meta: map[string]string{"lane-weight": "-1", "lane-draining": "no", "lane-local": "1"}}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 7, Registered: "s"},
		},
		"the worst check": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1},
				Checks: api.HealthChecks{check("serfHealth", "passing", "alive"), check("x", "critical", " down\n"), check("y", "warning", "slow")}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 1, Registered: "s", Health: lane.Critical, HealthNote: "down"},
		},
		"a warning": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1},
				Checks: api.HealthChecks{check("x", "passing", ""), check("y", "warning", "")}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 1, Registered: "s", Health: lane.Warning, HealthNote: "y"},
		},
		"maintenance": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1},
				Checks: api.HealthChecks{{CheckID: api.NodeMaint, Status: "critical", Notes: "moving house"}}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 1, Registered: "s", Health: lane.Critical, HealthNote: "moving house"},
		},
		"an unknown status": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1},
				Checks: api.HealthChecks{check("x", "shaky", "?")}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 1, Registered: "s", Health: lane.Critical, HealthNote: "?"},
		},
		"a long output": {
			api.ServiceEntry{Node: &api.Node{}, Service: &api.AgentService{ID: "a", Address: "h", Port: 1},
				Checks: api.HealthChecks{check("x", "critical", "x"+long)}},
			lane.Instance{ID: "a", Addr: "h:1", Weight: 1, Registered: "s", Health: lane.Critical, HealthNote: "x" + strings.Repeat("é", 127) + "..."},
		},
	} {
		got := consul.Instances("s", []*api.ServiceEntry{&c.entry})
		if len(got) != 1 || got[0] != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
	sorted := consul.Instances("s", []*api.ServiceEntry{
		{Node: &api.Node{}, Service: &api.AgentService{ID: "b"}}, {}, {Node: &api.Node{}, Service: &api.AgentService{ID: "a"}}})
	if len(sorted) != 2 || sorted[0].ID != "a" {
		t.Errorf("%+v", sorted)
	}
}

func TestErrorsSayWhoAndWhere(t *testing.T) {
	by := lane.Claim{Lane: "dev-alice", Service: "orders", Owner: "bob", Host: "bobs-laptop", Session: "s", Since: "10:00"}
	for want, err := range map[string]error{
		"orders in lane dev-alice is held by bob on bobs-laptop since 10:00 (by their clock)": &consul.ClaimHeldError{Held: by},
		"orders in lane dev-alice is held by somebody unknown":                                &consul.ClaimHeldError{Held: lane.Claim{Lane: "dev-alice", Service: "orders"}},
		"claim lost: orders in lane dev-alice was taken over by bob@vm":                       &consul.ClaimLostError{Lane: "dev-alice", Service: "orders", By: lane.Claim{Owner: "bob@vm", Host: "vm.test.example", Session: "s"}},
		"claim lost: orders in lane dev-alice was taken over by bob on bobs-laptop":           &consul.ClaimLostError{Lane: "dev-alice", Service: "orders", By: by},
		"claim lost: orders in lane dev-alice was removed from the registry":                  &consul.ClaimLostError{Lane: "dev-alice", Service: "orders"},
		`port "0": is not between 1 and 65535`:                                                &consul.ValidationError{Field: "port", Value: "0", Why: "is not between 1 and 65535"},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}
