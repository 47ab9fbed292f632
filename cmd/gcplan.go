package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/session"
)

// What a dead session may have left.
const (
	gcInstance = "instance"
	gcClaim    = "claim" // held by the registry's session of a process, or of a relay, that has died
	gcKey      = "key"   // of a claim that nobody holds, or of one's last activity
	gcSocket   = "socket"
	gcLog      = "log"
)

// gcItem is one thing that a dead session has left.
type gcItem struct {
	Kind    string `json:"kind"`
	Lane    string `json:"lane,omitempty"`
	Service string `json:"service,omitempty"`
	ID      string `json:"id"` // an instance's ID, a key, a path
	Node    string `json:"node,omitempty"`
	Owner   string `json:"owner,omitempty"`
	Why     string `json:"why"`
	Removed bool   `json:"removed"`
	Kept    string `json:"kept,omitempty"`   // why it is left
	Failed  bool   `json:"failed,omitempty"` // it should have been removed

	entry consul.Entry // of an instance
	do    func(context.Context, *consul.Client) error
}

// machine is what this machine tells of its own sessions.
type machine struct {
	install, host string
	seen          control.Seen
	exposed       []string // sockets of `lane expose`s that have died
	logs          []string // of all detached sessions, the oldest first
	goneRelays    bool     // the claims of relays that are gone are to go too
}

// remainsHere looks at this machine, and changes nothing: it makes no directory, and
// no install id where there is none.
func (f *factory) remainsHere(ctx context.Context) (m machine, err error) {
	state, err := config.StateDir(f.system())
	if err != nil {
		return m, err
	}
	if _, err := os.Stat(filepath.Join(state, config.InstallFile)); err == nil {
		if m.install, err = config.InstallID(state); err != nil {
			return m, err
		}
	}
	m.host, _ = os.Hostname() // as a session shows it
	runtime, err := config.RuntimeDir(f.system())
	if err != nil {
		return m, err
	}
	if m.seen, err = control.Look(ctx, runtime); err != nil {
		return m, err
	}
	if m.exposed, err = session.DeadExposed(ctx, runtime); err != nil {
		return m, err
	}
	m.logs, err = filepath.Glob(filepath.Join(state, "log", "*.log"))
	slices.Sort(m.logs) // by lane and time, which stand in the name
	return m, err
}

// holds reports whether a session of this machine that runs has a service in a lane.
func (m *machine) holds(l lane.Name, service string) bool {
	_, ok := control.Holding(m.seen.Running, l, service)
	return ok
}

// told reports whether every session of this machine has told what it holds.
func (m *machine) told() bool { return len(m.seen.Silent) == 0 }

// unseen says what was not looked at, the registry or what the silent sessions of this
// machine may hold; nil if all was.
func (m *machine) unseen(away error) error {
	var silent error
	if !m.told() {
		silent = fmt.Errorf("this machine's claims, instances and logs were not looked at: %w", &control.SilentError{PIDs: m.seen.Silent})
	}
	if away != nil {
		away = fmt.Errorf("nothing in the registry was looked at: %w", away)
	}
	return errors.Join(away, silent)
}

// silentPIDs are the process ids of the sessions that do not answer, as numbers.
func (m *machine) silentPIDs() (pids []int) {
	for _, s := range m.seen.Silent {
		if pid, err := strconv.Atoi(s); err == nil { // the name of a socket, which anybody of this user may make
			pids = append(pids, pid)
		}
	}
	return pids
}

// local are the sockets and logs of this machine's dead sessions.
func (m *machine) local() (items []gcItem) {
	for _, path := range m.seen.Dead {
		items = append(items, gcItem{Kind: gcSocket, ID: path, Why: "its process has died", do: fileRemover(path)})
	}
	for _, path := range m.exposed {
		items = append(items, gcItem{Kind: gcSocket, ID: path, Why: "its `lane expose` has died",
			do: func(ctx context.Context, _ *consul.Client) error { return session.RemoveDeadExposed(ctx, path) }})
	}
	if !m.told() {
		return items // one of the logs may be that of a session that does not answer
	}
	for i, path := range m.logs {
		name := laneOfLog(path)
		newest := i == len(m.logs)-1 || laneOfLog(m.logs[i+1]) != name
		running := slices.ContainsFunc(m.seen.Running, func(s control.Found) bool { return s.Status.Log == path })
		if newest || running {
			continue // the newest says why the last one ended
		}
		items = append(items, gcItem{Kind: gcLog, Lane: name, ID: path, Why: "its session has ended",
			do: func(context.Context, *consul.Client) error { return removeLog(path) }})
	}
	return items
}

func laneOfLog(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	return name
}

func fileRemover(path string) func(context.Context, *consul.Client) error {
	return func(context.Context, *consul.Client) error { return removeFile(path) }
}

