package dev

import (
	"net/http"
	"strconv"
)

type member struct {
	Name                     string
	Addr                     string
	Port                     int
	Tags                     map[string]string
	Status                   int
	ProtocolMin, ProtocolMax int
	ProtocolCur, DelegateMin int
	DelegateMax, DelegateCur int
}

func (r *Registry) member() member {
	return member{
		Name: r.opts.NodeName, Addr: r.opts.Address, Port: 8301, Status: 1,
		Tags: map[string]string{
			"acls": "0", "build": version + ":", "dc": r.opts.Datacenter, "ft_fs": "1", "ft_si": "1", "id": r.agent.id,
			"port": "8300", "raft_vsn": "3", "role": "consul", "segment": "", "vsn": "2", "vsn_max": "3", "vsn_min": "2",
			"wan_join_port": "8302",
		},
		ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4,
	}
}

func (r *Registry) agentMembers(_ http.ResponseWriter, req *http.Request) (any, error) {
	filter, err := newFilter(req.URL.Query().Get("filter"), []member{})
	if err != nil {
		return nil, err
	}
	return filtered(filter, []member{r.member()})
}

func (r *Registry) agentSelf(http.ResponseWriter, *http.Request) (any, error) {
	r.mu.Lock()
	index := strconv.FormatUint(r.store.index, 10)
	services, checks := strconv.Itoa(len(r.agent.services)), strconv.Itoa(len(r.agent.checks))
	r.mu.Unlock()
	return map[string]any{
		"Config": map[string]any{
			"Datacenter": r.opts.Datacenter, "PrimaryDatacenter": r.opts.Datacenter,
			"NodeName": r.opts.NodeName, "NodeID": r.agent.id, "Revision": "",
			"Server": true, "Version": version, "BuildDate": "1970-01-01T00:00:01Z",
		},
		"DebugConfig": map[string]any{
			"ACLsEnabled": false, "Datacenter": r.opts.Datacenter, "DevMode": true, "DataDir": "",
			"HTTPMaxConnsPerClient": 200, "KVMaxValueSize": maxKVValue, "NodeName": r.opts.NodeName,
			"ServerMode": true, "UseStreamingBackend": true, "Version": version,
			"CheckDeregisterIntervalMin": minReapAfter.String(), "CheckReapInterval": r.opts.ReapEvery.String(),
		},
		"Coord":  map[string]any{"Vec": make([]float64, 8), "Error": 1.5, "Adjustment": 0, "Height": 0.00001},
		"Member": r.member(),
		"Stats": map[string]any{
			"agent":  map[string]string{"check_monitors": "0", "check_ttls": checks, "checks": checks, "services": services},
			"build":  map[string]string{"prerelease": "", "revision": "", "version": version, "version_metadata": ""},
			"consul": map[string]string{"acl": "disabled", "bootstrap": "false", "known_datacenters": "1", "leader": "true", "leader_addr": rpcAddress, "server": "true"},
			"raft":   map[string]string{"applied_index": index, "commit_index": index, "last_log_index": index, "state": "Leader", "num_peers": "0"},
		},
		"Meta": map[string]string{"consul-network-segment": ""},
	}, nil
}
