package dev

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	errMissingNode    = say("Missing node registration")
	errMissingService = say("Missing service registration")
)

func (s *store) ensureNode(idx uint64, n node) {
	key := lower(n.Node)
	if old := s.nodes[key]; old != nil {
		if n.same(old) {
			return
		}
		n.CreateIndex = old.CreateIndex
	} else {
		n.CreateIndex = idx
	}
	n.ModifyIndex = idx
	s.nodes[key] = &n
	s.nodesIndex, s.nodeIndex[key] = idx, idx
	s.touchServicesOf(idx, key)
}

// ensureService inserts or changes an instance; the same definition again
// changes nothing, so that a registration that is repeated wakes nobody.
func (s *store) ensureService(idx uint64, nodeName string, svc nodeService) error {
	key := lower(nodeName)
	if s.nodes[key] == nil {
		return errMissingNode
	}
	sk := serviceKey{key, lower(svc.ID)}
	old := s.services[sk]
	if old != nil {
		if svc.same(old) {
			return nil
		}
		svc.CreateIndex = old.CreateIndex
		if !strings.EqualFold(old.Service, svc.Service) {
			// The ID moved to another name. Who streams the old one hears of it;
			// its index, as that of an absent service, does not move.
			s.eventIndex[lower(old.Service)] = idx
		}
	} else {
		svc.CreateIndex = idx
	}
	svc.ModifyIndex = idx
	s.services[sk] = &svc
	s.servicesIndex, s.nodesIndex, s.nodeIndex[key] = idx, idx, idx
	s.touchService(idx, svc.Service)
	return nil
}

func (s *store) deleteService(idx uint64, now time.Time, nodeName, id string) {
	key := lower(nodeName)
	sk := serviceKey{key, lower(id)}
	svc := s.services[sk]
	if svc == nil {
		return
	}
	for _, c := range s.checksOf(nodeName, svc.ID) {
		s.deleteCheck(idx, now, nodeName, c.CheckID)
	}
	s.checksIndex = idx
	delete(s.services, sk)
	s.servicesIndex, s.nodesIndex, s.nodeIndex[key] = idx, idx, idx
	s.serviceLeft(idx, svc.Service)
}

func (s *store) serviceLeft(idx uint64, name string) {
	if len(s.instances(name)) > 0 {
		s.touchService(idx, name)
		return
	}
	delete(s.serviceIndex, lower(name))
	s.eventIndex[lower(name)] = idx
	s.extinction = idx
}

func (s *store) ensureCheck(idx uint64, now time.Time, c healthCheck) error {
	key := lower(c.Node)
	if s.nodes[key] == nil {
		return errMissingNode
	}
	if c.Status == "" {
		c.Status = critical
	}
	if c.ServiceID != "" {
		svc := s.services[serviceKey{key, lower(c.ServiceID)}]
		if svc == nil {
			return errMissingService
		}
		c.ServiceName, c.ServiceTags = svc.Service, svc.Tags
	}
	ck := checkKey{key, lower(c.CheckID)}
	old := s.checks[ck]
	modified := old == nil || !c.same(old)
	if modified {
		s.touchCheck(idx, &c)
	}
	if c.Status == critical {
		s.checkFailed(idx, now, c.Node, c.CheckID)
	}
	if !modified {
		return nil
	}
	c.CreateIndex, c.ModifyIndex = idx, idx
	if old != nil {
		c.CreateIndex = old.CreateIndex
	}
	s.checks[ck] = &c
	s.checksIndex = idx
	return nil
}

func (s *store) deleteCheck(idx uint64, now time.Time, nodeName, id string) {
	ck := checkKey{lower(nodeName), lower(id)}
	c := s.checks[ck]
	if c == nil {
		return
	}
	s.touchCheck(idx, c)
	if c.ServiceID == "" {
		s.servicesIndex = idx
	}
	delete(s.checks, ck)
	s.checksIndex = idx
	s.checkFailed(idx, now, c.Node, c.CheckID)
}

func (s *store) deleteNode(idx uint64, now time.Time, nodeName string) {
	key := lower(nodeName)
	n := s.nodes[key]
	if n == nil {
		return
	}
	for _, svc := range s.servicesOf(n.Node) {
		s.deleteService(idx, now, n.Node, svc.ID)
	}
	for _, c := range s.checksOf(n.Node, "") {
		s.deleteCheck(idx, now, n.Node, c.CheckID)
	}
	delete(s.nodes, key)
	delete(s.nodeIndex, key)
	s.nodesIndex, s.nodeGone = idx, idx
	for _, sess := range s.sessionList(n.Node) {
		s.deleteSession(idx, now, sess.ID)
	}
}

