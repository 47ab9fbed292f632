package traffic

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"lane/pkg/lane"
)

// Route words: where a request went, in one word, the same in every list,
// filter and table.
const (
	RouteLane     = "LANE"    // an instance of the lane
	RouteBase     = "BASE"    // the baseline, for a request without a tag
	RouteFallback = "BASE~fb" // the baseline, in place of the lane
	RouteKilled   = "BASE~ks" // the baseline, because a kill switch is on
	RouteGuard    = "GUARD"   // the guard answered it or sent it on
	RouteExternal = "EXT"     // a host that is no service
	RouteError    = "ERR"     // nowhere: lane's own error
)

// Marks, one character before a row, so that nothing is told by colour alone.
const (
	MarkNone     = ' '
	MarkError    = '!'
	MarkFallback = '>'
	MarkGuard    = 'x' // turned away by the guard
)

// Route is the exchange's route word.
func Route(e *Exchange) string {
	switch {
	case e.Code != "" || e.Kind == lane.KindError:
		return RouteError
	case e.Guard == GuardPassed:
		return RouteLane
	case e.Guard != "":
		return RouteGuard
	case e.Fallback():
		return RouteFallback
	}
	switch e.Kind {
	case lane.KindLaneMatch:
		return RouteLane
	case lane.KindKillSwitch:
		return RouteKilled
	case lane.KindExternal:
		return RouteExternal
	}
	return RouteBase
}

// Mark is the exchange's mark. A failure hides the others: it comes first.
func Mark(e *Exchange) rune {
	switch {
	case e.Failed():
		return MarkError
	case e.Guard == GuardBounced || e.Guard == GuardRejected:
		return MarkGuard
	case e.Fallback():
		return MarkFallback
	}
	return MarkNone
}

// From names the caller in a word: "me" for a call through this session's own
// proxy, "local" for a caller on this machine, else its address without a port.
func From(e *Exchange) string {
	if e.Front == FrontForward {
		return "me"
	}
	host := e.From
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Unmap().IsLoopback() {
		return "local"
	}
	return Printable(host)
}

// Outcome is what the caller got, in words: "201", "no response: EOF", or "503
// E_NO_BASELINE".
func Outcome(e *Exchange) string {
	out := "no response"
	if e.Status > 0 {
		out = strconv.Itoa(e.Status)
	}
	if e.Code != "" {
		out += " " + string(e.Code)
	}
	if e.Err != "" {
		out += ": " + Printable(e.Err)
	}
	return out
}

// Why says in one sentence, without a capital or a full stop, why the exchange
// took its route, e.g. "no instance of users in lane dev-alice". It is never
// empty and holds printable characters only.
func Why(e *Exchange) string {
	why := guardWhy(e)
	if why == "" {
		why = codeWhy(e)
	}
	if why == "" {
		why = reasonWhy(e)
	}
	if e.Note != "" {
		why += "; " + e.Note
	}
	return Printable(why)
}

// guardWhy speaks for the guard where the guard itself decided.
func guardWhy(e *Exchange) string {
	if e.Code != "" {
		return ""
	}
	what := "tag " + strconv.Quote(e.Tag) + " is not this lane's"
	if e.Tag == "" {
		what = "no tag"
	}
	switch e.Guard {
	case GuardPassed:
		return "the tag is this lane's: the local process served it"
	case GuardBounced:
		return what + ": sent on to the baseline, the local process was not called"
	case GuardRejected:
		return what + ": turned away, the local process was not called"
	case GuardProbe:
		return "a health probe: the guard answered it"
	}
	return ""
}

// codeWhy speaks for the errors whose reason does not say enough.
func codeWhy(e *Exchange) string {
	s, l := serviceOf(e), laneOf(e)
	switch e.Code {
	case lane.CodeUpstreamConnect:
		at := ""
		if e.Addr != "" {
			at = " at " + e.Addr
		}
		if e.Tries > 1 {
			at += ", the last of " + strconv.Itoa(e.Tries) + " tried"
		}
		return "no connection to " + s + at
	case lane.CodeLaneNoMatch:
		return reasonWhy(e) + ", and the policy forbids the baseline"
	case lane.CodeRegistryStale:
		return "the registry is out of date: whether " + s + " runs in " + l + " is not known"
	}
	return ""
}

