package metrics

import (
	"sync"
	"sync/atomic"

	"lane/pkg/lane"
)

// Known tells which lanes and services the registry has.
type Known struct {
	catalog func() *lane.Catalog
	mu      sync.Mutex
	now     atomic.Pointer[names]
}

// names are those of one catalog.
type names struct {
	of       *lane.Catalog
	lanes    map[lane.Name]bool
	services map[string]bool
}

// NewKnown reads the names out of catalogs, once for each.
func NewKnown(catalog func() *lane.Catalog) *Known { return &Known{catalog: catalog} }

// Lane reports whether somebody claims the lane, an instance is in it, or it is
// killed.
func (k *Known) Lane(l lane.Name) bool { return k.names().lanes[l] }

// Service reports whether the service has an instance or a claim. A service that
// was only asked for is in the catalog too, without either.
func (k *Known) Service(name string) bool { return k.names().services[name] }

// Killed reports whether the lane is switched off.
func (k *Known) Killed(l lane.Name) bool {
	c := k.catalog()
	return c != nil && c.Switches.Killed(l)
}

func (k *Known) names() *names {
	c := k.catalog()
	if n := k.now.Load(); n != nil && n.of == c {
		return n
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if n := k.now.Load(); n != nil && n.of == c {
		return n
	}
	n := &names{of: c, lanes: map[lane.Name]bool{}, services: map[string]bool{}}
	k.now.Store(n.read(c))
	return n
}

func (n *names) read(c *lane.Catalog) *names {
	if c == nil {
		return n
	}
	for i := range c.Claims {
		n.lanes[c.Claims[i].Lane] = true
		n.services[c.Claims[i].Service] = true
	}
	for _, l := range c.Switches.KilledLanes {
		n.lanes[l] = true
	}
	for _, s := range c.Services() {
		if len(s.Instances) == 0 {
			continue
		}
		n.services[s.Name] = true
		for i := range s.Instances {
			for _, raw := range []string{s.Instances[i].MetaLane, s.Instances[i].MetaTag} {
				if t := lane.ParseTag(raw); t.Kind == lane.TagLane {
					n.lanes[t.Lane] = true
				}
			}
		}
	}
	return n
}
