package lane

import (
	"slices"
	"strings"
	"time"
)

// Health is an instance's health in the registry; the worst check counts, and
// maintenance is critical.
type Health uint8

// The healths, best first. The zero value is passing.
const (
	Passing Health = iota
	Warning
	Critical
)

// Instance is one registered address of a service. It is a value of a Catalog
// and never changes.
type Instance struct {
	ID   string
	Addr string // host:port to dial
	Node string // the registry's node, shown only

	MetaLane string // metadata "lane" as registered
	MetaTag  string // metadata "tag" as registered, an older key

	Env, Tenant, Zone, Version, Group string

	Health Health
	// HealthNote is the output of the worst check, for people.
	HealthNote string
	Weight     int // 0 drains
	Draining   bool
	Local      bool // registered by a developer's machine

	// FirstSeen is when this router first saw the instance; zero is unknown
	// (part of its first catalog), which counts as warm.
	FirstSeen time.Time

	Owner      string // who registered it, shown only
	Registered string // the name in the registry: the service's, or an isolated one
}

// Claim says that somebody holds a service in a lane. While a claim stands with
// a session, the service is declared in that lane.
type Claim struct {
	Lane       Name
	Service    string
	Owner      string
	Host       string
	Install    string
	Session    string // the registry's session that holds the lock; empty declares nothing
	Mode       string // shared | isolated
	Registered string // the instance's name in the registry
	ID         string // the instance's ID in the registry
	Since      string // the holder's own clock: shown, never computed with
	Active     string // the same, of its last request; empty: none, or not known
	Relay      string // the relay that holds it for its owner; empty: the owner's own session does
	RelayID    string // with Relay: the ID by which that relay is registered itself; empty: it is not
	Generation uint64 // with Relay: grows with each link of an installation
	// Vacant says that its holder has taken the instance out himself, and that one is to
	// come back: there is none now, whatever else the claim says.
	Vacant bool
}

// Holder is an owner with the host, which an owner's name often ends with already.
func Holder(owner, host string) string {
	short, _, _ := strings.Cut(host, ".")
	if host == "" || strings.HasSuffix(owner, "@"+host) || strings.HasSuffix(owner, "@"+short) {
		return owner
	}
	return owner + " on " + host
}

// RegistryState says how far a catalog can be trusted.
type RegistryState uint8

// The states. The zero value is fresh.
const (
	Fresh RegistryState = iota
	Stale
	Unreachable
)

// Trust is how far the registry's picture can be trusted at one moment.
type Trust struct {
	State RegistryState
	// Since is when the registry last named a leader; the zero time means never.
	Since time.Time
	// Doubt is what a fresh registry seems to become: it has just failed, and requests
	// put up with that for a while. It changes no decision, which warns of it.
	Doubt RegistryState
}

// Service is everything that the catalog knows of one service. Make it with
// NewService, which normalises the metadata once, so that Decide does not have to.
type Service struct {
	Name      string
	Instances []Instance
	// Declared are the lanes with a standing claim on the service.
	Declared []Name
	// HasSnapshot is false until the registry has answered for the service once.
	HasSnapshot bool
	// ACLFiltered says that the answer was cut by the registry's ACL.
	ACLFiltered bool

	index index // made by NewService
}

// Catalog is the services that a router knows, one immutable value. A change is
// a new Catalog behind an atomic pointer.
type Catalog struct {
	Trust  Trust
	Claims []Claim
	// ClaimsUnknown says that Claims is not all of them, because they could not
	// be read or the registry's ACL cut the answer: then a lane without an
	// instance may be a declared one.
	ClaimsUnknown bool
	// ClaimsDenied says why: the token may not read them, or not all of them. It
	// decides nothing.
	ClaimsDenied bool
	Switches     Switches
	services     map[string]*Service
	byAddr       map[string]string // instance address -> service
}

// Switches are the environment's own settings for routing.
type Switches struct {
	KillAll     bool
	KilledLanes []Name
	ActiveGroup map[string]string // service -> group
}

// Killed reports whether requests of a lane go to the baseline.
func (s *Switches) Killed(n Name) bool { return s.KillAll || slices.Contains(s.KilledLanes, n) }

// NewCatalog makes a catalog of services; it keeps the pointers.
func NewCatalog(trust Trust, claims []Claim, sw Switches, services ...*Service) *Catalog {
	c := &Catalog{Trust: trust, Claims: claims, Switches: sw,
		services: make(map[string]*Service, len(services)), byAddr: map[string]string{}}
	for _, s := range services {
		c.services[s.Name] = s
		for i := range s.Instances {
			c.byAddr[s.Instances[i].Addr] = s.Name
		}
	}
	return c
}

// Service returns what is known of a service, nil if nothing is.
func (c *Catalog) Service(name string) *Service {
	if c == nil {
		return nil
	}
	return c.services[name]
}

// Services returns every service of the catalog, in no order.
func (c *Catalog) Services() []*Service {
	if c == nil {
		return nil
	}
	out := make([]*Service, 0, len(c.services))
	for _, s := range c.services {
		out = append(out, s)
	}
	return out
}

// ServiceAt returns the service that has an instance at addr (host:port).
func (c *Catalog) ServiceAt(addr string) (string, bool) {
	if c == nil {
		return "", false
	}
	s, ok := c.byAddr[addr]
	return s, ok
}

// WithTrust returns the same catalog under another trust.
func (c *Catalog) WithTrust(t Trust) *Catalog {
	d := *c
	d.Trust = t
	return &d
}
