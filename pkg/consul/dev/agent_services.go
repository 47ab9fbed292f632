package dev

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// serviceBody is a service definition as a client writes it for the agent.
type serviceBody struct {
	Kind                   string
	ID                     string
	Name                   string
	Tags                   []string
	Address                string
	TaggedAddresses        map[string]serviceAddress
	TaggedAddressesSnake   map[string]serviceAddress `json:"tagged_addresses"`
	Meta                   map[string]string
	Port                   int
	SocketPath             string
	Check                  *checkType
	Checks                 []*checkType
	Weights                *weights
	Token                  string
	EnableTagOverride      bool
	EnableTagOverrideSnake bool `json:"enable_tag_override"`
	Proxy                  json.RawMessage
	Connect                json.RawMessage
}

func (r *Registry) serviceRegister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	var body serviceBody
	if err := decode(req, &body); err != nil {
		return nil, err
	}
	svc, defs, err := body.service()
	if err != nil {
		return nil, err
	}
	replace := req.URL.Query()["replace-existing-checks"]
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, r.addService(svc, defs, len(replace) > 0 && (replace[0] == "" || replace[0] == "true"))
}

func (b *serviceBody) service() (*nodeService, []*checkType, error) {
	mesh := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" && string(raw) != "{}" }
	switch {
	case b.Name == "":
		return nil, nil, failf(http.StatusBadRequest, "Missing service name")
	case anyAddress(b.Address):
		return nil, nil, failf(http.StatusBadRequest, "Invalid service address")
	case b.Kind != "" || mesh(b.Proxy) || mesh(b.Connect):
		return nil, nil, failf(http.StatusBadRequest, "Validation failed: this registry has no service mesh: leave out Kind, Proxy and Connect")
	}
	if err := validateWeights(b.Weights); err != nil {
		return nil, nil, err
	}
	if err := validateMeta(b.Meta); err != nil {
		return nil, nil, failf(http.StatusBadRequest, "Invalid Service Meta: %v", err)
	}
	var defs []*checkType
	if b.Check != nil {
		if b.Check.unify(); !b.Check.empty() {
			defs = append(defs, b.Check)
		}
	}
	for _, c := range b.Checks {
		if c == nil {
			return nil, nil, failf(http.StatusBadRequest, "Invalid check: null")
		}
		c.unify()
		defs = append(defs, c)
	}
	for _, c := range defs {
		if err := c.validate(); err != nil {
			return nil, nil, failf(http.StatusBadRequest, "Invalid check: %v", err)
		}
	}
	for _, c := range defs {
		if c.Status != "" && !validStatus(c.Status) {
			return nil, nil, failf(http.StatusBadRequest, "Status for checks must 'passing', 'warning', 'critical'")
		}
	}
	svc := &nodeService{
		ID: b.ID, Service: b.Name, Tags: b.Tags, Address: b.Address, TaggedAddresses: b.TaggedAddresses,
		Meta: b.Meta, Port: b.Port, SocketPath: b.SocketPath, Weights: b.Weights,
		EnableTagOverride: b.EnableTagOverride || b.EnableTagOverrideSnake,
	}
	if svc.ID == "" {
		svc.ID = svc.Service
	}
	if len(svc.TaggedAddresses) == 0 {
		svc.TaggedAddresses = b.TaggedAddressesSnake
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		for _, scope := range []string{"lan_", "wan_"} {
			a, ok := svc.TaggedAddresses[scope+family]
			if ok && ipFamily(a.Address) != family {
				return nil, nil, say("Service tagged address %q must be a valid %s address", scope+family, family)
			}
		}
	}
	return svc, defs, nil
}

func ipFamily(s string) string {
	ip, err := netip.ParseAddr(s)
	switch {
	case err != nil || ip.Zone() != "":
		return ""
	case ip.Unmap().Is4():
		return "ipv4"
	}
	return "ipv6"
}

// ownService is the service of the path, or Consul's answer for one that this
// agent does not have.
func (r *Registry) ownService(id string) (*nodeService, error) {
	if svc := r.agent.services[id]; svc != nil {
		return svc, nil
	}
	return nil, failf(http.StatusNotFound, "Unknown service ID %q. Ensure that the service ID is passed, not the service name.", id)
}

func (r *Registry) serviceDeregister(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strings.TrimPrefix(req.URL.Path, "/v1/agent/service/deregister/")
	if _, err := r.ownService(id); err != nil {
		return nil, err
	}
	r.dropService(id)
	return nil, nil
}

const (
	nodeMaintReason    = "Maintenance mode is enabled for this node, but no reason was provided. This is a default message."
	serviceMaintReason = "Maintenance mode is enabled for this service, but no reason was provided. This is a default message."
)

