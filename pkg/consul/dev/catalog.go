package dev

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// catalogBody is a catalog registration as clients write it, with the fields
// that mean nothing here.
type catalogBody struct {
	catalogRegistration
	PeerName, Token          string
	CreateIndex, ModifyIndex uint64
}

// nodeID is compiled when the first node comes with an ID: every command starts
// this package, and hardly any of them serves a registry.
var nodeID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`)
})

func (r *Registry) catalogRegister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	var body catalogBody
	if err := decode(req, &body); err != nil {
		return nil, err
	}
	reg := &body.catalogRegistration
	if reg.Datacenter == "" {
		reg.Datacenter = r.opts.Datacenter
	}
	switch {
	case reg.Datacenter != r.opts.Datacenter:
		return nil, say("No path to datacenter")
	case reg.Node == "":
		return nil, say("Must provide node")
	case reg.ID != "" && !nodeID().MatchString(reg.ID):
		return nil, say("Bad node ID: uuid string is wrong length")
	case reg.Address == "" && !reg.SkipNodeUpdate:
		return nil, say("Must provide address if SkipNodeUpdate is not set")
	}
	if svc := reg.Service; svc != nil {
		if svc.ID == "" {
			svc.ID = svc.Service
		}
		if svc.Weights == nil || *svc.Weights == (weights{}) {
			svc.Weights = &weights{1, 1}
		}
		if svc.ID != "" && svc.Service == "" {
			return nil, say("Must provide service name (Service.Service) when service ID is provided")
		}
		if anyAddress(svc.Address) {
			return nil, say("Invalid service address")
		}
		if err := validateMeta(svc.Meta); err != nil {
			return nil, say("failed inserting service: Invalid Service Meta for node %s and serviceID %s: %v", reg.Node, svc.ID, err)
		}
	}
	if reg.Check != nil {
		reg.Checks = append(reg.Checks, reg.Check)
		reg.Check = nil
	}
	for _, c := range reg.Checks {
		if c == nil {
			return nil, failf(http.StatusBadRequest, "Request decode failed: a check is null")
		}
		if c.Node == "" {
			c.Node = reg.Node
		}
		if c.CheckID == "" {
			c.CheckID = c.Name
		}
		if c.Type == "" {
			c.Type = c.Definition.kind()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return true, r.register(reg)
}

func (d *checkDefinition) kind() string {
	switch {
	case d.Interval <= 0:
		return ""
	case d.GRPC != "":
		return "grpc"
	case d.HTTP != "":
		return "http"
	case d.TCP != "":
		return "tcp"
	case d.UDP != "":
		return "udp"
	}
	return ""
}

func (r *Registry) catalogDeregister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	var body struct{ Node, Datacenter, ServiceID, CheckID, PeerName, Token string }
	if err := decode(req, &body); err != nil {
		return nil, err
	}
	if body.Datacenter != "" && body.Datacenter != r.opts.Datacenter {
		return nil, say("No path to datacenter")
	}
	if body.Node == "" {
		return nil, say("Must provide node")
	}
	return true, r.write(func(s *store, idx uint64) error {
		switch {
		case body.ServiceID != "":
			s.deleteService(idx, r.now(), body.Node, body.ServiceID)
		case body.CheckID != "":
			s.deleteCheck(idx, r.now(), body.Node, body.CheckID)
		default:
			s.deleteNode(idx, r.now(), body.Node)
		}
		return nil
	})
}

func (r *Registry) catalogDatacenters(w http.ResponseWriter, req *http.Request) (any, error) {
	if req.URL.Query().Has("cached") {
		r.cacheHeaders(w, req)
	}
	return []string{r.opts.Datacenter}, nil
}

func (r *Registry) catalogNodes(w http.ResponseWriter, req *http.Request) (any, error) {
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	filter, err := newFilter(q.filter, []*node{})
	if err != nil {
		return nil, err
	}
	var nodes []*node
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		nodes = sortedValues(s.nodes, func(n *node) bool { return nodeMeta(&q, n.Meta) },
			func(a, b *node) int { return cmp.Compare(lower(a.Node), lower(b.Node)) })
		return s.nodesIndex, true
	})
	meta{index: index, consistency: q.consistency}.write(w)
	nodes, err = filtered(filter, nodes)
	return orEmpty(nodes), err
}

func (r *Registry) catalogServices(w http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	filter, err := newFilter(q.filter, []*serviceNode{})
	if err != nil {
		return nil, err
	}
	var all []*serviceNode
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		all = nil
		for sk, svc := range s.services {
			if n := s.nodes[sk.node]; nodeMeta(&q, n.Meta) {
				all = append(all, newServiceNode(n, svc))
			}
		}
		return s.servicesIndex, true
	})
	if q.cached {
		r.cacheHeaders(w, req)
	}
	meta{index: index, consistency: q.consistency}.write(w)
	if all, err = filtered(filter, all); err != nil {
		return nil, err
	}
	// The tags of all instances, merged: what they have together, nobody may have.
	out := map[string][]string{}
	for _, s := range all {
		tags := orEmpty(out[s.ServiceName])
		for _, tag := range s.ServiceTags {
			if !slices.Contains(tags, tag) {
				tags = append(tags, tag)
			}
		}
		out[s.ServiceName] = tags
	}
	for _, tags := range out {
		slices.Sort(tags)
	}
	return out, nil
}

func (r *Registry) catalogService(w http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	q, err := r.query(req)
	if err != nil {
		return nil, err
	}
	name := strings.TrimPrefix(req.URL.Path, "/v1/catalog/service/")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "Missing service name")
	}
	filter, err := newFilter(q.filter, []*serviceNode{})
	if err != nil {
		return nil, err
	}
	out := []*serviceNode{}
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		out = []*serviceNode{}
		for _, n := range s.instances(name) {
			if hasTags(&q, n.Service.Tags) && nodeMeta(&q, n.Node.Meta) {
				out = append(out, newServiceNode(n.Node, n.Service))
			}
		}
		return s.indexOf(name, false), true
	})
	if q.cached {
		r.cacheHeaders(w, req)
	}
	meta{index: index, consistency: q.consistency}.write(w)
	return filtered(filter, out)
}

func (r *Registry) catalogNode(w http.ResponseWriter, req *http.Request) (any, error) {
	n, services, err := r.servicesOfNode(w, req, "/v1/catalog/node/")
	if err != nil || n == nil {
		return null, err
	}
	return map[string]any{"Node": n, "Services": services}, nil
}

func (r *Registry) catalogNodeServices(w http.ResponseWriter, req *http.Request) (any, error) {
	n, services, err := r.servicesOfNode(w, req, "/v1/catalog/node-services/")
	if err != nil {
		return nil, err
	}
	list := sortedValues(services, func(*nodeService) bool { return true },
		func(a, b *nodeService) int { return cmp.Compare(lower(a.ID), lower(b.ID)) })
	return map[string]any{"Node": n, "Services": list}, nil
}

// null is rendered as JSON's null: Consul's answer for a node that is not there.
var null = (*struct{})(nil)

func (r *Registry) servicesOfNode(w http.ResponseWriter, req *http.Request, prefix string) (*node, map[string]*nodeService, error) {
	if err := enterprise(req); err != nil {
		return nil, nil, err
	}
	q, err := r.query(req)
	if err != nil {
		return nil, nil, err
	}
	name := strings.TrimPrefix(req.URL.Path, prefix)
	if name == "" {
		return nil, nil, failf(http.StatusBadRequest, "Missing node name")
	}
	filter, err := newFilter(q.filter, map[string]*nodeService{})
	if err != nil {
		return nil, nil, err
	}
	var n *node
	var services map[string]*nodeService
	index := r.read(req, &q, false, func(s *store) (uint64, bool) {
		if n = s.nodes[lower(name)]; n == nil {
			return s.nodeGone, true
		}
		services = s.servicesOf(name)
		return s.nodeIndex[lower(name)], true
	})
	meta{index: index, consistency: q.consistency}.write(w)
	if n == nil {
		return nil, nil, nil
	}
	if services, err = filtered(filter, services); err != nil {
		return nil, nil, err
	}
	for id, svc := range services {
		services[id] = renderedService(svc)
	}
	return n, services, nil
}
