package doctor

import (
	"fmt"
	"net/netip"
	"strings"
)

// Address is what came of listening on the advertised address and dialling it.
type Address struct {
	IP      netip.Addr // invalid: it is unknown
	Source  string     // where it comes from
	Err     error
	Service bool // something is to be registered under it
	// Far says that the registry is on another machine, so that the callers are too.
	Far bool
}

// Findings of the address.
func (a Address) Findings() []Finding {
	const check = "address"
	switch {
	case !a.IP.IsValid() && a.Err != nil:
		return Unknown(check, a.Err)
	case !a.IP.IsValid():
		return nil // the registry is away, and it is by the way there that it is found
	case a.Err != nil:
		return []Finding{{check, Wrong, fmt.Sprintf("the advertised address does not lead to this machine: %v", a.Err), where(a.IP.String(), a.Source),
			"give the address under which the environment reaches this machine: --advertise IP"}}
	case a.IP.IsLoopback() && a.Far:
		return []Finding{{check, Wrong, "only this machine reaches the advertised address, and the registry is on another", where(a.IP.String(), a.Source),
			"give the address under which the environment reaches this machine: --advertise IP"}}
	case a.IP.IsLoopback():
		return []Finding{{check, Note, "only this machine reaches the advertised address: enough when the environment is here too", where(a.IP.String(), a.Source), ""}}
	}
	return []Finding{{Check: check, Level: Well, What: "the advertised address leads to this machine; whether the environment reaches it, only a call from there can tell",
		Where: where(a.IP.String(), a.Source)}}
}

// Port is one port of this machine that lane wants, or wants to find open.
type Port struct {
	Port   int
	Addr   string
	For    string // "the coloring proxy", or a service
	Source string
	Open   bool
	Holder string // who listens there; empty: unknown
	Ours   string // the lane whose session listens there
	// Proxy says that lane wants to listen there itself; Fixed, that it may not take
	// the next one.
	Proxy, Fixed bool
	GOOS         string
}

// Findings of the port.
func (p Port) Findings() []Finding {
	const check = "ports"
	f := Finding{Check: check, Level: Well, Where: where(p.Addr, p.Source)}
	holder := p.Holder
	if holder == "" {
		holder = "another program"
	}
	switch {
	case p.Proxy && p.Ours != "":
		f.What = "the coloring proxy of lane " + p.Ours + " listens here"
	case p.Proxy && !p.Open:
		f.What = "free for the coloring proxy"
	case p.Proxy && p.Fixed:
		f.Level, f.What, f.Do = Wrong, holder+" listens where the coloring proxy is to", "end it, or set another --proxy; port 0 takes a free one"
	case p.Proxy:
		f.Level, f.What = Note, holder+" listens here: the coloring proxy takes the next free port"
	case !p.Open:
		f.Level, f.What, f.Do = Note, "nothing listens here yet for "+p.For, "start the local process: until then its lane answers with an error"
	default:
		f.What = holder + " listens here for " + p.For
	}
	if p.Open && p.GOOS == "darwin" && (p.Port == 5000 || p.Port == 7000) {
		f.Level, f.What = Wrong, fmt.Sprintf("macOS's own AirPlay receiver listens on %d, unless you have switched it off", p.Port)
		f.Do = "switch it off (System Settings, General, AirDrop & Handoff), or take another port for " + p.For
	}
	return []Finding{f}
}

// Sessions is what the sockets of this machine's sessions told.
type Sessions struct {
	Running []string // "dev-alice (orders)"
	Dead    []string // sockets
	Silent  []string // process ids
	Err     error
}

// Findings of the sessions.
func (s Sessions) Findings() []Finding {
	const check = "sessions"
	if s.Err != nil {
		return []Finding{{check, Wrong, s.Err.Error(), "", "LANE_RUNTIME_DIR names another directory for the sockets"}}
	}
	var out []Finding
	for _, pid := range s.Silent {
		out = append(out, Finding{check, Wrong, "the session with the process id " + pid + " does not answer", "",
			"if it was stopped: kill -CONT " + pid + "; if it hangs: kill -9 " + pid + ", and its guardian cleans up"})
	}
	for _, path := range s.Dead {
		out = append(out, Finding{check, Note, "the socket of a session that has died", path, "`lane gc` removes it"})
	}
	what := "no session runs on this machine"
	if len(s.Running) > 0 {
		what = "these run on this machine: " + strings.Join(s.Running, ", ")
	}
	return append(out, Finding{Check: check, Level: Well, What: what})
}

// Leftovers is what dead sessions have left.
type Leftovers struct {
	Own, Others []string // IDs and keys
	Err         error
}

// Findings of the leftovers.
func (l Leftovers) Findings() []Finding {
	const check = "leftovers"
	if l.Err != nil {
		return Unknown(check, l.Err)
	}
	var out []Finding
	for _, id := range l.Own {
		out = append(out, Finding{check, Wrong, "a session of this machine has died and left it", id, "`lane gc` removes it, and so does the next `lane up`"})
	}
	if n := len(l.Others); n > 0 {
		out = append(out, Finding{check, Note, fmt.Sprintf("%d left by dead sessions of others", n), l.Others[0], "`lane gc --dry-run` lists them"})
	}
	if out == nil {
		out = []Finding{{Check: check, Level: Well, What: "no dead session has left anything in the registry"}}
	}
	return out
}
