package dev

import (
	"fmt"
	"strings"
	"time"
)

// agent is what this agent was told by its clients. The catalog gets a copy of
// each change; a catalog that was changed behind the agent's back is put right
// once a minute, as Consul's anti-entropy does.
type agent struct {
	id       string
	services map[string]*nodeService
	checks   map[string]*agentCheck
}

type agentCheck struct {
	check healthCheck
	def   *checkType // nil for maintenance

	since      time.Time // when it went critical by an update; zero else
	expires    time.Time // TTL checks; zero once expired
	lastOutput string    // of the last TTL update
	writeBack  time.Time // when a changed output reaches the catalog; zero if none waits
	nextProbe  time.Time
	probing    bool
	successes  int
	failures   int
}

const (
	checkMinInterval = time.Second
	checkMaxOutput   = 4096            // bytes, Consul's default
	outputWriteBack  = 5 * time.Minute // Consul's check_update_interval
)

// addService takes a service with its checks, keeping the status of those that
// were there, and drops the others if replace is set.
func (r *Registry) addService(svc *nodeService, defs []*checkType, replace bool) error {
	if svc.Weights == nil {
		svc.Weights = &weights{1, 1}
	}
	svc.TaggedAddresses = taggedAddresses(svc)
	old := r.agent.services[svc.ID]
	inSync := old != nil && svc.same(old)
	r.agent.services[svc.ID] = svc

	keep := map[string]bool{}
	var push []*healthCheck
	for i, def := range defs {
		id := def.CheckID
		if id == "" {
			id = "service:" + svc.ID
			if len(defs) > 1 {
				id += fmt.Sprintf(":%d", i+1)
			}
		}
		name := def.Name
		if name == "" {
			name = fmt.Sprintf("Service '%s' check", svc.Service)
		}
		keep[id] = true
		c := healthCheck{
			Node: r.opts.NodeName, CheckID: id, Name: name, Status: critical, Notes: def.Notes,
			ServiceID: svc.ID, ServiceName: svc.Service, ServiceTags: svc.Tags, Type: def.kind(),
		}
		if def.Interval != 0 {
			c.Interval = time.Duration(def.Interval).String()
		}
		if def.Timeout != 0 {
			c.Timeout = time.Duration(def.Timeout).String()
		}
		if def.Status != "" {
			c.Status = def.Status
		}
		prev := r.agent.checks[id]
		if prev != nil {
			c.Output, c.Status = prev.check.Output, prev.check.Status
		}
		if prev == nil || !c.same(&prev.check) {
			push = append(push, &c)
		}
		r.agent.checks[id] = r.newCheck(c, def, prev)
	}
	if !inSync || len(push) > 0 {
		reg := r.self()
		reg.SkipNodeUpdate = true
		reg.Service, reg.Checks = svc, push
		if err := r.register(reg); err != nil {
			return err
		}
	}
	if replace {
		for id, c := range r.agent.checks {
			if c.check.ServiceID == svc.ID && !keep[id] {
				r.dropCheck(id)
			}
		}
	}
	r.changed()
	r.poke()
	return nil
}

func (r *Registry) newCheck(c healthCheck, def *checkType, prev *agentCheck) *agentCheck {
	ac := &agentCheck{check: c, def: def}
	if prev != nil {
		ac.writeBack = prev.writeBack
	}
	if def == nil {
		return ac
	}
	if def.TTL > 0 {
		ac.expires = r.now().Add(time.Duration(def.TTL))
		return ac
	}
	def.Interval = duration(max(time.Duration(def.Interval), checkMinInterval))
	ac.nextProbe = r.now()
	return ac
}

// addCheck takes one check; def is nil for maintenance.
func (r *Registry) addCheck(c healthCheck, def *checkType) error {
	if c.ServiceID != "" {
		svc := r.agent.services[c.ServiceID]
		c.ServiceName, c.ServiceTags = svc.Service, svc.Tags
	}
	prev := r.agent.checks[c.CheckID]
	if prev != nil {
		c.Status, c.Output = prev.check.Status, prev.check.Output
	}
	ac := r.newCheck(c, def, prev)
	if prev != nil && c.Status == critical {
		ac.since = r.now()
	}
	r.agent.checks[c.CheckID] = ac
	r.poke()
	if prev != nil && c.same(&prev.check) {
		return nil
	}
	return r.pushCheck(&ac.check)
}

