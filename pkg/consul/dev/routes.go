package dev

import (
	"errors"
	"net/http"
	"slices"
	"strings"
)

func (r *Registry) routes() *http.ServeMux {
	mux := http.NewServeMux()
	get, put := []string{http.MethodGet}, []string{http.MethodPut}
	for _, route := range []struct {
		path    string
		methods []string
		handle  handler
	}{
		{"/v1/acl/token/self", get, aclDisabled},
		{"/v1/agent/self", get, r.agentSelf},
		{"/v1/agent/members", get, r.agentMembers},
		{"/v1/agent/services", get, r.agentServices},
		{"/v1/agent/service/", get, r.agentService},
		{"/v1/agent/checks", get, r.agentChecks},
		{"/v1/agent/maintenance", put, r.nodeMaintenance},
		{"/v1/agent/health/service/id/", get, r.agentHealthByID},
		{"/v1/agent/health/service/name/", get, r.agentHealthByName},
		{"/v1/agent/check/register", put, r.checkRegister},
		{"/v1/agent/check/deregister/", put, r.checkDeregister},
		{"/v1/agent/check/pass/", put, r.checkSet(passing)},
		{"/v1/agent/check/warn/", put, r.checkSet(warning)},
		{"/v1/agent/check/fail/", put, r.checkSet(critical)},
		{"/v1/agent/check/update/", put, r.checkUpdate},
		{"/v1/agent/service/register", put, r.serviceRegister},
		{"/v1/agent/service/deregister/", put, r.serviceDeregister},
		{"/v1/agent/service/maintenance/", put, r.serviceMaintenance},
		{"/v1/catalog/register", put, r.catalogRegister},
		{"/v1/catalog/deregister", put, r.catalogDeregister},
		{"/v1/catalog/datacenters", get, r.catalogDatacenters},
		{"/v1/catalog/nodes", get, late(r.catalogNodes)},
		{"/v1/catalog/services", get, late(r.catalogServices)},
		{"/v1/catalog/service/", get, late(r.catalogService)},
		{"/v1/catalog/node/", get, late(r.catalogNode)},
		{"/v1/catalog/node-services/", get, late(r.catalogNodeServices)},
		{"/v1/health/node/", get, late(r.healthNode)},
		{"/v1/health/checks/", get, late(r.healthChecks)},
		{"/v1/health/state/", get, late(r.healthState)},
		{"/v1/health/service/", get, r.healthService},
		{"/v1/kv/", []string{http.MethodGet, http.MethodPut, http.MethodDelete}, r.kv},
		{"/v1/session/create", put, r.sessionCreate},
		{"/v1/session/destroy/", put, r.sessionDestroy},
		{"/v1/session/renew/", put, r.sessionRenew},
		{"/v1/session/info/", get, late(r.sessionInfo)},
		{"/v1/session/node/", get, late(r.sessionNode)},
		{"/v1/session/list", get, late(r.sessionAll)},
		{"/v1/status/leader", get, r.statusLeader},
		{"/v1/status/peers", get, r.statusPeers},
		{"/v1/txn", put, r.txn},
	} {
		mux.HandleFunc(route.path, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Consul-Default-ACL-Policy", "allow")
			allow := append([]string{http.MethodOptions}, route.methods...)
			switch {
			case req.Method == http.MethodOptions:
				// Which methods there are, and no word on other origins: a web
				// page may not use the registry.
				w.Header().Set("Allow", strings.Join(allow, ","))
			case !slices.Contains(route.methods, req.Method):
				w.Header().Set("Allow", strings.Join(allow, ","))
				writeText(w, http.StatusMethodNotAllowed, "method "+req.Method+" not allowed")
			default:
				v, err := route.handle(w, req)
				answer(w, v, err)
			}
		})
	}
	mux.HandleFunc("/", index)
	return mux
}

func index(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.URL.Path == "/" || strings.HasPrefix(req.URL.Path, "/ui"):
		writeText(w, http.StatusOK, "The embedded registry of lane: Consul's HTTP API under /v1/, no user interface.\n")
	case strings.Contains(req.URL.Path, "/v1/"):
		writeText(w, http.StatusNotFound, "Invalid URL path: not a recognized HTTP API endpoint\n")
	default:
		writeText(w, http.StatusNotFound, "Invalid URL path: if attempting to use the HTTP API, ensure the path starts with '/v1/'\n")
	}
}

func aclDisabled(http.ResponseWriter, *http.Request) (any, error) {
	return nil, failf(http.StatusUnauthorized, "ACL support disabled")
}

const rpcAddress = "127.0.0.1:8300"

func (r *Registry) statusLeader(_ http.ResponseWriter, req *http.Request) (any, error) {
	if _, err := r.query(req); err != nil {
		return nil, err
	}
	return rpcAddress, nil
}

func (r *Registry) statusPeers(_ http.ResponseWriter, req *http.Request) (any, error) {
	if _, err := r.query(req); err != nil {
		return nil, err
	}
	return []string{rpcAddress}, nil
}

// late writes the headers of a read also when the servers refused it.
func late(h handler) handler {
	return func(w http.ResponseWriter, req *http.Request) (any, error) {
		v, err := h(w, req)
		var refused serverError
		if errors.As(err, &refused) {
			meta{}.write(w)
			w.Header().Set("X-Consul-KnownLeader", "false")
		}
		return v, err
	}
}
