package gateway

import (
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/rules"
)

// Known are the names that a gateway knows beside the registry's: the lanes that
// its rules give, and the lanes and services of upstreams that no registry has.
type Known struct {
	lanes    map[lane.Name]bool
	services map[string]bool
	rules    func() *rules.Set
}

// NewKnown reads the names out of routes. set returns the rules in force.
func NewKnown(routes []proxy.Route, set func() *rules.Set) *Known {
	k := &Known{lanes: map[lane.Name]bool{}, services: map[string]bool{}, rules: set}
	for i := range routes {
		for l := range routes[i].Upstreams {
			k.services[routes[i].Service] = true
			if l != "" {
				k.lanes[l] = true
			}
		}
	}
	return k
}

// Lane reports whether a rule gives the lane, or a route has an upstream for it.
func (k *Known) Lane(l lane.Name) bool { return k.lanes[l] || k.rules().HasLane(l) }

// Service reports whether a route has upstreams for the service.
func (k *Known) Service(name string) bool { return k.services[name] }
