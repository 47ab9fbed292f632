package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"lane/pkg/lane"
	"lane/pkg/rules"
)

// form is what a key's value looks like in lane.yaml.
type form uint8

const (
	word     form = iota // one scalar
	yesNo                // true or false
	list                 // a list of scalars
	mapping              // names to scalars
	pair                 // a mapping of one name, or as a variable has it: name=value
	services             // names to { port, health }
)

// key is one setting: where it can be given, how it is checked, how it is shown.
type key struct {
	name string   // as in lane.yaml; consul.address is address under consul
	form form     //
	env  []string // environment variables, strongest first
	def  string   // in the form of a flag
	// set checks a value and keeps it; forms of one scalar get one string, lists
	// get them all, mappings get "name=value", a pair gets one of these, or a word.
	set  func(l *loader, values []string) error
	show func(s *Settings) string
}

// keys is every setting, in the order in which they are shown.
var keys = []key{
	{name: "services", form: services,
		show: func(s *Settings) string {
			var out []string
			for _, v := range s.Services {
				out = append(out, v.Name+"="+v.Local())
			}
			return strings.Join(out, ", ")
		}},
	{name: "preset", env: []string{"LANE_PRESET"}, def: "lane",
		set: func(l *loader, v []string) error {
			if err := CheckPreset(v[0]); err != nil {
				return err
			}
			l.s.Preset, l.s.Header = v[0], ""
			return l.exclude("preset", "header")
		},
		show: func(s *Settings) string { return s.Preset }},
	{name: "header", env: []string{"LANE_HEADER"},
		set: func(l *loader, v []string) error {
			h, err := checkHeader(v[0])
			if err != nil {
				return err
			}
			l.s.Header, l.s.Preset = h, ""
			return l.exclude("header", "preset")
		},
		show: func(s *Settings) string { return s.Header }},
	{name: "accept", form: list, env: []string{"LANE_ACCEPT"},
		set:  each(checkCarrier, func(s *Settings) *[]string { return &s.Accept }),
		show: func(s *Settings) string { return strings.Join(s.Accept, ", ") }},
	{name: "register", env: []string{"LANE_REGISTER"}, def: Auto,
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.Register, v[0], Auto, Shared, Isolated)
		},
		show: func(s *Settings) string { return s.Register }},
	{name: "hosts", form: mapping, set: setHosts,
		show: func(s *Settings) string {
			var out []string
			for _, h := range slices.Sorted(maps.Keys(s.Hosts)) {
				out = append(out, h+"="+s.Hosts[h])
			}
			return strings.Join(out, ", ")
		}},
	{name: "colored", form: list, env: []string{"LANE_COLORED"},
		set:  each(checkHostPattern, func(s *Settings) *[]string { return &s.Colored }),
		show: func(s *Settings) string { return strings.Join(s.Colored, ", ") }},
	{name: "mitm", form: list, env: []string{"LANE_MITM"},
		set:  each(checkOpened, func(s *Settings) *[]string { return &s.Mitm }),
		show: func(s *Settings) string { return strings.Join(s.Mitm, ", ") }},
	{name: "mitm_ca_file", env: []string{"LANE_MITM_CA_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.MitmCAFile, v[0]) },
		show: func(s *Settings) string { return s.MitmCAFile }},

	{name: "consul.address", env: []string{"LANE_CONSUL_ADDRESS", "CONSUL_HTTP_ADDR"}, def: "127.0.0.1:8500",
		set:  checked(checkConsulAddress, func(s *Settings) *string { return &s.Consul.Address }),
		show: func(s *Settings) string { return s.Consul.Address }},
	{name: "consul.datacenter", env: []string{"LANE_CONSUL_DATACENTER"},
		set:  checked(checkConsulName, func(s *Settings) *string { return &s.Consul.Datacenter }),
		show: func(s *Settings) string { return s.Consul.Datacenter }},
	{name: "consul.namespace", env: []string{"LANE_CONSUL_NAMESPACE", "CONSUL_NAMESPACE"},
		set:  checked(checkConsulName, func(s *Settings) *string { return &s.Consul.Namespace }),
		show: func(s *Settings) string { return s.Consul.Namespace }},
	{name: "consul.ca_file", env: []string{"LANE_CONSUL_CA_FILE", "CONSUL_CACERT"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.Consul.CAFile, v[0]) },
		show: func(s *Settings) string { return s.Consul.CAFile }},
	{name: "consul.token_file", env: []string{"LANE_CONSUL_TOKEN_FILE", "CONSUL_HTTP_TOKEN_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.Consul.TokenFile, v[0]) },
		show: func(s *Settings) string { return s.Consul.TokenFile }},

	{name: "relay", env: []string{"LANE_RELAY"},
		set: func(l *loader, v []string) error {
			u, pin, err := checkRelay(v[0])
			if err != nil {
				return err
			}
			if l.s.Relay = u; pin != "" || l.pinned {
				// What stood behind the # of another URL is not this relay's.
				l.s.RelayFingerprint, l.source["relay_fingerprint"], l.pinned = pin, l.source["relay"], pin != ""
			}
			return nil
		},
		show: func(s *Settings) string { return s.Relay }},
	{name: "relay_fingerprint", env: []string{"LANE_RELAY_FINGERPRINT"},
		set: func(l *loader, v []string) error {
			pin, err := checkFingerprint(v[0])
			if err == nil {
				l.s.RelayFingerprint, l.pinned = pin, false
			}
			return err
		},
		show: func(s *Settings) string { return s.RelayFingerprint }},
	{name: "relay_ca_file", env: []string{"LANE_RELAY_CA_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.RelayCAFile, v[0]) },
		show: func(s *Settings) string { return s.RelayCAFile }},
	{name: "relay_token_file", env: []string{"LANE_RELAY_TOKEN_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.RelayTokenFile, v[0]) },
		show: func(s *Settings) string { return s.RelayTokenFile }},
	{name: "relay_cert_file", env: []string{"LANE_RELAY_CERT_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.RelayCertFile, v[0]) },
		show: func(s *Settings) string { return s.RelayCertFile }},
	{name: "relay_key_file", env: []string{"LANE_RELAY_KEY_FILE"},
		set:  func(l *loader, v []string) error { return l.path(&l.s.RelayKeyFile, v[0]) },
		show: func(s *Settings) string { return s.RelayKeyFile }},
	{name: "via", env: []string{"LANE_VIA"}, def: Direct,
		set:  func(l *loader, v []string) error { return oneOf(&l.s.Via, v[0], Direct, ViaRelay) },
		show: func(s *Settings) string { return s.Via }},

	{name: "env", env: []string{"LANE_ENV"}, set: checked(checkWord, func(s *Settings) *string { return &s.Env }),
		show: func(s *Settings) string { return s.Env }},
	{name: "tenant", env: []string{"LANE_TENANT"}, set: checked(checkWord, func(s *Settings) *string { return &s.Tenant }),
		show: func(s *Settings) string { return s.Tenant }},
	{name: "zone", env: []string{"LANE_ZONE"}, set: checked(checkWord, func(s *Settings) *string { return &s.Zone }),
		show: func(s *Settings) string { return s.Zone }},
	{name: "version", env: []string{"LANE_VERSION"}, set: checked(checkWord, func(s *Settings) *string { return &s.Version }),
		show: func(s *Settings) string { return s.Version }},

	{name: "advertise", env: []string{"LANE_ADVERTISE"}, set: checked(checkAdvertise, func(s *Settings) *string { return &s.Advertise }),
		show: func(s *Settings) string { return s.Advertise }},
	{name: "owner", env: []string{"LANE_OWNER"}, set: checked(checkOwner, func(s *Settings) *string { return &s.Owner }),
		show: func(s *Settings) string { return s.Owner }},
	{name: "guard", env: []string{"LANE_GUARD"}, def: Bounce,
		set:  func(l *loader, v []string) error { return oneOf(&l.s.Guard, v[0], Bounce, Reject) },
		show: func(s *Settings) string { return s.Guard }},
	{name: "probes", form: list, env: []string{"LANE_PROBES"},
		set:  each(CheckPath, func(s *Settings) *[]string { return &s.Probes }),
		show: func(s *Settings) string { return strings.Join(s.Probes, ", ") }},
	{name: "drain", env: []string{"LANE_DRAIN"}, def: "30s",
		set: func(l *loader, v []string) error {
			d, err := CheckDuration(v[0], 0, maxDrain)
			if err == nil {
				l.s.Drain = d
			}
			return err
		},
		show: func(s *Settings) string { return s.Drain.String() }},
	// LANE_PROXY is what a child is told; a session in that child is another one.
	{name: "proxy", env: []string{"LANE_PROXY_LISTEN"}, def: "127.0.0.1:7474",
		set:  checked(checkProxy, func(s *Settings) *string { return &s.Proxy }),
		show: func(s *Settings) string { return s.Proxy }},
	{name: "strict", form: yesNo, env: []string{"LANE_STRICT"}, def: "false",
		set:  func(l *loader, v []string) error { return truth(&l.s.Strict, v[0]) },
		show: func(s *Settings) string { return strconv.FormatBool(s.Strict) }},
	{name: "no_match", env: []string{"LANE_NO_MATCH"}, def: Fallback,
		set:  func(l *loader, v []string) error { return oneOf(&l.s.NoMatch, v[0], Fallback, Fail, Proportional) },
		show: func(s *Settings) string { return s.NoMatch }},
	{name: "degrade_ratio", env: []string{"LANE_DEGRADE_RATIO"}, def: "0",
		set:  func(l *loader, v []string) error { return share(&l.s.DegradeRatio, v[0]) },
		show: func(s *Settings) string { return strconv.FormatFloat(s.DegradeRatio, 'g', -1, 64) }},
	{name: "unhealthy_lane", env: []string{"LANE_UNHEALTHY_LANE"}, def: string(lane.UnhealthyError),
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.UnhealthyLane, v[0], string(lane.UnhealthyError), string(lane.UnhealthyFallback))
		},
		show: func(s *Settings) string { return s.UnhealthyLane }},
	{name: "zone_mode", env: []string{"LANE_ZONE_MODE"}, def: string(lane.ZoneAffinity),
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.ZoneMode, v[0], string(lane.ZoneAffinity), string(lane.ZoneOff), string(lane.ZoneRequired))
		},
		show: func(s *Settings) string { return s.ZoneMode }},
	{name: "min_local", env: []string{"LANE_MIN_LOCAL"}, def: "1",
		set: func(l *loader, v []string) error {
			n, err := strconv.Atoi(v[0])
			if err != nil || n < 1 || n > maxMinLocal {
				return fmt.Errorf("%q is no number of instances from 1 to %d", v[0], maxMinLocal)
			}
			l.s.MinLocal = n
			return nil
		},
		show: func(s *Settings) string { return strconv.Itoa(s.MinLocal) }},
	{name: "max_cross", env: []string{"LANE_MAX_CROSS"}, def: "0.3",
		set:  func(l *loader, v []string) error { return share(&l.s.MaxCross, v[0]) },
		show: func(s *Settings) string { return strconv.FormatFloat(s.MaxCross, 'g', -1, 64) }},
	{name: "on_empty", env: []string{"LANE_ON_EMPTY"}, def: string(lane.OnEmptyCross),
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.OnEmpty, v[0], string(lane.OnEmptyCross), string(lane.OnEmptyCap), string(lane.OnEmptyFail))
		},
		show: func(s *Settings) string { return s.OnEmpty }},
	{name: "warmup", env: []string{"LANE_WARMUP"}, def: "0s",
		set: func(l *loader, v []string) error {
			d, err := CheckDuration(v[0], 0, maxWarmup)
			if err == nil {
				l.s.Warmup = d
			}
			return err
		},
		show: func(s *Settings) string { return s.Warmup.String() }},
	{name: "warmup_curve", env: []string{"LANE_WARMUP_CURVE"}, def: string(lane.CurveLinear),
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.WarmupCurve, v[0], string(lane.CurveLinear), string(lane.CurveQuadratic))
		},
		show: func(s *Settings) string { return s.WarmupCurve }},
	{name: "sticky", form: pair, env: []string{"LANE_STICKY"},
		set: func(l *loader, v []string) error {
			if len(v) != 1 {
				return fmt.Errorf("a header or a cookie, one of them: { header: NAME } or { cookie: NAME }")
			}
			k, err := rules.ParseKey(v[0])
			if err == nil {
				l.s.Sticky = k.String()
			}
			return err
		},
		show: func(s *Settings) string { return s.Sticky }},
	{name: "max_stale", env: []string{"LANE_MAX_STALE"}, def: "5m",
		set: func(l *loader, v []string) error {
			d, err := CheckDuration(v[0], 0, maxMaxStale)
			if err == nil {
				l.s.MaxStale = d
			}
			return err
		},
		show: func(s *Settings) string { return s.MaxStale.String() }},
	{name: "cors_tag", form: yesNo, env: []string{"LANE_CORS_TAG"}, def: "false",
		set:  func(l *loader, v []string) error { return truth(&l.s.CorsTag, v[0]) },
		show: func(s *Settings) string { return strconv.FormatBool(s.CorsTag) }},
	{name: "no_store", env: []string{"LANE_NO_STORE"}, def: NoStoreOff,
		set: func(l *loader, v []string) error {
			return oneOf(&l.s.NoStore, v[0], NoStoreOff, NoStoreLane, NoStoreAll)
		},
		show: func(s *Settings) string { return s.NoStore }},
}

