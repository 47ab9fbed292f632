package lane

import (
	"fmt"
	"slices"
	"strings"
)

// WarnClaimsUnknown is the warning of a decision that could not conclude an
// absence, because the registry does not let the claims be read.
const WarnClaimsUnknown = "claims_unknown"

// Message is what happened, in one sentence for people.
func (d *Decision) Message() string {
	s, l := name(d.Service), string(d.Lane)
	switch d.Kind {
	case KindLaneMatch:
		return fmt.Sprintf("%s is served by lane %s", s, l)
	case KindBaseline:
		return fmt.Sprintf("%s is served by the baseline: %s", s, baselineWhy(d.Reason))
	case KindFallback, KindDegraded:
		return fmt.Sprintf("%s is served by the baseline instead of lane %s: %s", s, l, absenceWhy(d.Reason))
	case KindKillSwitch:
		return fmt.Sprintf("%s is served by the baseline: the kill switch is on", s)
	case KindStatic:
		return fmt.Sprintf("%s is served by a configured baseline address: the registry cannot be asked", s)
	case KindExternal:
		return "the host is no service: passed through without a tag"
	}
	switch d.Code {
	case CodeTagInvalid:
		return fmt.Sprintf("the tag %q is no lane name", plain(d.PassOn.Value()))
	case CodeLaneNoMatch:
		return fmt.Sprintf("lane %s has no instance of %s (%s), and the policy forbids the baseline", l, s, absenceWhy(d.Reason))
	case CodeLaneUnhealthy:
		if d.Reason == ReasonLaneDeclaredAbsent {
			return fmt.Sprintf("lane %s holds %s, but no instance of it is registered here", l, s)
		}
		return fmt.Sprintf("lane %s has %s, but no healthy instance of it", l, s)
	case CodeNoBaseline:
		if d.Group != "" {
			return fmt.Sprintf("%s has no baseline instance: its group %s is switched on, and no instance is in it", s, plain(d.Group))
		}
		return fmt.Sprintf("%s has no baseline instance", s)
	case CodeBaselineUnhealthy:
		if d.Group != "" {
			return fmt.Sprintf("%s has no healthy baseline instance: its group %s is switched on, and only that counts", s, plain(d.Group))
		}
		return fmt.Sprintf("%s has baseline instances, but no healthy one", s)
	case CodeNoInstances:
		return fmt.Sprintf("the registry has no instance of %s", s)
	case CodeHardConstraint:
		if d.Within != "" {
			return fmt.Sprintf("no instance of %s is in the caller's %s", s, d.Within)
		}
		return fmt.Sprintf("no instance of %s is in the caller's env, tenant and zone", s)
	case CodeRegistryUnavailable:
		if d.Reason == ReasonACLFiltered {
			return fmt.Sprintf("the registry shows only a part of %s: its ACL cut the answer", s)
		}
		return fmt.Sprintf("the registry cannot be asked, and nothing is known of %s", s)
	case CodeRegistryStale:
		if slices.Contains(d.Warnings, WarnClaimsUnknown) {
			return fmt.Sprintf("the registry does not show who holds what, so lane %s may hold %s", l, s)
		}
		return fmt.Sprintf("the registry's picture is too old to say that lane %s has no %s", l, s)
	case CodeZoneCap:
		return fmt.Sprintf("%s has no instance in the caller's zone, and no more requests may leave it", s)
	case CodeLoopDetected:
		if d.Reason == ReasonMaxHops {
			return "the request has passed too many proxies: it runs in a circle"
		}
		return fmt.Sprintf("the only instance of %s is this proxy itself", s)
	case CodeUpstreamConnect:
		return fmt.Sprintf("no chosen instance of %s accepts a connection", s)
	}
	return string(d.Kind) + " " + string(d.Reason)
}

// within is what a caller asks of env, tenant and zone, as far as it is hard.
func (r *Router) within(c *Caller) string {
	var out []string
	add := func(what, value string, hard bool) {
		switch {
		case hard && value != "":
			out = append(out, fmt.Sprintf("%s %q", what, plain(value)))
		case hard && what == "zone": // its lack is as hard
			out = append(out, "lack of a zone")
		}
	}
	add("env", c.Env, r.p.EnvRequired)
	add("tenant", c.Tenant, true)
	add("zone", c.Zone, r.p.Zone == ZoneRequired)
	return strings.Join(out, ", ")
}

func name(service string) string {
	if service == "" {
		return "the service"
	}
	return service
}

func baselineWhy(r Reason) string {
	switch r {
	case ReasonUntagged:
		return "the request has no tag"
	case ReasonExplicitBaseline:
		return "the tag asks for it"
	case ReasonTagInvalidDropped:
		return "the tag is no lane name and was dropped"
	case ReasonForced:
		return "a guard sent it on"
	}
	return string(r)
}

func absenceWhy(r Reason) string {
	switch r {
	case ReasonLaneAbsent:
		return "the lane has no instance"
	case ReasonLaneDrained:
		return "the lane's instances drain"
	case ReasonLaneFilteredHard:
		return "the lane's instances are in another env, tenant or zone"
	case ReasonLaneUnknown:
		return "the catalogue has no such lane"
	case ReasonLaneUnhealthy:
		return "the lane has no healthy instance"
	case ReasonProportional:
		return "the policy sends this share of requests there"
	}
	return string(r)
}

// Hint is a way out of an error or a fallback, empty where there is nothing to
// do.
func (d *Decision) Hint() string {
	l := string(d.Lane)
	switch d.Code {
	case CodeTagInvalid:
		if s := suggest(d.PassOn.Value()); s != "" {
			return fmt.Sprintf("lane names are lower-case letters, digits and inner hyphens, 63 at most: try %q", s)
		}
		return "lane names are lower-case letters, digits and inner hyphens, 63 at most"
	case CodeLaneNoMatch:
		return fmt.Sprintf("start it with: lane up %s -s %s=PORT", l, d.Service)
	case CodeLaneUnhealthy:
		return fmt.Sprintf("see what its checks say with: lane show %s", l)
	case CodeNoBaseline, CodeBaselineUnhealthy:
		if d.Group != "" {
			return fmt.Sprintf("lane switch %s lists its groups; lane switch %s --clear has all of them serve", d.Service, d.Service)
		}
		return fmt.Sprintf("the shared environment's own %s is down or not registered", name(d.Service))
	case CodeNoInstances:
		return "check the service's name, and that it is registered in this datacenter"
	case CodeHardConstraint:
		return "the caller's are its settings env, tenant and zone, the instances' their metadata: lane explain shows each"
	case CodeRegistryUnavailable:
		if d.Reason == ReasonACLFiltered {
			return "give the token the right service:read and node:read"
		}
		return "check that the registry's agent runs and has a leader"
	case CodeRegistryStale:
		if slices.Contains(d.Warnings, WarnClaimsUnknown) {
			return `give the token key:read on the prefix "lane/declared/"`
		}
		return "the registry has had no leader for too long: the agent's own log says why"
	case CodeZoneCap:
		return "start an instance in the caller's zone, or allow more cross-zone requests"
	case CodeLoopDetected:
		return "a proxy calls itself: compare its listener with the registered addresses"
	case CodeUpstreamConnect:
		return "the instance is registered, but nothing listens at its address, or a firewall is between"
	}
	if d.Kind == KindFallback && d.Reason == ReasonLaneAbsent {
		return fmt.Sprintf("to serve it from the lane: lane up %s -s %s=PORT", l, d.Service)
	}
	return ""
}
