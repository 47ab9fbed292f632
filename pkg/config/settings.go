package config

import (
	"time"
)

// Settings is every setting, validated. Settings never change after Load.
type Settings struct {
	// Lane is the lane that was chosen, as given: an argument, --lane or
	// LANE_TAG. Which commands need one, and that it is a name, is theirs to say.
	Lane string

	// Services are those of this run: the ones of -s if there were any, else all
	// of lane.yaml, sorted by name.
	Services []Service

	// Preset names the carrier that is written and read; empty if Header is set.
	Preset string
	// Header is the header that is written in place of a preset's.
	Header string
	// Accept are presets and headers that are read too.
	Accept []string

	Register string // Auto, Shared or Isolated

	Hosts   map[string]string // more names for a service: lower-case host -> service
	Colored []string          // external hosts that may see the tag: a host or *.suffix, lower-case

	Mitm       []string // hosts and services whose TLS the proxy opens: a name or *.suffix, lower-case
	MitmCAFile string   // roots that verify the servers behind it; empty: the system's

	Consul Consul

	Relay            string // URL of the relay that this machine comes in by; empty: none
	RelayFingerprint string // of its certificate; empty: RelayCAFile or the system's roots verify it
	RelayCAFile      string
	RelayTokenFile   string // with the token, unless LANE_RELAY_TOKEN holds it
	RelayCertFile    string // client certificate, for a relay that asks for one; with RelayKeyFile
	RelayKeyFile     string
	Via              string // Direct or ViaRelay: how calls to instances go

	Env, Tenant, Zone, Version string // metadata of what is registered; empty is unset

	Advertise string // IP address at which others reach this machine; empty: ask
	Owner     string // who holds the lane, shown to others

	Guard  string   // Bounce or Reject
	Probes []string // paths that health probes call without a tag

	Drain time.Duration // longest wait for requests in flight at the end

	Proxy string // where the coloring proxy listens, a loopback host:port

	Strict  bool
	NoMatch string // Fallback, Fail or Proportional; Fail when Strict

	DegradeRatio  float64 // share of keys that Proportional sends to the baseline
	UnhealthyLane string  // Error or Fallback
	ZoneMode      string  // Affinity, Off or Required
	MinLocal      int     // fewer instances than this in the zone may be helped by others
	MaxCross      float64 // share of requests that may leave the zone for that
	OnEmpty       string  // Cross, Cap or Fail: without an instance in the zone
	Warmup        time.Duration
	WarmupCurve   string // Linear or Quadratic
	Sticky        string // header=NAME or cookie=NAME, by which a user keeps his version; empty: none

	MaxStale time.Duration // an answer of the registry that is older proves no absence

	CorsTag bool   // the answer to a browser's preflight allows the tag's header
	NoStore string // NoStoreOff, NoStoreLane or NoStoreAll: which answers no cache keeps

	entries  []Entry
	files    []string
	warnings []string
}

// Service is one service that this machine runs.
type Service struct {
	Name   string
	Host   string // loopback host of the local process; empty: 127.0.0.1, then ::1
	Port   int
	Health string // path of the process's own health check; empty: the port accepts
}

// Consul says how to reach the registry. Everything that is empty is left to
// Consul's own environment variables and defaults.
type Consul struct {
	Address    string // host:port, or a URL
	Datacenter string
	Namespace  string
	CAFile     string
	TokenFile  string
}

// Values of the settings that are words.
const (
	Auto         = "auto"
	Shared       = "shared"
	Isolated     = "isolated"
	Bounce       = "bounce"
	Reject       = "reject"
	Direct       = "direct"
	ViaRelay     = "relay"
	NoRelay      = "none" // of relay: none, whatever a weaker source says
	Fallback     = "fallback"
	Fail         = "fail"
	Proportional = "proportional"
	NoStoreOff   = "off"
	NoStoreLane  = "lane"
	NoStoreAll   = "all"
)

// Entry is one setting as it is in effect.
type Entry struct {
	Key    string
	Value  string
	Source string // e.g. "default", "lane.yaml:3", "LANE_PROXY_LISTEN", "--drain"
	Wrong  bool   // what stands there cannot be read: Value is empty
}

// Entries are all settings, in the order of the keys' table; a setting that is
// empty by default and was not given has an empty value. No value is a secret.
func (s *Settings) Entries() []Entry { return s.entries }

// Source says where a setting comes from; empty for a key that does not exist.
func (s *Settings) Source(key string) string {
	for _, e := range s.entries {
		if e.Key == key {
			return e.Source
		}
	}
	return ""
}

// Warnings say what is set and does nothing, one a line.
func (s *Settings) Warnings() []string { return s.warnings }

// Files are the settings files that were read, strongest first.
func (s *Settings) Files() []string { return s.files }

// Service returns a service of this run by name.
func (s *Settings) Service(name string) (Service, bool) {
	for _, v := range s.Services {
		if v.Name == name {
			return v, true
		}
	}
	return Service{}, false
}
