package proxy

import (
	"net/url"

	"lane/pkg/lane"
)

// Routing is a gateway's routes, for whoever only asks where a request would go.
type Routing struct{ r *routes }

// NewRouting checks the routes.
func NewRouting(list []Route) (*Routing, error) {
	r, err := newRoutes(list)
	return &Routing{r: r}, err
}

// Find is the route of a URL, nil if there is none. clear is false where two servers
// could read the path in two ways: a gateway refuses it.
func (r *Routing) Find(u *url.URL) (found *Route, clear bool) {
	return r.r.find(u.Host, target(u.RequestURI()))
}

// Fixed is the catalog by which a service with upstreams is decided.
func (r *Routing) Fixed(registry *lane.Catalog) *lane.Catalog {
	if registry == nil {
		registry = lane.NewCatalog(lane.Trust{}, nil, lane.Switches{})
	}
	return r.r.fixed(registry)
}
