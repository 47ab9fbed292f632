package dev

import (
	"net/http"
	"strings"
	"time"
)

// checkBody is a check definition as a client writes it for the agent.
type checkBody struct {
	ID             string
	ServiceID      string
	ServiceIDSnake string `json:"service_id"`
	Token          string
	checkType
}

func (r *Registry) checkRegister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	var b checkBody
	if err := decode(req, &b); err != nil {
		return nil, err
	}
	def := &b.checkType
	def.unify()
	serviceID := orElse(b.ServiceID, b.ServiceIDSnake)
	switch {
	case b.CheckID != "":
		// Consul knows this field of a service's check only.
		return nil, failf(http.StatusBadRequest, "Request decode failed: json: unknown field \"CheckID\"")
	case b.Name == "":
		return nil, failf(http.StatusBadRequest, "Missing check name")
	case b.Status != "" && !validStatus(b.Status):
		return nil, failf(http.StatusBadRequest, "Bad check status")
	}
	if err := def.validate(); err != nil {
		return nil, failf(http.StatusBadRequest, "Invalid check: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if serviceID != "" && r.agent.services[serviceID] == nil {
		return nil, failf(http.StatusNotFound, "ServiceID %q does not exist", serviceID)
	}
	return nil, r.addCheck(healthCheck{
		Node: r.opts.NodeName, CheckID: orElse(b.ID, b.Name), Name: b.Name,
		Status: orElse(b.Status, critical), Notes: b.Notes, ServiceID: serviceID, Type: def.kind(),
		Interval: time.Duration(def.Interval).String(), Timeout: time.Duration(def.Timeout).String(),
	}, def)
}

func (r *Registry) ownCheck(id string) (*agentCheck, error) {
	if ac := r.agent.checks[id]; ac != nil {
		return ac, nil
	}
	return nil, failf(http.StatusNotFound, "Unknown check ID %q. Ensure that the check ID is passed, not the check name.", id)
}

func (r *Registry) checkDeregister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.TrimPrefix(req.URL.Path, "/v1/agent/check/deregister/")
	if _, err := r.ownCheck(id); err != nil {
		return nil, err
	}
	r.dropCheck(id)
	return nil, nil
}

// checkSet is pass, warn and fail.
func (r *Registry) checkSet(status string) handler {
	return func(_ http.ResponseWriter, req *http.Request) (any, error) {
		// /v1/agent/check/pass/ID
		id := strings.SplitN(req.URL.Path, "/", 6)[5]
		return nil, r.beat(req, id, status, req.URL.Query().Get("note"))
	}
}

func (r *Registry) checkUpdate(_ http.ResponseWriter, req *http.Request) (any, error) {
	var b struct{ Status, Output string }
	if err := decode(req, &b); err != nil {
		return nil, err
	}
	if !validStatus(b.Status) {
		return nil, failf(http.StatusBadRequest, "Invalid check status: '%s'", b.Status)
	}
	return nil, r.beat(req, strings.TrimPrefix(req.URL.Path, "/v1/agent/check/update/"), b.Status, b.Output)
}

// beat is a client's news of a TTL check, and starts its time again.
func (r *Registry) beat(req *http.Request, id, status, output string) error {
	if err := enterprise(req); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ac, err := r.ownCheck(id)
	if err != nil {
		return err
	}
	if ac.def == nil || ac.def.TTL <= 0 {
		return failf(http.StatusInternalServerError, "CheckID %q does not have associated TTL", id)
	}
	output = truncate(output)
	r.updateCheck(ac, status, output)
	ac.lastOutput = output
	ac.expires = r.now().Add(time.Duration(ac.def.TTL))
	r.poke()
	return nil
}

func (r *Registry) agentChecks(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	filter, err := newFilter(req.URL.Query().Get("filter"), map[string]*healthCheck{})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	out := map[string]*healthCheck{}
	for id, ac := range r.agent.checks {
		shown := ac.check
		shown.ServiceTags = orEmpty(shown.ServiceTags)
		out[id] = &shown
	}
	r.mu.Unlock()
	return filtered(filter, out)
}
