package dev

import (
	"net/http"
	"slices"
	"strings"
)

// agentHealthCheck is a check as the agent's own health endpoints show it: the
// client library's struct, with every field of its definition empty.
type agentHealthCheck struct {
	Node        string
	CheckID     string
	Name        string
	Status      string
	Notes       string
	Output      string
	ServiceID   string
	ServiceName string
	ServiceTags []string
	Type        string
	ExposedPort int
	Definition  emptyDefinition
	CreateIndex uint64
	ModifyIndex uint64
}

type emptyDefinition struct {
	Interval, Timeout, DeregisterCriticalServiceAfter duration
	HTTP                                              string
	Header                                            map[string][]string
	Method, Body, TLSServerName                       string
	TLSSkipVerify                                     bool
	TCP, UDP, GRPC, OSService                         string
	GRPCUseTLS                                        bool
}

type serviceHealth struct {
	AggregatedStatus string
	Service          *agentService
	Checks           []agentHealthCheck
}

// healthOf is a service's status on this agent: its checks and the node's.
func (r *Registry) healthOf(svc *nodeService) (int, serviceHealth) {
	var checks []*healthCheck
	for _, ac := range r.agent.checks {
		if ac.check.ServiceID == svc.ID || ac.check.ServiceID == "" {
			checks = append(checks, &ac.check)
		}
	}
	slices.SortFunc(checks, byCheckID)
	out := serviceHealth{AggregatedStatus: aggregated(checks), Service: r.shown(svc), Checks: []agentHealthCheck{}}
	for _, c := range checks {
		out.Checks = append(out.Checks, agentHealthCheck{
			Node: c.Node, CheckID: c.CheckID, Name: c.Name, Status: c.Status, Notes: c.Notes, Output: c.Output,
			ServiceID: c.ServiceID, ServiceName: c.ServiceName, ServiceTags: c.ServiceTags,
		})
	}
	switch out.AggregatedStatus {
	case passing:
		return http.StatusOK, out
	case warning:
		return http.StatusTooManyRequests, out
	}
	return http.StatusServiceUnavailable, out
}

func wantsText(req *http.Request) bool {
	if strings.HasPrefix(req.Header.Get("Accept"), "text/plain") {
		return true
	}
	return req.URL.Query().Get("format") == "text"
}

func (r *Registry) agentHealthByID(w http.ResponseWriter, req *http.Request) (any, error) {
	id := strings.TrimPrefix(req.URL.Path, "/v1/agent/health/service/id/")
	if id == "" {
		return nil, failf(http.StatusBadRequest, "Missing serviceID")
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	code, reason := http.StatusNotFound, "ServiceId "+id+" not found"
	out := serviceHealth{AggregatedStatus: critical}
	r.mu.Lock()
	if svc := r.agent.services[id]; svc != nil {
		code, out = r.healthOf(svc)
		reason = out.AggregatedStatus
	}
	r.mu.Unlock()
	return healthAnswer(w, req, code, reason, out)
}

func (r *Registry) agentHealthByName(w http.ResponseWriter, req *http.Request) (any, error) {
	name := strings.TrimPrefix(req.URL.Path, "/v1/agent/health/service/name/")
	if name == "" {
		return nil, failf(http.StatusBadRequest, "Missing service Name")
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	code, reason := http.StatusNotFound, "ServiceName "+name+" Not Found"
	out := []serviceHealth{}
	r.mu.Lock()
	for _, svc := range r.agent.services {
		if svc.Service != name {
			continue
		}
		c, h := r.healthOf(svc)
		out = append(out, h)
		// The worst: 200 < 429 < 503.
		if code == http.StatusNotFound || code < c {
			code, reason = c, h.AggregatedStatus
		}
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b serviceHealth) int { return strings.Compare(a.Service.ID, b.Service.ID) })
	return healthAnswer(w, req, code, reason, out)
}

func healthAnswer(w http.ResponseWriter, req *http.Request, code int, reason string, out any) (any, error) {
	w.Header().Set("X-Consul-Reason", printable(reason))
	if wantsText(req) {
		return plain(reason), codeError{code}
	}
	return out, codeError{code}
}
