package proxy

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// Route leads requests of a gateway to a service.
type Route struct {
	// Host is exact, or *.domain for every host below one; empty is any host.
	Host string
	// Prefix is of whole segments of the path: /api is not /apis. Empty is any.
	Prefix  string
	Service string
	// Strip is how many segments of the path are taken off.
	Strip int
	// Upstreams are the addresses of a service that no registry knows, by lane;
	// the empty lane is the baseline.
	Upstreams map[lane.Name]string
}

// routes are a gateway's, the closest first: an exact host before *.domain before
// any, then the longest prefix, then the order in which they were given.
type routes struct {
	list   []Route
	static []*lane.Service // of those with upstreams
	last   atomic.Pointer[staticCatalog]
}

// staticCatalog is a catalog of the services that no registry knows, with the
// switches of the registry's.
type staticCatalog struct{ of, cat *lane.Catalog }

// CheckRoutes says what is wrong with a gateway's routes.
func CheckRoutes(list []Route) error {
	_, err := newRoutes(list)
	return err
}

func newRoutes(list []Route) (*routes, error) {
	r := &routes{list: slices.Clone(list)}
	for i := range r.list {
		one := &r.list[i]
		path := rules.ReadPath(one.Prefix)
		one.Host, one.Prefix = strings.ToLower(strings.TrimSuffix(one.Host, ".")), strings.TrimSuffix(path.Text, "/")
		switch {
		case named(one.Service) == "":
			return nil, fmt.Errorf("route %d: %q is no service's name", i+1, one.Service)
		case one.Prefix != "" && one.Prefix[0] != '/':
			return nil, fmt.Errorf("route %d: the prefix %q does not begin with /", i+1, one.Prefix)
		case path.Dots || path.Loose != "":
			return nil, fmt.Errorf("route %d: the prefix %q can be read in two ways: it may have no empty, . or .. segment, and no encoded slash", i+1, one.Prefix)
		case one.Strip < 0 || one.Strip > strings.Count(one.Prefix, "/"):
			return nil, fmt.Errorf("route %d: strip is %d: at most the %d segments of the prefix can go", i+1, one.Strip, strings.Count(one.Prefix, "/"))
		case strings.Contains(one.Host, ":") && !(strings.HasPrefix(one.Host, "[") && strings.HasSuffix(one.Host, "]")):
			return nil, fmt.Errorf("route %d: the host %q has a port: a request's host is compared without one", i+1, one.Host)
		case strings.Contains(strings.TrimPrefix(one.Host, "*."), "*"):
			return nil, fmt.Errorf("route %d: the host %q is neither exact nor *.domain", i+1, one.Host)
		}
		for j := range i {
			if r.list[j].Host == one.Host && r.list[j].Prefix == one.Prefix {
				return nil, fmt.Errorf("route %d: %s%s is led to %s already, by route %d", i+1, one.Host, one.Prefix+"/", r.list[j].Service, j+1)
			}
		}
		if len(one.Upstreams) == 0 {
			continue
		}
		svc, err := staticService(one)
		if err != nil {
			return nil, fmt.Errorf("route %d: %w", i+1, err)
		}
		if slices.ContainsFunc(r.static, func(s *lane.Service) bool { return s.Name == svc.Name }) {
			return nil, fmt.Errorf("route %d: %s has upstreams in another route", i+1, svc.Name)
		}
		r.static = append(r.static, svc)
	}
	slices.SortStableFunc(r.list, func(a, b Route) int {
		if d := hostRank(a.Host) - hostRank(b.Host); d != 0 {
			return d
		}
		return len(b.Prefix) - len(a.Prefix)
	})
	return r, nil
}

func staticService(r *Route) (*lane.Service, error) {
	var in []lane.Instance
	for name, addr := range r.Upstreams {
		host, port, err := net.SplitHostPort(addr)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("the upstream %q is not host:port", addr)
		}
		if name != "" {
			if _, err := lane.ParseName(string(name)); err != nil {
				return nil, err
			}
		}
		id := r.Service
		if name != "" {
			id += "-" + string(name)
		}
		in = append(in, lane.Instance{ID: id, Addr: addr, MetaLane: string(name), Weight: 1})
	}
	svc := lane.NewService(r.Service, in, nil)
	svc.HasSnapshot = true
	return svc, nil
}

func hostRank(h string) int {
	switch {
	case h == "":
		return 2
	case strings.HasPrefix(h, "*."):
		return 1
	}
	return 0
}

// find is the route of a request, nil if there is none. ok is false where two
// servers could read the path in two ways, and that makes a difference.
func (r *routes) find(hostport string, t target) (found *Route, ok bool) {
	host, _ := splitHost(hostport)
	path := rules.ReadPath(t.path())
	found = r.at(host, path.Text)
	return found, !path.Dots && (path.Loose == "" || r.at(host, path.Loose) == found)
}

func (r *routes) at(host, path string) *Route {
	for i := range r.list {
		one := &r.list[i]
		if one.Host != "" && one.Host != host &&
			!(strings.HasPrefix(one.Host, "*.") && strings.HasSuffix(host, one.Host[1:]) && len(host) >= len(one.Host)) {
			continue
		}
		if one.Prefix == "" || strings.HasPrefix(path, one.Prefix) && (len(path) == len(one.Prefix) || path[len(one.Prefix)] == '/') {
			return one
		}
	}
	return nil
}

// fixed is the catalog by which a service without a registry is decided.
func (r *routes) fixed(registry *lane.Catalog) *lane.Catalog {
	if last := r.last.Load(); last != nil && last.of == registry {
		return last.cat
	}
	cat := lane.NewCatalog(lane.Trust{State: lane.Fresh}, nil, registry.Switches, r.static...)
	r.last.Store(&staticCatalog{registry, cat})
	return cat
}

// path is the target without its query.
func (t target) path() string {
	path, _, _ := strings.Cut(string(t), "?")
	return path
}

// strip takes the first segments of a path off, byte for byte.
func (t target) strip(n int) target {
	rest := string(t)
	for range n {
		i := strings.IndexAny(rest[1:], "/?")
		switch {
		case i < 0:
			return "/"
		case rest[1+i] == '?':
			return target("/" + rest[1+i:])
		}
		rest = rest[1+i:]
	}
	return target(rest)
}
