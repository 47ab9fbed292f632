package dev_test

import (
	"testing"

	"github.com/hashicorp/consul/api"
)

func ids(entries []*api.ServiceEntry) []string {
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Service.ID)
	}
	return out
}

func registering(t *testing.T) {
	runConformance(t, []conformance{
		{"an instance is read back in full", func(w *world) {
			id := w.svc + "-1"
			w.register(id, ttl(""), metadata("lane", "x"), func(r *api.AgentServiceRegistration) { r.Tags = []string{"a"} })
			got, qm, err := w.Health().Service(w.svc, "", false, nil)
			w.must(err)
			w.equal("ids", ids(got), []string{id})
			s := got[0].Service
			w.equal("service", []any{s.Service, s.Address, s.Port, s.Tags, s.Meta, s.Weights}, []any{
				w.svc, "10.0.0.1", 8080, []string{"a"}, map[string]string{"lane": "x"}, api.AgentWeights{Passing: 1, Warning: 1},
			})
			w.equal("tagged addresses", s.TaggedAddresses, map[string]api.ServiceAddress{
				"lan_ipv4": {Address: "10.0.0.1", Port: 8080}, "wan_ipv4": {Address: "10.0.0.1", Port: 8080},
			})
			w.equal("node", []string{got[0].Node.Node, got[0].Node.Address, got[0].Node.Datacenter}, []string{w.node, "127.0.0.1", "dc1"})
			if s.CreateIndex == 0 || s.CreateIndex != s.ModifyIndex || qm.LastIndex != s.ModifyIndex {
				w.t.Errorf("indexes: create %d, modify %d, query %d", s.CreateIndex, s.ModifyIndex, qm.LastIndex)
			}
			w.equal("checks", len(got[0].Checks), 2)
			node, own := got[0].Checks[0], got[0].Checks[1]
			w.equal("node check", []string{node.CheckID, node.Name, node.Status, node.Output, node.Type, node.ServiceID},
				[]string{"serfHealth", "Serf Health Status", "passing", "Agent alive and reachable", "", ""})
			w.equal("own check", []any{own.CheckID, own.Name, own.Status, own.Output, own.Type, own.ServiceID, own.ServiceName, own.ServiceTags},
				[]any{"service:" + id, "Service '" + w.svc + "' check", "critical", "", "ttl", id, w.svc, []string{"a"}})
		}},
		{"deregistered is gone", func(w *world) {
			id := w.svc + "-1"
			w.register(id)
			w.must(w.Agent().ServiceDeregister(id))
			got, _, err := w.Health().Service(w.svc, "", false, nil)
			w.must(err)
			w.equal("ids", ids(got), []string{})
		}},
	})
}