// planGC finds what is dead in the registry. It is decided by claims, by liveness
// checks and by this machine's own processes, never by a clock.
func planGC(r consul.Remains, m machine) (items []gcItem) {
	p := gcPlan{Remains: r, m: m, byService: map[string]consul.Held{}}
	for _, h := range r.Claims {
		p.byService[string(h.Lane)+"/"+h.Service] = h
	}
	p.findDeadSessions()
	p.findGoneRelays()
	for _, h := range r.Claims {
		it := gcItem{Lane: string(h.Lane), Service: h.Service, ID: "lane/declared/" + string(h.Lane) + "/" + h.Service, Owner: h.Owner}
		switch {
		case h.Session == "":
			it.Kind, it.Why = gcKey, "no session holds it: it declares nothing"
			it.do = func(ctx context.Context, c *consul.Client) error { return c.RemoveKey(ctx, h) }
		case p.deadSessions[h.Session] != nil:
			claims := p.deadSessions[h.Session]
			it.Kind, it.Why = gcClaim, "its session on this machine has died"
			it.do = func(ctx context.Context, c *consul.Client) error { return c.RemoveClaims(ctx, h.Session, claims) }
		case p.goneRelays[h.Session]:
			it.Kind, it.Why = gcClaim, "its relay "+h.Relay+" is gone: neither that nor the instance is registered"
			it.do = func(ctx context.Context, c *consul.Client) error { return c.RemoveRelayClaims(ctx, h.Session) }
			if !m.goneRelays {
				it.Kept = it.Why + "; until Consul removes it, within twice the --claim-ttl of the relay, its laptop may come back by another one; --gone-relays removes it"
			}
		default:
			continue
		}
		items = append(items, it)
	}
	for _, a := range r.Activity {
		items = append(items, gcItem{Kind: gcKey, Lane: string(a.Lane), Service: a.Service, ID: a.Key(), Why: "it tells when a claim was last active that is gone",
			do: func(ctx context.Context, c *consul.Client) error { return c.RemoveActivity(ctx, a) }})
	}
	for i, e := range r.Entries {
		if i > 0 && r.Entries[i-1].ID == e.ID && r.Entries[i-1].Node == e.Node {
			continue
		}
		if it, dead := p.instance(e); dead {
			items = append(items, it)
		}
	}
	return items
}

type gcPlan struct {
	consul.Remains
	m            machine
	byService    map[string]consul.Held
	deadSessions map[string][]lane.Claim // of this machine's processes that have died
	goneRelays   map[string]bool         // sessions of relays that have died
}

// mine reports whether this installation on this machine has made something, and
// could tell whether the process behind it lives.
func (p *gcPlan) mine(install string) bool {
	return install != "" && install == p.m.install && p.m.told()
}

// lives reports whether somebody may stand behind an ID, on any node.
func (p *gcPlan) lives(id string) bool {
	return slices.ContainsFunc(p.Entries, func(e consul.Entry) bool { return e.ID == id && e.Alive })
}

// findDeadSessions finds the registry's sessions that this machine's processes held,
// and that hold nothing that may live.
func (p *gcPlan) findDeadSessions() {
	p.deadSessions = map[string][]lane.Claim{}
	alive := map[string]bool{}
	for _, h := range p.Claims {
		// A relay's session holds the claims of many, and the relay looks after them.
		dead := h.Session != "" && h.Relay == "" && p.mine(h.Install) && h.Host == p.m.host &&
			consul.OwnID(h.ID, h.Lane, h.Service, p.m.install) && !p.m.holds(h.Lane, h.Service) && !p.lives(h.ID)
		if !dead {
			alive[h.Session] = true
			continue
		}
		p.deadSessions[h.Session] = append(p.deadSessions[h.Session], h.Claim)
	}
	for s := range alive {
		delete(p.deadSessions, s)
	}
}

// findGoneRelays finds the registry's sessions of relays that are gone. What a session
// that runs here has by one is left: it is on its way to the next relay.
func (p *gcPlan) findGoneRelays() {
	by := map[string][]lane.Claim{}
	for _, h := range p.Claims {
		if h.Session != "" {
			by[h.Session] = append(by[h.Session], h.Claim)
		}
	}
	p.goneRelays = map[string]bool{}
	for session, claims := range by {
		p.goneRelays[session] = p.RelayGone(claims) && !slices.ContainsFunc(claims, func(c lane.Claim) bool {
			return c.Install == p.m.install && (!p.m.told() || p.m.holds(c.Lane, c.Service))
		})
	}
}

// instance reports whether an instance is dead, or should be and is left.
func (p *gcPlan) instance(e consul.Entry) (gcItem, bool) {
	it := gcItem{Kind: gcInstance, Lane: string(e.Lane), Service: e.Service, ID: e.ID, Node: e.Node, Owner: e.Owner,
		Why: "its liveness check does not pass, and nobody claims it", entry: e,
		do: func(ctx context.Context, c *consul.Client) error { return c.RemoveDead(ctx, e) }}
	h, claimed := p.byService[string(e.Lane)+"/"+e.Service]
	claimed = claimed && h.Session != "" && (h.ID == e.ID || h.ID == "")
	own := e.Install == p.m.install && (!p.m.told() || p.m.holds(e.Lane, e.Service))
	ours := h.Install == p.m.install && h.Host == p.m.host
	switch {
	case own, claimed && h.Relay != "", claimed && p.deadSessions[h.Session] == nil && !(ours && e.Alive):
		return it, false
	case !e.Alive && p.lives(e.ID):
		it.Kept = fmt.Sprintf("dead on node %s, and the same ID lives on another: only the agent of %s can remove it", e.Node, e.Node)
		return it, true
	case e.Alive && p.mine(e.Install) && h.Session == "" && e.Name == consul.IsolatedName(e.Lane, e.Service):
		it.Kept = "no session of this machine has it: a `lane expose` does, for which its relay keeps it; when that ends, or is killed, the relay removes it 30 s after at the latest"
		return it, true
	case e.Alive && p.mine(e.Install) && (!claimed || ours):
		it.Kept = "no session of this machine has it, but its liveness check passes: if it is dead, in 15 s it does not: run lane gc again then"
		return it, true
	}
	return it, !e.Alive
}

// own reports whether this installation left it.
func (it *gcItem) own(m machine) bool {
	return it.Kind == gcClaim || it.Kind == gcInstance && it.entry.Install == m.install
}
