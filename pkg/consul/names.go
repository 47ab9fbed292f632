package consul

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"lane/pkg/lane"
)

// The prefixes of the key-value store that this package reads or writes.
const (
	declaredPrefix = "lane/declared/" // <lane>/<service>, a lock
	switchesPrefix = "lane/switches/"
	rulesPrefix    = "lane/rules/"
)

// Metadata keys of an instance.
const (
	MetaLane     = "lane"
	MetaTag      = "tag" // an older key for the lane, read only
	MetaService  = "lane-service"
	MetaOwner    = "lane-owner"
	MetaLocal    = "lane-local"
	MetaStarted  = "lane-started-at"
	MetaSession  = "lane-session" // tells the sessions of one machine apart, which all register under one ID
	MetaWeight   = "lane-weight"
	MetaDraining = "lane-draining"
	MetaEnv      = "env"
	MetaTenant   = "tenant"
	MetaZone     = "zone"
	MetaVersion  = "version"
	MetaGroup    = "group"
)

// maxLabel is the length of a DNS label, and so of a name in the registry.
const maxLabel = 63

// IsolatedName is the registry's name of a service that only lane-aware callers
// can find.
func IsolatedName(l lane.Name, service string) string {
	return "lane-" + string(l) + "-" + service
}

// InstanceID is the ID of a lane's instance: the same machine always makes the
// same, so that a restart replaces and never adds.
func InstanceID(l lane.Name, service, install string) string {
	return "lane:" + string(l) + ":" + service + ":" + install
}

// isolatedMark ends the install part of an isolated instance's ID.
const isolatedMark = "-isolated"

// IsolatedID is the ID of a lane's instance under its isolated name. An agent
// has one name for an ID: with another one an instance can move to its isolated
// name without being away for a moment.
func IsolatedID(l lane.Name, service, install string) string {
	return InstanceID(l, service, install) + isolatedMark
}

// OwnID says whether an ID is one that this installation gives its instances of
// a service in a lane.
func OwnID(id string, l lane.Name, service, install string) bool {
	return id == InstanceID(l, service, install) || id == IsolatedID(l, service, install)
}

// BaselineID is the ID of an instance of no lane that is registered by us: one for
// each service and address, so that a restart takes its own place again, and two
// machines behind one agent do not take each other's.
func BaselineID(service, address string, port int) string {
	return service + ":" + net.JoinHostPort(address, strconv.Itoa(port))
}

// splitID reads an ID made by InstanceID.
func splitID(id string) (l lane.Name, service string, ok bool) {
	p := strings.SplitN(id, ":", 4)
	if len(p) != 4 || p[0] != "lane" || p[1] == "" || p[2] == "" || p[3] == "" {
		return "", "", false
	}
	return lane.Name(p[1]), p[2], true
}

// ClaimKey is the key of a claim, for people who look for it.
func ClaimKey(l lane.Name, service string) string { return claimKey(l, service) }

func claimKey(l lane.Name, service string) string {
	return declaredPrefix + string(l) + "/" + service
}

// isLabel reports whether s is a lower-case DNS label: what a service must be
// called to be found by DNS, and to be part of a key and an ID.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// checkService validates the name of a service that is to be registered.
func checkService(field, name string) error {
	if isLabel(name) {
		return nil
	}
	v := &ValidationError{Field: field, Value: name,
		Why: "must be lower-case letters, digits and inner hyphens, so that DNS can find it"}
	switch {
	case name == "":
		v.Why = "is empty"
	case len(name) > maxLabel:
		v.Why = fmt.Sprintf("has %d characters, and a DNS label has at most %d", len(name), maxLabel)
		v.Fix = "give it a shorter one"
		if strings.HasPrefix(name, "lane-") {
			v.Fix = fmt.Sprintf("take a lane's name that is %d characters shorter, or register it in shared mode", len(name)-maxLabel)
		}
	}
	return v
}

// checkWatched validates a name before it becomes part of a URL and a watch.
// Others may have registered what we would not.
func checkWatched(name string) error {
	ok := name != "" && len(name) <= 128
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	if !ok {
		return &ValidationError{Field: "service", Value: name, Why: "is no name of a service", Fix: "letters, digits, - _ and . only"}
	}
	return nil
}
