package printer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/iostreams"
	"lane/pkg/lane"
)

// The schemas of the lanes in the registry.
const (
	LanesSchema = "lane.ls/v1"
	LaneSchema  = "lane.show/v1"
)

// stateNoInstance is the state of a service that is claimed and not there: its
// callers get an error.
const stateNoInstance = "no instance"

// Lanes is every lane in the registry: `lane ls`.
type Lanes struct {
	Schema string    `json:"schema"`
	Lanes  []LaneRow `json:"lanes"`
}

// LaneRow is one lane in short.
type LaneRow struct {
	Lane     string         `json:"lane"`
	State    string         `json:"state"`            // of the worst service
	Killed   bool           `json:"killed,omitempty"` // the baseline serves its requests
	Owners   []string       `json:"owners"`
	Services []ServiceState `json:"services"`
}

// ServiceState is one service of a lane in short.
type ServiceState struct {
	Service string `json:"service"`
	State   string `json:"state"`
	Owner   string `json:"owner"`
	Host    string `json:"host"`
	Since   string `json:"since"` // by the holder's own clock
}

// LaneDetail is one lane in full: `lane show`.
type LaneDetail struct {
	Schema   string        `json:"schema"`
	Lane     string        `json:"lane"`
	State    string        `json:"state"`
	Killed   bool          `json:"killed,omitempty"` // the baseline serves its requests
	Services []LaneService `json:"services"`
}

// LaneService is one service of a lane in full.
type LaneService struct {
	ServiceState
	Declared   bool           `json:"declared"` // a claim stands with a session
	Mode       string         `json:"mode"`
	Registered string         `json:"registered"`
	Session    string         `json:"session"`
	Install    string         `json:"install"`
	Relay      string         `json:"relay,omitempty"`  // that holds the claim for the owner's machine, and leads there
	Vacant     bool           `json:"vacant,omitempty"` // the relay has taken the instance out itself, and waits for its laptop
	Active     string         `json:"active"`           // the holder's own clock, of its last request
	Instances  []LaneInstance `json:"instances"`
}

// LaneInstance is one instance of a service in a lane.
type LaneInstance struct {
	ID         string `json:"id"`
	Registered string `json:"registered"`
	Addr       string `json:"addr"`
	Node       string `json:"node"`
	Health     string `json:"health"`
	Note       string `json:"note"`
	Owner      string `json:"owner"`
	Local      bool   `json:"local"`
	Draining   bool   `json:"draining"`
	Weight     int    `json:"weight"`
	Env        string `json:"env"`
	Tenant     string `json:"tenant"`
	Zone       string `json:"zone"`
	Version    string `json:"version"`
}

// NewLaneDetails joins the claims and the instances (by service) of the lanes
// in the registry, sorted by lane and service.
func NewLaneDetails(claims []lane.Claim, instances map[string][]lane.Instance) []LaneDetail {
	type key struct{ lane, service string }
	found := map[key]*LaneService{}
	at := func(l, service string) *LaneService {
		k := key{l, service}
		if found[k] == nil {
			found[k] = &LaneService{ServiceState: ServiceState{Service: service}, Instances: []LaneInstance{}}
		}
		return found[k]
	}
	for _, c := range claims {
		s := at(string(c.Lane), c.Service)
		s.Owner, s.Host, s.Since, s.Install, s.Session = c.Owner, c.Host, c.Since, c.Install, c.Session
		s.Mode, s.Registered, s.Declared, s.Active, s.Relay = c.Mode, c.Registered, c.Session != "", c.Active, c.Relay
		s.Vacant = c.Vacant
	}
	for service, list := range instances {
		for _, i := range list {
			l := cmp.Or(i.MetaLane, i.MetaTag)
			if l == "" {
				continue // the baseline's
			}
			s := at(l, service)
			s.Owner = cmp.Or(s.Owner, i.Owner)
			s.Registered = cmp.Or(s.Registered, i.Registered)
			s.Instances = append(s.Instances, LaneInstance{
				ID: i.ID, Registered: i.Registered, Addr: i.Addr, Node: i.Node, Health: healthWord(i.Health), Note: i.HealthNote,
				Owner: i.Owner, Local: i.Local, Draining: i.Draining || i.Weight == 0, Weight: i.Weight,
				Env: i.Env, Tenant: i.Tenant, Zone: i.Zone, Version: i.Version,
			})
		}
	}
	byLane := map[string]*LaneDetail{}
	for k, s := range found {
		slices.SortFunc(s.Instances, func(a, b LaneInstance) int { return cmp.Compare(a.ID, b.ID) })
		s.State = serviceState(s)
		if byLane[k.lane] == nil {
			byLane[k.lane] = &LaneDetail{Schema: LaneSchema, Lane: k.lane}
		}
		byLane[k.lane].Services = append(byLane[k.lane].Services, *s)
	}
	out := make([]LaneDetail, 0, len(byLane))
	for _, d := range byLane {
		slices.SortFunc(d.Services, func(a, b LaneService) int { return cmp.Compare(a.Service, b.Service) })
		d.State = worst(d.Services)
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b LaneDetail) int { return cmp.Compare(a.Lane, b.Lane) })
	return out
}

