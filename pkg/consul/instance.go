package consul

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// maxNote bounds what is kept of a check's output: it can be a whole page.
const maxNote = 256

// instances converts what the registry answered, sorted by ID.
func instances(registered string, entries []*api.ServiceEntry) []lane.Instance {
	out := make([]lane.Instance, 0, len(entries))
	for _, e := range entries {
		if e.Service == nil || e.Node == nil {
			continue
		}
		out = append(out, instance(registered, e))
	}
	slices.SortFunc(out, func(a, b lane.Instance) int {
		if c := strings.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return strings.Compare(a.Node, b.Node) // an ID is unique on its node only
	})
	return out
}

func instance(registered string, e *api.ServiceEntry) lane.Instance {
	m := e.Service.Meta
	health, note := worst(e.Checks)
	return lane.Instance{
		ID: e.Service.ID, Addr: dialAddr(e), Node: e.Node.Node,
		MetaLane: m[MetaLane], MetaTag: m[MetaTag],
		Env: m[MetaEnv], Tenant: m[MetaTenant], Zone: m[MetaZone], Version: m[MetaVersion], Group: m[MetaGroup],
		Health: health, HealthNote: note,
		Weight: weight(m[MetaWeight], e.Service.Weights.Passing), Draining: m[MetaDraining] == "true",
		Local: m[MetaLocal] == "true", Owner: m[MetaOwner], Registered: registered,
	}
}

// dialAddr is the service's address, or the node's where the service has none.
func dialAddr(e *api.ServiceEntry) string {
	host := e.Service.Address
	if host == "" {
		host = e.Node.Address
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return net.JoinHostPort(host, strconv.Itoa(e.Service.Port))
}

// worst is the health of the worst check, node checks included, and its output.
// Maintenance is a critical check; an unknown status is critical.
func worst(checks api.HealthChecks) (lane.Health, string) {
	health, note := lane.Passing, ""
	for _, c := range checks {
		h := lane.Critical
		switch c.Status {
		case api.HealthPassing:
			h = lane.Passing
		case api.HealthWarning:
			h = lane.Warning
		}
		if h > health {
			health, note = h, c.Output
			if note == "" {
				note = c.Notes
			}
			if note == "" {
				note = c.Name
			}
		}
	}
	if len(note) > maxNote {
		note = strings.ToValidUTF8(note[:maxNote], "") + "..."
	}
	return health, strings.TrimSpace(note)
}

// weight is the metadata's if that is a number, else the registry's own.
func weight(meta string, passing int) int {
	if n, err := strconv.Atoi(meta); err == nil && n >= 0 && n <= 65535 {
		return n
	}
	if passing < 1 {
		return 1
	}
	return passing
}