func enable(req *http.Request) (bool, error) {
	params := req.URL.Query()
	if !params.Has("enable") {
		return false, failf(http.StatusBadRequest, "Missing value for enable")
	}
	on, err := strconv.ParseBool(params.Get("enable"))
	if err != nil {
		return false, failf(http.StatusBadRequest, "Invalid value for enable: %q", params.Get("enable"))
	}
	return on, nil
}

func (r *Registry) serviceMaintenance(_ http.ResponseWriter, req *http.Request) (any, error) {
	id := strings.TrimPrefix(req.URL.Path, "/v1/agent/service/maintenance/")
	if id == "" {
		return nil, failf(http.StatusBadRequest, "Missing service ID")
	}
	on, err := enable(req)
	if err != nil {
		return nil, err
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	svc, err := r.ownService(id)
	if err != nil {
		return nil, err
	}
	return nil, r.maintenance(on, healthCheck{
		CheckID: serviceMaintPrefix + id, Name: "Service Maintenance Mode", ServiceID: svc.ID,
		Notes: orElse(req.URL.Query().Get("reason"), serviceMaintReason),
	})
}

func (r *Registry) nodeMaintenance(_ http.ResponseWriter, req *http.Request) (any, error) {
	on, err := enable(req)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return nil, r.maintenance(on, healthCheck{
		CheckID: nodeMaintID, Name: "Node Maintenance Mode",
		Notes: orElse(req.URL.Query().Get("reason"), nodeMaintReason),
	})
}

func (r *Registry) maintenance(on bool, c healthCheck) error {
	_, there := r.agent.checks[c.CheckID]
	switch {
	case on && !there:
		c.Node, c.Status, c.Type = r.opts.NodeName, critical, "maintenance"
		return r.addCheck(c, nil)
	case !on && there:
		r.dropCheck(c.CheckID)
	}
	return nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// agentService is a service as the agent shows its own.
type agentService struct {
	ID                string
	Service           string
	Tags              []string
	Meta              map[string]string
	Port              int
	Address           string
	SocketPath        string                    `json:",omitempty"`
	TaggedAddresses   map[string]serviceAddress `json:",omitempty"`
	Weights           weights
	EnableTagOverride bool
	ContentHash       string `json:",omitempty" bexpr:"-"`
	Datacenter        string `json:",omitempty" bexpr:"-"`
}

func (r *Registry) shown(s *nodeService) *agentService {
	as := &agentService{
		ID: s.ID, Service: s.Service, Tags: orEmpty(s.Tags), Meta: s.Meta, Port: s.Port, Address: s.Address,
		SocketPath: s.SocketPath, TaggedAddresses: s.TaggedAddresses, Weights: *s.Weights,
		EnableTagOverride: s.EnableTagOverride, Datacenter: r.opts.Datacenter,
	}
	if as.Meta == nil {
		as.Meta = map[string]string{}
	}
	return as
}

func (r *Registry) agentServices(_ http.ResponseWriter, req *http.Request) (any, error) {
	if err := enterprise(req); err != nil {
		return nil, err
	}
	filter, err := newFilter(req.URL.Query().Get("filter"), map[string]*agentService{})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	out := map[string]*agentService{}
	for id, svc := range r.agent.services {
		out[id] = r.shown(svc)
	}
	r.mu.Unlock()
	return filtered(filter, out)
}

// agentService shows one service; with ?hash it waits until it is another.
func (r *Registry) agentService(w http.ResponseWriter, req *http.Request) (any, error) {
	q := queryOptions{params: req.URL.Query()}
	if v := q.params.Get("wait"); v != "" {
		wait, err := time.ParseDuration(v)
		if err != nil {
			return nil, failf(http.StatusBadRequest, "Invalid wait time")
		}
		q.wait = wait
	}
	if err := enterprise(req); err != nil {
		return nil, err
	}
	id := strings.TrimPrefix(req.URL.Path, "/v1/agent/service/")
	timer := time.NewTimer(q.timeout(true))
	defer timer.Stop()
	for waiting := true; ; {
		r.mu.Lock()
		svc, news := r.agent.services[id], r.news
		r.mu.Unlock()
		if svc == nil {
			return nil, failf(http.StatusNotFound, "unknown service ID: %s", id)
		}
		out := r.shown(svc)
		out.ContentHash = contentHash(out)
		if hash := q.params.Get("hash"); hash == "" || hash != out.ContentHash || !waiting {
			w.Header().Set("X-Consul-ContentHash", out.ContentHash)
			return out, nil
		}
		select {
		case <-news:
		case <-timer.C:
			waiting = false
		case <-req.Context().Done():
			waiting = false
		case <-r.done:
			waiting = false
		}
	}
}

func contentHash(s *agentService) string {
	data, _ := json.Marshal(s) // cannot fail: strings and numbers
	h := fnv.New64a()
	_, _ = h.Write(data)
	return fmt.Sprintf("%x", h.Sum64())
}