// Keys are the names of all settings, as in lane.yaml, in the order in which
// they are shown.
func Keys() []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = k.name
	}
	return out
}

// find returns a key by name, nil for an unknown one.
func find(name string) *key {
	for i := range keys {
		if keys[i].name == name {
			return &keys[i]
		}
	}
	return nil
}

// checked makes a set function of a check that returns the normal form.
func checked(check func(string) (string, error), field func(*Settings) *string) func(*loader, []string) error {
	return func(l *loader, v []string) error {
		out, err := check(v[0])
		if err == nil {
			*field(l.s) = out
		}
		return err
	}
}

// each is checked for a list; it replaces the list of a weaker source.
func each(check func(string) (string, error), field func(*Settings) *[]string) func(*loader, []string) error {
	return func(l *loader, values []string) error {
		out := make([]string, 0, len(values))
		for _, v := range values {
			n, err := check(v)
			if err != nil {
				return err
			}
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
		*field(l.s) = out
		return nil
	}
}

func oneOf(field *string, v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(allowed, ", "))
	}
	*field = v
	return nil
}

// truth reads true or false; 1 and 0 as environment variables have it.
func truth(field *bool, v string) error {
	switch strings.ToLower(v) {
	case "true", "1":
		*field = true
	case "false", "0":
		*field = false
	default:
		return fmt.Errorf("%q is neither true nor false", v)
	}
	return nil
}

