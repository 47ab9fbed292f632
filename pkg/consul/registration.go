package consul

import (
	"fmt"
	"net/netip"
	"strconv"
	"unicode"

	"lane/pkg/lane"
)

// Registration is one instance as it is to stand in the registry: of a lane, or of
// the baseline, which a sidecar registers for its application.
type Registration struct {
	ID      string    // see InstanceID, or BaselineID
	Name    string    // the name in the registry: Service, or IsolatedName
	Service string    // the service that it serves
	Lane    lane.Name // required, and to be empty for the baseline
	// Baseline says that the instance is of no lane. It has to be said: an
	// instance that lacks its lane by mistake would get everybody's requests.
	Baseline bool
	Address  string // an IP that the callers can reach
	Port     int

	Owner     string
	StartedAt string // shown only
	Session   string // a mark of the session that registers it, which no other one has; empty: none
	Env       string
	Tenant    string
	Zone      string
	Version   string
	Group     string
	Weight    int  // 0 is unset
	Draining  bool // registered, but gets no new requests

	// Meta is further metadata; the keys that the fields above stand for are
	// taken from the fields.
	Meta map[string]string
}

// metadata is everything that is registered besides address and name.
func (r Registration) metadata() map[string]string {
	m := make(map[string]string, len(r.Meta)+8)
	for k, v := range r.Meta {
		m[k] = v
	}
	m[MetaService] = r.Service
	if !r.Baseline {
		m[MetaLane], m[MetaLocal] = string(r.Lane), "true"
	}
	for k, v := range map[string]string{MetaOwner: r.Owner, MetaStarted: r.StartedAt, MetaSession: r.Session, MetaEnv: r.Env,
		MetaTenant: r.Tenant, MetaZone: r.Zone, MetaVersion: r.Version, MetaGroup: r.Group} {
		if v != "" {
			m[k] = v
		}
	}
	if r.Weight > 0 {
		m[MetaWeight] = strconv.Itoa(r.Weight)
	}
	if r.Draining {
		m[MetaDraining] = "true"
	}
	return m
}

// Validate returns a *ValidationError for the first value that must not be
// registered. Consul itself takes nearly everything: host names, port 70000,
// names that its own DNS cannot serve.
func (r Registration) Validate() error {
	if err := r.checkLane(); err != nil {
		return err
	}
	if err := checkService("service", r.Service); err != nil {
		return err
	}
	if err := checkService("name in the registry", r.Name); err != nil {
		return err
	}
	if isolated := IsolatedName(r.Lane, r.Service); r.Name != r.Service && (r.Baseline || r.Name != isolated) {
		return &ValidationError{Field: "name in the registry", Value: r.Name,
			Why: "is neither the service's own nor its isolated one", Fix: fmt.Sprintf("use %s or %s", r.Service, isolated)}
	}
	if l, s, ok := splitID(r.ID); r.Baseline {
		if ok || r.ID != BaselineID(r.Service, r.Address, r.Port) {
			return &ValidationError{Field: "ID", Value: r.ID, Why: "is not of the form <service>:<address>:<port>"}
		}
	} else if !ok || l != r.Lane || s != r.Service {
		return &ValidationError{Field: "ID", Value: r.ID, Why: "is not of the form lane:<lane>:<service>:<install>"}
	}
	for _, c := range r.ID {
		if c <= ' ' || c > '~' || c == '"' || c == '\\' || c == '/' || c == '%' {
			return &ValidationError{Field: "ID", Value: r.ID, Why: fmt.Sprintf("holds %q", c)}
		}
	}
	ip, err := netip.ParseAddr(r.Address)
	switch {
	case err != nil:
		return &ValidationError{Field: "address", Value: r.Address, Why: "is no IP address",
			Fix: "a host name would not be found by Consul's DNS: give the IP that callers reach (--advertise)"}
	case ip.IsUnspecified():
		return &ValidationError{Field: "address", Value: r.Address, Why: "means every address, and no caller can use it",
			Fix: "give the IP that callers reach (--advertise)"}
	case ip.IsMulticast() || ip.Zone() != "":
		return &ValidationError{Field: "address", Value: r.Address, Why: "cannot be reached by callers",
			Fix: "give the IP that callers reach (--advertise)"}
	}
	if r.Port < 1 || r.Port > 65535 {
		return &ValidationError{Field: "port", Value: strconv.Itoa(r.Port), Why: "is not between 1 and 65535"}
	}
	if r.Weight < 0 || r.Weight > 65535 {
		return &ValidationError{Field: "weight", Value: strconv.Itoa(r.Weight), Why: "is not between 0 and 65535"}
	}
	for _, f := range []struct{ field, value string }{{"env", r.Env}, {"tenant", r.Tenant}, {"zone", r.Zone}, {"version", r.Version}} {
		if f.value == "" {
			continue
		}
		if err := lane.CheckWord(f.value); err != nil {
			return &ValidationError{Field: f.field, Value: f.value, Why: err.Error()}
		}
	}
	return checkMeta(r.metadata())
}

func (r Registration) checkLane() error {
	if r.Baseline {
		if r.Lane != "" {
			return &ValidationError{Field: "lane", Value: string(r.Lane), Why: "the baseline is no lane"}
		}
		return nil
	}
	if _, err := lane.ParseName(string(r.Lane)); err != nil {
		return &ValidationError{Field: "lane", Value: string(r.Lane), Why: err.Error(),
			Fix: "nothing is registered without a valid lane"}
	}
	return nil
}

// checkMeta holds metadata to Consul's limits.
func checkMeta(meta map[string]string) error {
	const maxPairs, maxKey, maxValue = 64, 128, 512
	if len(meta) > maxPairs {
		return &ValidationError{Field: "metadata", Value: strconv.Itoa(len(meta)) + " pairs",
			Why: fmt.Sprintf("Consul keeps at most %d", maxPairs)}
	}
	for k, v := range meta {
		if k == "" || len(k) > maxKey {
			return &ValidationError{Field: "metadata key", Value: k, Why: fmt.Sprintf("must have 1 to %d characters", maxKey)}
		}
		for i := 0; i < len(k); i++ {
			if c := k[i]; c > unicode.MaxASCII || !(c == '-' || c == '_' || unicode.IsLetter(rune(c)) || unicode.IsDigit(rune(c))) {
				return &ValidationError{Field: "metadata key", Value: k, Why: "may hold letters, digits, - and _ only"}
			}
		}
		if len(k) >= len(reservedMeta) && k[:len(reservedMeta)] == reservedMeta {
			return &ValidationError{Field: "metadata key", Value: k, Why: "is reserved for Consul itself"}
		}
		if len(v) > maxValue {
			return &ValidationError{Field: "metadata " + k, Value: v[:32] + "...",
				Why: fmt.Sprintf("has %d bytes, and Consul keeps at most %d", len(v), maxValue)}
		}
	}
	return nil
}

const reservedMeta = "consul-"
