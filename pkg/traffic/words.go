package traffic

import (
	"net"
	"net/netip"
	"slices"
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
	RouteLost     = "LOST"    // into a tunnel that broke under it, or is not there
	RouteError    = "ERR"     // nowhere: lane's own error
)

// CodeRelayLost is the error of a tunnel: the one that leads to the local process broke,
// is away, or has no room.
const CodeRelayLost lane.Code = "E_RELAY_LOST"

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
	case rejected(e):
		return RouteGuard
	case e.Code == CodeRelayLost:
		return RouteLost
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
	case rejected(e):
		return MarkGuard
	case e.Failed():
		return MarkError
	case e.Guard == GuardBounced:
		return MarkGuard
	case e.Fallback():
		return MarkFallback
	}
	return MarkNone
}

// rejected says that a guard turned a request away as it was told to: that has a
// code of lane's own and is no error all the same. A loop that it broke is one.
func rejected(e *Exchange) bool {
	return e.Guard == GuardRejected && e.Code != lane.CodeLoopDetected
}

// From names the caller in a word: "me" for a call through this session's own
// proxy, "local" for another caller on this machine, else its address without a
// port. "me" is the developer or the local process: both call from this machine,
// and a tag that came with a call may have been passed on by the one or written
// by the other, so nothing tells them apart.
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
	if e.Err != "" && e.Code == "" { // with a code, Why says it
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
	if e.Code != "" && !rejected(e) {
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
	s := serviceOf(e)
	switch e.Code {
	case lane.CodeUpstreamConnect:
		if e.Err != "" {
			return e.Err
		}
		at := ""
		if e.Addr != "" {
			at = " at " + e.Addr
		}
		if e.Tries > 1 {
			at += ", the last of " + strconv.Itoa(e.Tries) + " tried"
		}
		return "no connection to " + s + at
	case CodeRelayLost:
		if e.Err != "" {
			return e.Err
		}
		return "the tunnel to the relay is lost"
	case lane.CodeLaneNoMatch:
		return reasonWhy(e) + ", and the policy forbids the baseline"
	case lane.CodeRegistryStale:
		return unknownHere(e)
	}
	return ""
}

// unknownHere is why an absence could not be concluded.
func unknownHere(e *Exchange) string {
	why := "the registry is out of date"
	if slices.Contains(e.Warnings, lane.WarnClaimsUnknown) {
		why = "the registry does not let the claims be read"
	}
	return why + ": whether " + serviceOf(e) + " runs in " + laneOf(e) + " is not known"
}

// reasonWhy speaks for the decision.
func reasonWhy(e *Exchange) string {
	s, l := serviceOf(e), laneOf(e)
	switch e.Reason {
	case lane.ReasonLaneMatch:
		return s + " runs in " + l
	case lane.ReasonUntagged:
		return "no tag: the baseline serves it"
	case lane.ReasonExplicitBaseline:
		if e.Proto == "CONNECT" {
			return "a tunnel shows no tag: the baseline serves it"
		}
		return "the tag asks for the baseline"
	case lane.ReasonLaneAbsent:
		return "no instance of " + s + " in " + l
	case lane.ReasonLaneDrained:
		return "every instance of " + s + " in " + l + " is draining"
	case lane.ReasonLaneFilteredHard:
		return s + " in " + l + " is registered for another env, tenant or zone"
	case lane.ReasonLaneUnknown:
		return l + " is not in the catalogue of lanes"
	case lane.ReasonLaneUnhealthy:
		return s + " in " + l + " is not healthy, and the policy allows the baseline"
	case lane.ReasonLaneRegisteredUnhealthy:
		return s + " is registered in " + l + " but not healthy"
	case lane.ReasonLaneDeclaredAbsent:
		return s + " is claimed in " + l + " but no instance is registered"
	case lane.ReasonProportional:
		return "the policy sends a share of " + l + " to the baseline"
	case lane.ReasonKillSwitch:
		return l + " is switched off by a kill switch: the baseline serves it"
	case lane.ReasonTagInvalid:
		return "tag " + strconv.Quote(e.Tag) + " is no valid lane name"
	case lane.ReasonTagInvalidDropped:
		return "tag " + strconv.Quote(e.Tag) + " is no valid lane name and was dropped: the baseline serves it"
	case lane.ReasonAbsenceNotTrusted:
		return unknownHere(e)
	case lane.ReasonNoBaseline:
		return "no baseline instance of " + s + " is registered"
	case lane.ReasonNoHealthyBaseline:
		return "no baseline instance of " + s + " is healthy"
	case lane.ReasonHardConstraint:
		return "no instance of " + s + " matches this env, tenant and zone"
	case lane.ReasonNoInstances:
		return "the registry has no instance of " + s
	case lane.ReasonRegistryUnreachable:
		if e.Kind == lane.KindStatic {
			return "the registry cannot be reached: the configured baseline serves it"
		}
		return "the registry cannot be reached, and nothing is known of " + s
	case lane.ReasonACLFiltered:
		return "the registry's access rules hide instances of " + s
	case lane.ReasonCrossZoneNotAllowed:
		return "no instance of " + s + " in this zone, and no more may go to another"
	case lane.ReasonOnlyThisProxy:
		return "the only instance of " + s + " is this proxy itself: a loop"
	case lane.ReasonMaxHops:
		return "the request passed too many proxies: a loop"
	case lane.ReasonExternalHost:
		return "not a service of the registry: passed on without lane headers"
	case lane.ReasonForced:
		return "a guard sent it on to the baseline"
	case lane.ReasonRegistryStale:
		return "the registry has no leader, and nothing is known of " + s
	case "guard_loop":
		return "it came to a guard for the second time: a loop"
	case "":
		switch e.Code {
		case "E_BAD_TARGET":
			return "the request's target cannot be sent on"
		case "E_BAD_REQUEST":
			return "not a request that can be passed on: it could be read in two ways"
		}
		if e.Err != "" {
			return "no decision: " + e.Err
		}
		return "no reason recorded"
	}
	// A reason that is newer than this list still says something.
	return strings.ReplaceAll(string(e.Reason), "_", " ")
}

// WarnNoTraceID is the warning of a call of a sidecar's application that bears neither
// a tag nor a trace's id.
const WarnNoTraceID = "no_trace_id"

// WarnTagLost is the warning of a request without a tag whose trace was in the lane.
const WarnTagLost = "tag_lost"

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
		other, place, named := cutLast(got, " in ")
		if taken, at, both := cutLast(want, " in "); named && both {
			return Printable("the request has two tags: " + strconv.Quote(taken) + " in " + at + ", which counts, and " + strconv.Quote(other) + " in " + place)
		}
		if ok {
			return Printable("the request came with tag " + strconv.Quote(got) + "; its trace belongs to lane " + want)
		}
	case "all_weights_zero_equalised":
		return "no instance has a weight yet: all count the same"
	}
	switch w {
	case WarnTagLost:
		return "its trace was in the lane: the caller, or a service before it, did not pass the tag on"
	case WarnNoTraceID:
		return "the call bears no trace id: if it is made for a request of a lane, the tag is lost here"
	case "tag_missing:trace_mapped":
		return "the request had lost its tag: its trace gave it back"
	case "tag_missing:no_header":
		return "the request has no tag, and the entry gives each one: it was lost on the way"
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

// cutLast is strings.Cut at the last sep.
func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
