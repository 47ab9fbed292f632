package traffic

import (
	"strconv"

	"lane/pkg/lane"
)

// EndsWhen says what would end a fallback, or a request's being kept from its
// lane, in one sentence without a capital or a full stop. run is a command that
// does it, empty if there is none. Both are empty for an exchange that is
// neither, and hold printable characters only.
func EndsWhen(e *Exchange) (what, run string) {
	if !e.Fallback() && e.Kind != lane.KindKillSwitch {
		return "", ""
	}
	s, l := serviceOf(e), string(e.Lane)
	if l == "" {
		l = "LANE"
	}
	up := "lane up " + l + " -s " + s + "=PORT"
	switch e.Reason {
	case lane.ReasonLaneAbsent:
		what, run = "when an instance of "+s+" registers in "+laneOf(e), up
	case lane.ReasonLaneDrained:
		what, run = "when one that is not draining registers in "+laneOf(e), up
	case lane.ReasonLaneUnknown:
		what = "when " + laneOf(e) + " is in the catalogue of lanes"
	case lane.ReasonLaneFilteredHard:
		what, run = "when "+s+" registers in "+laneOf(e)+" for this env, tenant and zone", "lane show "+l
	case lane.ReasonLaneUnhealthy, lane.ReasonLaneRegisteredUnhealthy:
		what, run = "when its health check passes again", "lane show "+l
	case lane.ReasonLaneDeclaredAbsent:
		what, run = "when the holder of the claim registers an instance", "lane show "+l
	case lane.ReasonProportional:
		what = "never by itself: the policy sends this share to the baseline"
	case lane.ReasonKillSwitch:
		what, run = "when the kill switch is turned off", "lane unkill "+l
	case lane.ReasonTagInvalidDropped:
		what = "when the caller sends a valid lane name, not " + strconv.Quote(e.Tag)
	case lane.ReasonRegistryStale, lane.ReasonRegistryUnreachable, lane.ReasonAbsenceNotTrusted:
		what, run = "when the registry answers again", "lane doctor"
	default:
		what, run = "when the router finds "+s+" in "+laneOf(e), "lane show "+l
	}
	return Printable(what), Printable(run)
}
