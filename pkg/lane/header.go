package lane

import "strings"

// The headers. Those of a request are written in lower case, as their literal
// map key: programs that forward headers case by case then find one spelling.
const (
	HeaderTag   = "x-lane-tag"
	HeaderHops  = "x-lane-hops"
	HeaderGuard = "x-lane-guard"
	// HeaderVia lists the entries that a request came through.
	HeaderVia = "x-lane-via"

	HeaderDecision = "X-Lane-Decision"
	HeaderError    = "X-Lane-Error"
	HeaderWarning  = "X-Lane-Warning"
	HeaderRuleRev  = "X-Lane-Rule-Rev"
)

// Header is the value of X-Lane-Decision, as in
//
//	LANE_MATCH; lane=dev-alice; instance=g1
//	FALLBACK_BASELINE; lane=dev-alice; reason=lane_absent; instance=b2
//	KILL_SWITCH_BASELINE; lane=dev-alice; reason=kill_switch; instance=b2
//
// instance is the one that served, nil if none did. What is empty is left out,
// and so is a reason that the kind already says.
func (d *Decision) Header(instance *Instance) string {
	var b strings.Builder
	b.Grow(96) // one piece of memory: this is done for each request
	b.WriteString(string(d.Kind))
	add := func(key, value string) {
		if value != "" {
			b.WriteString("; ")
			b.WriteString(key)
			b.WriteByte('=')
			b.WriteString(token(value))
		}
	}
	add("lane", string(d.Named()))
	if d.Kind != KindLaneMatch && !(d.Kind == KindBaseline && d.Reason == ReasonUntagged) {
		add("reason", string(d.Reason))
	}
	if instance != nil {
		add("instance", instance.ID)
	}
	add("code", string(d.Code))
	add("rev", d.RuleRev)
	return b.String()
}

// Named is the lane that the request belongs to or, where a kill switch has turned
// it away, would belong to.
func (d *Decision) Named() Name {
	if d.Kind == KindKillSwitch {
		return d.PassOn.Lane
	}
	return d.Lane
}

// token keeps a value from the registry from ending its field, or the header.
func token(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ';' || r == ',' || r == '"' {
			return '_'
		}
		return r
	}, s)
}
