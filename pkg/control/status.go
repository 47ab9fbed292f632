package control

import (
	"time"

	"lane/pkg/lane"
)

// StatusSchema names the JSON form of Status.
const StatusSchema = "lane.status/v1"

// Status is a session at one moment.
type Status struct {
	Schema   string         `json:"schema"`
	Lane     lane.Name      `json:"lane"`
	Owner    string         `json:"owner"`
	Host     string         `json:"host"`
	Env      string         `json:"env,omitempty"` // the environment whose instances its calls may reach
	PID      int            `json:"pid"`
	Started  time.Time      `json:"started"`
	Proxy    string         `json:"proxy"`             // URL of the coloring proxy
	Mitm     []string       `json:"mitm,omitempty"`    // hosts and services whose TLS the proxy opens
	CA       string         `json:"ca,omitempty"`      // path of the CA's certificate for that
	Bodies   bool           `json:"bodies,omitempty"`  // bodies are kept
	Log      string         `json:"log,omitempty"`     // path of a detached session's log
	Child    string         `json:"child,omitempty"`   // the command that the session runs
	State    string         `json:"state"`             // starting | up | waking | draining | ended
	Waiting  string         `json:"waiting,omitempty"` // what the end waits for, in words
	Killed   string         `json:"killed,omitempty"`  // lane | all: the kill switch that sends its requests to the baseline
	Registry RegistryStatus `json:"registry"`
	Relay    *RelayStatus   `json:"relay,omitempty"` // of a session that comes in by one
	Services []Service      `json:"services"`
	Counts   Counts         `json:"counts"`
	Warnings []string       `json:"warnings,omitempty"`
	// Settings are those by which its proxy decides, by their names in lane.yaml, as
	// far as they are not the defaults.
	Settings map[string]string `json:"settings,omitempty"`
	Steps    []Step            `json:"steps,omitempty"`   // of a start that is under way, in their order
	History  []Event           `json:"history,omitempty"` // the oldest first, 100 at most
}

// Event is something that happened to a session.
type Event struct {
	At    time.Time `json:"at"`
	Level string    `json:"level,omitempty"` // warn: somebody should know; empty: it is only told
	Text  string    `json:"text"`
}

// LevelWarn is the level of an event that somebody should know of.
const LevelWarn = "warn"

// Step is a part of a start.
type Step struct {
	Name  string    `json:"name"` // registry | listen | prove | relay | session | claim | register | command
	Began time.Time `json:"began"`
	Took  float64   `json:"took,omitempty"` // in seconds; 0: it is not over
}

// RegistryStatus is what the session knows of its registry.
type RegistryStatus struct {
	Address string    `json:"address"`
	State   string    `json:"state"`           // fresh | stale | unreachable
	Since   time.Time `json:"since,omitzero"`  // last time that all of it answered
	Index   uint64    `json:"index,omitempty"` // the highest of its answers: what is newer it has not told
	Error   string    `json:"error,omitempty"` // the last failure, in words
	// Of a session that registers by itself, while the registry does not answer: if that
	// is there for others, the instances are critical then, and removed then, at the latest.
	Critical time.Time `json:"critical,omitzero"`
	Removed  time.Time `json:"removed,omitzero"`
}

// RelayStatus is what the session knows of its tunnel.
type RelayStatus struct {
	URL       string    `json:"url"`
	Name      string    `json:"name,omitempty"`       // what the relay calls itself, host:port
	State     string    `json:"state"`                // connecting | ok | reconnecting | lost
	Since     time.Time `json:"since,omitzero"`       // of the state
	RoundTrip float64   `json:"round_trip,omitempty"` // to the relay and back, in seconds, as last measured
	Outgoing  bool      `json:"outgoing,omitempty"`   // calls to services go through it too
	Error     string    `json:"error,omitempty"`      // why it is not ok
	Tries     int       `json:"tries,omitempty"`      // without success since it was ok
	Next      time.Time `json:"next,omitzero"`        // when it is tried again
	Cut       int       `json:"cut,omitempty"`        // requests that were under way when it was lost
	// While it is lost: when the relay has removed the instances, and when Consul has at
	// the latest, if the relay has died. Unset of one that has said that it ends: it removes
	// them at once.
	Removed time.Time `json:"removed,omitzero"`
	Gone    time.Time `json:"gone,omitzero"`
}

// What a lane can be killed by.
const (
	KilledLane = "lane" // its name
	KilledAll  = "all"  // all lanes are
)

// KilledWord says what Killed means to a person, and what ends it; empty for none.
func (s *Status) KilledWord() string {
	switch s.Killed {
	case KilledLane:
		return "the baseline serves its requests: lane unkill " + string(s.Lane)
	case KilledAll:
		return "all lanes are, the baseline serves their requests: lane unkill --all, or lane switch says why"
	}
	return ""
}

// States of a tunnel.
const (
	RelayConnecting   = "connecting"
	RelayOK           = "ok"
	RelayReconnecting = "reconnecting"
	RelayLost         = "lost" // for so long that the relay has removed the instances
)

// States of a session.
const (
	SessionStarting = "starting"
	SessionUp       = "up"
	SessionWaking   = "waking" // this machine slept; what the registry holds is looked after
	SessionDraining = "draining"
	SessionEnded    = "ended" // as its viewers see it at last
)

// States of a service in a session.
const (
	StateStarting    = "starting"
	StateUp          = "up"
	StateLocalClosed = "local port closed"
	StateUnconfirmed = "not confirmed" // the registry does not show it, or cannot be asked
	StateUnproved    = "not proved"    // no proof of the last 10 s that a caller would reach the local process
	StateDraining    = "draining"
	StateEnded       = "ended"
	StateClaimLost   = "claim lost"
)

// Service is one service of a session.
type Service struct {
	Name       string `json:"name"`
	Registered string `json:"registered"` // the name in the registry
	ID         string `json:"id"`
	Mode       string `json:"mode"` // shared | isolated
	Guard      string `json:"guard"`
	Local      string `json:"local"` // the local process, host:port
	State      string `json:"state"`
	Note       string `json:"note,omitempty"`
	Claim      *Claim `json:"claim,omitempty"` // nil before it is taken
}

// Claim is what a session knows of a service's claim in its lane.
type Claim struct {
	State  string `json:"state"`            // held | joined | lost
	Holder string `json:"holder,omitempty"` // who holds it
	Since  string `json:"since,omitempty"`  // by the holder's clock
	From   string `json:"from,omitempty"`   // whom this session has taken it over from
	Relay  string `json:"relay,omitempty"`  // that holds it for its owner
}

// States of a claim.
const (
	ClaimHeld   = "held"
	ClaimJoined = "joined" // somebody else holds it, and this session stands beside them
	ClaimLost   = "lost"
)

// Counts are the session's totals since its start.
type Counts struct {
	Exchanges uint64            `json:"exchanges"`
	Matched   uint64            `json:"matched"`
	Fallbacks map[string]uint64 `json:"fallbacks"` // by reason
	Errors    map[string]uint64 `json:"errors"`    // by code
	Guard     map[string]uint64 `json:"guard"`     // passed, bounced, rejected, probe
	External  uint64            `json:"external"`
	Killed    uint64            `json:"killed"` // decided by a kill switch; they are no fallbacks
}