// reasonWhy speaks for the decision.
func reasonWhy(e *Exchange) string {
	s, l := serviceOf(e), laneOf(e)
	switch e.Reason {
	case "lane_match":
		return s + " runs in " + l
	case "untagged":
		return "no tag: the baseline serves it"
	case "explicit_baseline":
		return "the tag asks for the baseline"
	case "lane_absent":
		return "no instance of " + s + " in " + l
	case "lane_drained":
		return "every instance of " + s + " in " + l + " is draining"
	case "lane_filtered_hard":
		return s + " in " + l + " is registered for another env, tenant or zone"
	case "lane_unknown":
		return l + " is not in the catalogue of lanes"
	case "lane_unhealthy":
		return s + " in " + l + " is not healthy, and the policy allows the baseline"
	case "lane_registered_unhealthy":
		return s + " is registered in " + l + " but not healthy"
	case "lane_declared_but_absent":
		return s + " is claimed in " + l + " but no instance is registered"
	case "proportional":
		return "the policy sends a share of " + l + " to the baseline"
	case "kill_switch":
		return l + " is switched off by a kill switch: the baseline serves it"
	case "tag_invalid":
		return "tag " + strconv.Quote(e.Tag) + " is no valid lane name"
	case "tag_invalid_dropped":
		return "tag " + strconv.Quote(e.Tag) + " is no valid lane name and was dropped: the baseline serves it"
	case "absence_not_trusted":
		return "the registry is out of date: whether " + s + " runs in " + l + " is not known"
	case "no_baseline_registered":
		return "no baseline instance of " + s + " is registered"
	case "no_healthy_baseline":
		return "no baseline instance of " + s + " is healthy"
	case "no_instance_satisfies_env_tenant_zone":
		return "no instance of " + s + " matches this env, tenant and zone"
	case "service_has_no_instances":
		return "the registry has no instance of " + s
	case "registry_unreachable":
		if e.Kind == lane.KindStatic {
			return "the registry cannot be reached: the configured baseline serves it"
		}
		return "the registry cannot be reached, and nothing is known of " + s
	case "acl_filtered":
		return "the registry's access rules hide instances of " + s
	case "cross_zone_not_allowed":
		return "no instance of " + s + " in this zone, and no more may go to another"
	case "only_candidate_is_this_proxy":
		return "the only instance of " + s + " is this proxy itself: a loop"
	case "max_hops":
		return "the request passed too many proxies: a loop"
	case "external_host":
		return "not a service of the registry: passed on without lane headers"
	case "":
		if e.Err != "" {
			return "no decision: " + e.Err
		}
		return "no reason recorded"
	}
	// A reason that is newer than this list still says something.
	return strings.ReplaceAll(string(e.Reason), "_", " ")
}

// Warning says in words what a decision warned of; a warning that has none yet
// stays as it is.
func Warning(w string) string {
	name, rest, _ := strings.Cut(w, ":")
	switch name {
	case "quarantined":
		return Printable("instance " + rest + " is left out: its lane is missing or malformed")
	case "meta_conflict":
		return Printable("instance " + rest + " has two different lanes in its metadata")
	case "tag_conflict":
		got, want, ok := strings.Cut(rest, "!=")
		if ok {
			return Printable("the request came with tag " + strconv.Quote(got) + "; its trace belongs to lane " + want)
		}
	case "all_weights_zero_equalised":
		return "no instance has a weight yet: all count the same"
	}
	switch w {
	case "registry_stale_age_unknown", "registry_unreachable_age_unknown":
		return "the registry has not named a leader yet"
	}
	if age, ok := strings.CutPrefix(w, "registry_stale_age_"); ok {
		return Printable("the registry had no leader for " + age)
	}
	if age, ok := strings.CutPrefix(w, "registry_unreachable_age_"); ok {
		return Printable("the registry did not answer for " + age)
	}
	return Printable(w)
}

func serviceOf(e *Exchange) string {
	if e.Service == "" {
		return "the host"
	}
	return e.Service
}

func laneOf(e *Exchange) string {
	switch {
	case e.Lane != "":
		return "lane " + string(e.Lane)
	case e.Tag != "":
		return "lane " + e.Tag
	}
	return "the lane"
}