// share reads a part of the whole.
func share(field *float64, v string) error {
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0 && n <= 1) {
		return fmt.Errorf("%q is no share from 0 to 1, such as 0.1", v)
	}
	*field = n
	return nil
}

func setHosts(l *loader, values []string) error {
	hosts := map[string]string{}
	for _, v := range values {
		h, service, _ := strings.Cut(v, "=")
		host, err := checkHost(h)
		if err != nil {
			return err
		}
		if err := CheckServiceName(service); err != nil {
			return fmt.Errorf("%s: %w", h, err)
		}
		if _, twice := hosts[host]; twice {
			return fmt.Errorf("%s is there twice", host)
		}
		hosts[host] = service
	}
	l.s.Hosts = hosts
	return nil
}

// maxDrain keeps a wrong unit from making an endless end, maxMaxStale one from
// making a registry that is never too old, and maxWarmup an instance that is never warm;
// maxMinLocal keeps a share of thousandths from being taken for a number.
const (
	maxMinLocal = 1000
	maxDrain    = time.Hour
	maxWarmup   = time.Hour
	maxMaxStale = 24 * time.Hour
)

// CheckDuration reads a time between two others.
func CheckDuration(v string, least, most time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		if n, bad := strconv.Atoi(v); bad == nil && n >= 0 {
			return 0, fmt.Errorf("%q has no unit; say %ds", v, n)
		}
		return 0, fmt.Errorf("%q is no duration such as 30s or 2m", v)
	}
	if d < least || d > most {
		return 0, fmt.Errorf("%q is not between %s and %s", v, brief(least), brief(most))
	}
	return d, nil
}

// brief is a duration without the units that are zero: 1h, not 1h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