func (r *Registry) pushCheck(c *healthCheck) error {
	reg := r.self()
	reg.SkipNodeUpdate = true
	copied := *c
	reg.Checks = []*healthCheck{&copied}
	if c.ServiceID != "" {
		reg.Service = r.agent.services[c.ServiceID]
	}
	return r.register(reg)
}

// updateCheck is the news of a check. A status reaches the catalog at once; an
// output alone waits, so that chatty checks do not wake every reader.
func (r *Registry) updateCheck(ac *agentCheck, status, output string) {
	switch {
	case status != critical:
		ac.since = time.Time{}
	case ac.since.IsZero():
		ac.since = r.now()
	}
	if ac.check.Status == status && ac.check.Output == output {
		return
	}
	sameStatus := ac.check.Status == status
	ac.check.Status, ac.check.Output = status, output
	if sameStatus {
		if ac.writeBack.IsZero() {
			ac.writeBack = r.now().Add(outputWriteBack)
			r.poke()
		}
		r.changed()
		return
	}
	ac.writeBack = time.Time{}
	_ = r.pushCheck(&ac.check) // cannot fail: node and service are in the request
}

func (r *Registry) dropService(id string) {
	delete(r.agent.services, id)
	for checkID, c := range r.agent.checks {
		if c.check.ServiceID == id {
			delete(r.agent.checks, checkID)
		}
	}
	_ = r.writeLocked(func(s *store, idx uint64) error {
		s.deleteService(idx, r.now(), r.opts.NodeName, id)
		return nil
	})
}

func (r *Registry) dropCheck(id string) {
	delete(r.agent.checks, id)
	_ = r.writeLocked(func(s *store, idx uint64) error {
		s.deleteCheck(idx, r.now(), r.opts.NodeName, id)
		return nil
	})
}

// resync makes this node's part of the catalog what the agent knows.
func (r *Registry) resync() {
	for _, svc := range r.store.servicesOf(r.opts.NodeName) {
		if r.agent.services[svc.ID] == nil && svc.ID != "consul" {
			_ = r.writeLocked(func(s *store, idx uint64) error {
				s.deleteService(idx, r.now(), r.opts.NodeName, svc.ID)
				return nil
			})
		}
	}
	for _, svc := range r.agent.services {
		have := r.store.services[serviceKey{lower(r.opts.NodeName), lower(svc.ID)}]
		if have == nil || !have.same(svc) {
			reg := r.self()
			reg.Service = svc
			_ = r.register(reg)
		}
	}
	for _, ac := range r.agent.checks {
		have := r.store.checks[checkKey{lower(r.opts.NodeName), lower(ac.check.CheckID)}]
		if have == nil || have.Status != ac.check.Status {
			_ = r.pushCheck(&ac.check)
		}
	}
	for key, c := range r.store.checks {
		if key.node == lower(r.opts.NodeName) && c.CheckID != serfCheckID && r.agent.checks[c.CheckID] == nil {
			_ = r.writeLocked(func(s *store, idx uint64) error {
				s.deleteCheck(idx, r.now(), r.opts.NodeName, c.CheckID)
				return nil
			})
		}
	}
}

// taggedAddresses adds the ones that Consul adds for an IP address.
func taggedAddresses(svc *nodeService) map[string]serviceAddress {
	out := map[string]serviceAddress{}
	for k, v := range svc.TaggedAddresses {
		out[k] = v
	}
	family := ipFamily(svc.Address)
	if family == "" {
		return out
	}
	for _, scope := range []string{"lan_", "wan_"} {
		if _, ok := out[scope+family]; !ok {
			out[scope+family] = serviceAddress{svc.Address, svc.Port}
		}
	}
	return out
}

func truncate(output string) string {
	if len(output) <= checkMaxOutput {
		return output
	}
	return fmt.Sprintf("%s ... (captured %d of %d bytes)", output[:checkMaxOutput], checkMaxOutput, len(output))
}

// aggregated is the worst status of checks; a maintenance check wins.
func aggregated(checks []*healthCheck) string {
	worst := passing
	for _, c := range checks {
		switch {
		case c.CheckID == nodeMaintID || strings.HasPrefix(c.CheckID, serviceMaintPrefix):
			return "maintenance"
		case c.Status == critical:
			worst = critical
		case c.Status == warning && worst != critical:
			worst = warning
		}
	}
	return worst
}