// touchCheck moves the index of what the check speaks of: one service, or every
// service of its node.
func (s *store) touchCheck(idx uint64, c *healthCheck) {
	if c.ServiceID != "" {
		s.touchService(idx, c.ServiceName)
		return
	}
	s.touchServicesOf(idx, lower(c.Node))
}

func (s *store) touchService(idx uint64, name string) {
	s.serviceIndex[lower(name)], s.eventIndex[lower(name)] = idx, idx
}

func (s *store) touchServicesOf(idx uint64, nodeKey string) {
	for sk, svc := range s.services {
		if sk.node == nodeKey {
			s.touchService(idx, svc.Service)
		}
	}
}

// indexOf is what a query for a service reports. checks says whether the answer
// shows checks too, which matters only before anything was ever registered.
func (s *store) indexOf(name string, checks bool) uint64 {
	name = lower(name)
	if s.extinction > 0 && len(s.instances(name)) == 0 {
		return s.extinction
	}
	if idx, ok := s.serviceIndex[name]; ok {
		return idx
	}
	idx := max(s.nodesIndex, s.servicesIndex)
	if checks {
		idx = max(idx, s.checksIndex)
	}
	return idx
}

func (s *store) instances(name string) []checkServiceNode {
	name = lower(name)
	var out []checkServiceNode
	for sk, svc := range s.services {
		if lower(svc.Service) == name {
			out = append(out, checkServiceNode{Node: s.nodes[sk.node], Service: svc})
		}
	}
	slices.SortFunc(out, func(a, b checkServiceNode) int {
		return cmp.Or(cmp.Compare(lower(a.Node.Node), lower(b.Node.Node)), cmp.Compare(lower(a.Service.ID), lower(b.Service.ID)))
	})
	return out
}

// withChecks are the instances of a service with the checks of their node first
// and their own after.
func (s *store) withChecks(name string) []checkServiceNode {
	out := s.instances(name)
	for i := range out {
		out[i].Checks = append(s.checksOf(out[i].Node.Node, ""), s.checksOf(out[i].Node.Node, out[i].Service.ID)...)
	}
	return out
}

// checksOf are a node's checks that belong to one instance, or to none ("").
func (s *store) checksOf(nodeName, serviceID string) []*healthCheck {
	return sortedValues(s.checks, func(c *healthCheck) bool {
		return strings.EqualFold(c.Node, nodeName) && strings.EqualFold(c.ServiceID, serviceID)
	}, byCheckID)
}

func (s *store) servicesOf(nodeName string) map[string]*nodeService {
	out := map[string]*nodeService{}
	for sk, svc := range s.services {
		if sk.node == lower(nodeName) {
			out[svc.ID] = svc
		}
	}
	return out
}

type catalogRegistration struct {
	ID              string
	Node            string
	Address         string
	TaggedAddresses map[string]string
	NodeMeta        map[string]string
	Datacenter      string
	Service         *nodeService
	Check           *healthCheck
	Checks          []*healthCheck
	SkipNodeUpdate  bool
}

// register applies one registration; the caller gives a clone, as it may fail
// after the node was written.
func (s *store) register(idx uint64, now time.Time, r *catalogRegistration) error {
	n := node{
		ID: r.ID, Node: r.Node, Address: r.Address, Datacenter: r.Datacenter,
		TaggedAddresses: r.TaggedAddresses, Meta: r.NodeMeta,
	}
	if s.nodes[lower(r.Node)] == nil || !r.SkipNodeUpdate {
		s.ensureNode(idx, n)
	}
	if r.Service != nil {
		if err := s.ensureService(idx, r.Node, *r.Service); err != nil {
			return fmt.Errorf("failed inserting service: %w", err)
		}
	}
	for _, c := range r.Checks {
		if !strings.EqualFold(c.Node, r.Node) {
			return say("Node '%s' for check '%s' doesn't match register request node '%s'", c.Node, c.CheckID, r.Node)
		}
		if err := s.ensureCheck(idx, now, *c); err != nil {
			if errors.Is(err, errMissingService) {
				return say("Unknown service ID '%s' for check ID '%s'", c.ServiceID, c.CheckID)
			}
			return fmt.Errorf("failed inserting check on node %q: %w", r.Node, err)
		}
	}
	return nil
}