// NewLanes is NewLaneDetails in short.
func NewLanes(claims []lane.Claim, instances map[string][]lane.Instance) Lanes {
	out := Lanes{Schema: LanesSchema, Lanes: []LaneRow{}}
	for _, d := range NewLaneDetails(claims, instances) {
		row := LaneRow{Lane: d.Lane, State: d.State, Owners: []string{}}
		for _, s := range d.Services {
			row.Services = append(row.Services, s.ServiceState)
			if s.Owner != "" && !slices.Contains(row.Owners, s.Owner) {
				row.Owners = append(row.Owners, s.Owner)
			}
		}
		out.Lanes = append(out.Lanes, row)
	}
	return out
}

// states are the states of a service in a lane, best first.
var states = []string{stateExposed, "up", "warning", "draining", "not claimed", "critical", stateNoInstance}

// stateExposed is a port that `lane expose` leads to: it stands under its isolated name
// alone, and is no part of what the lane serves by routing.
const stateExposed = "exposed"

// serviceState is the best that a caller with the lane's tag can get.
func serviceState(s *LaneService) string {
	best := len(states) - 1 // no instance
	for _, i := range s.Instances {
		state := map[string]string{"passing": "up", "warning": "warning", "critical": "critical"}[i.Health]
		if i.Draining {
			state = "draining"
		}
		best = min(best, slices.Index(states, state))
	}
	if states[best] == "up" && !s.Declared {
		if onlyName(s) != "" { // that needs no claim: who dials it means it
			return stateExposed
		}
		return "not claimed" // somebody else's registration, or a leftover
	}
	return states[best]
}

func worst(services []LaneService) string {
	w := 0
	for _, s := range services {
		w = max(w, slices.Index(states, s.State))
	}
	return states[w]
}

func healthWord(h lane.Health) string {
	switch h {
	case lane.Passing:
		return "passing"
	case lane.Warning:
		return "warning"
	}
	return "critical"
}

// PrintLanes writes lanes as a table: lane, state, services, owners, since.
func PrintLanes(s *iostreams.IOStreams, l Lanes) error {
	t := NewTable(s, "LANE", "STATE", "SERVICES", "OWNER", "SINCE").Whole()
	for _, row := range l.Lanes {
		var names []string
		since := ""
		for _, v := range row.Services {
			name := v.Service
			if v.State != row.State {
				name += " (" + v.State + ")"
			}
			names = append(names, name)
			// The first holder's own clock: those of two machines cannot be compared.
			since = cmp.Or(since, v.Since)
		}
		state := As(stateRole(row.State), row.State)
		if row.Killed {
			state = As(Bad, "killed, "+row.State)
		}
		t.Row(As(Lane, row.Lane), state, Text(strings.Join(names, ", ")),
			Text(strings.Join(row.Owners, ", ")), As(Dim, since))
	}
	return t.Flush()
}

// PrintLane writes one lane in full, one fact a line.
func PrintLane(s *iostreams.IOStreams, d *LaneDetail) error {
	t := NewTable(s).Whole()
	t.Row(Text("lane"), As(Lane, d.Lane), As(stateRole(d.State), d.State))
	if d.Killed {
		t.Row(Text("killed"), As(Bad, "the baseline serves its requests"))
	}
	for _, v := range d.Services {
		t.Row(Text("service"), Text(v.Service), As(stateRole(v.State), v.State))
		held := "not claimed: an instance that is missing here is a fallback"
		if only := onlyName(&v); only != "" {
			held = "exposed, and nobody is routed to it: who dials " + only + " reaches it"
		}
		if v.Declared {
			held = fmt.Sprintf("claimed by %s at %s since %s", orUnknown(v.Owner), orUnknown(v.Host), orUnknown(v.Since))
			if v.Active != "" {
				held += ", last active " + v.Active
			}
			held += " (their clock)"
			if v.Relay != "" {
				held += ", by the relay " + v.Relay
				if v.Vacant {
					held += ", which has taken its instance out: callers get an error until " + orUnknown(v.Host) + " has a tunnel again"
				} else {
					held += ": its instance leads through a tunnel to " + orUnknown(v.Host)
				}
			}
		}
		t.Row(Text("claim"), Text(v.Service), Text(held))
		if v.Registered != "" {
			t.Row(Text("registered"), Text(v.Service), Text(v.Registered), Text(v.Mode))
		}
		for _, i := range v.Instances {
			t.Row(Text("instance"), Text(v.Service), Text(i.ID), Text(i.Addr), As(stateRole(i.Health), i.Health), Text(instanceNotes(i)))
		}
	}
	return t.Flush()
}

// onlyName is the one name of a service's instances, if it is not the service's own: a
// caller of the lane looks there where a claim says so, and nowhere else. So it is with
// a port that is exposed.
func onlyName(v *LaneService) string {
	name := ""
	for _, i := range v.Instances {
		if i.Registered == "" || i.Registered == v.Service || name != "" && i.Registered != name {
			return ""
		}
		name = i.Registered
	}
	return name
}

func orUnknown(s string) string { return cmp.Or(s, "unknown") }

func instanceNotes(i LaneInstance) string {
	var n []string
	if i.Local {
		n = append(n, "a developer's machine")
	}
	if i.Draining {
		n = append(n, "draining")
	}
	if i.Weight > 1 {
		n = append(n, "weight "+strconv.Itoa(i.Weight))
	}
	for _, f := range [][2]string{{"env", i.Env}, {"tenant", i.Tenant}, {"zone", i.Zone}, {"version", i.Version}} {
		if f[1] != "" {
			n = append(n, f[0]+" "+f[1])
		}
	}
	if i.Health != "passing" && i.Note != "" {
		n = append(n, i.Note)
	}
	return strings.Join(n, ", ")
}
