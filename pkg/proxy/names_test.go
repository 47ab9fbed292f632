package proxy

import (
	"testing"

	"lane/pkg/lane"
)

func TestClassify(t *testing.T) {
	n, err := NewNames(NamesConfig{
		Hosts:      map[string]string{"Orders.Test.Example": "order-service", "legacy": "inventory"},
		Datacenter: "dc1",
	})
	if err != nil {
		t.Fatal(err)
	}
	c := lane.NewCatalog(lane.Trust{}, nil, lane.Switches{},
		service("order-service", instance("a", "10.0.0.1:8080", ""), instance("b", "127.0.0.1:9090", ""), instance("c", "[fd00::1]:80", "")),
		service("inventory", instance("d", "db.example:80", "")))
	tests := []struct {
		host, service string
		bare          bool
	}{
		{"order-service", "order-service", true},
		{"ORDER-service:8080", "order-service", true},
		{"order-service.", "order-service", true},
		{"anything", "anything", true},
		{"order-service.service.consul", "order-service", false},
		{"v1.order-service.service.consul:80", "order-service", false},
		{"order-service.service.dc1.consul", "order-service", false},
		{"order-service.service.dc2.consul", "", false}, // another registry's
		{"order-service.query.consul", "", false},
		{"node1.node.consul", "", false},
		{"service.consul", "", false},
		{"consul", "consul", true},
		{"order-service.shop.svc.cluster.local", "order-service", false},
		{"svc.cluster.local", "", false},
		{"orders.test.example:443", "order-service", false},
		{"ORDERS.test.example", "order-service", false},
		{"sub.orders.test.example", "", false},
		{"orders.test.example.evil.test", "", false},
		{"legacy", "inventory", false},
		{"10.0.0.1:8080", "order-service", false},
		{"10.0.0.1:8081", "", false},
		{"10.0.0.1", "", false},
		{"[fd00::1]", "order-service", false},
		{"[::ffff:10.0.0.1]:8080", "order-service", false},
		{"db.example", "inventory", false},
		{"localhost:9090", "order-service", false},
		{"localhost:9091", "", false},
		{"localhost", "", false},
		{"127.0.0.1:9090", "order-service", false},
		{"127.0.0.1:1", "", false},
		{"[::1]:9090", "", false},
		{"::1", "", false},
		{"", "", false},
		{"example.com", "", false},
		{"order-service.example.com", "", false},
		{"a b", "", true},
	}
	for _, tt := range tests {
		got := n.Classify(tt.host, c)
		if got.Service != tt.service || tt.service != "" && got.Bare != tt.bare {
			t.Errorf("%q: got %+v, want %q bare %v", tt.host, got, tt.service, tt.bare)
		}
	}
}

func TestColoredHosts(t *testing.T) {
	n, err := NewNames(NamesConfig{Colored: []string{"*.Partner.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"api.partner.test": true, "API.partner.test:443": true, "partner.test": false,
		"api.partner.test.evil": false, "": false,
	} {
		if n.Colored(host) != want {
			t.Errorf("%q: colored %v, want %v", host, !want, want)
		}
	}
}

func TestBadNames(t *testing.T) {
	for _, cfg := range []NamesConfig{
		{Hosts: map[string]string{"": "x"}},
		{Hosts: map[string]string{"a.test": ""}},
		{Colored: []string{"[a"}},
		{Colored: []string{""}},
	} {
		if _, err := NewNames(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}
