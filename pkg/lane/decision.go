package lane

import "time"

// Kind is the outcome of a decision.
type Kind string

// The kinds.
const (
	KindBaseline   Kind = "BASELINE"
	KindLaneMatch  Kind = "LANE_MATCH"
	KindFallback   Kind = "FALLBACK_BASELINE"
	KindDegraded   Kind = "DEGRADED_BASELINE"
	KindKillSwitch Kind = "KILL_SWITCH_BASELINE"
	KindStatic     Kind = "BASELINE_STATIC"
	KindExternal   Kind = "PASSTHROUGH_EXTERNAL"
	KindError      Kind = "ERROR"
)

// Code names an error of the router; empty is no error.
type Code string

// The codes; see docs/routing.md, Errors.
const (
	CodeTagInvalid          Code = "E_LANE_TAG_INVALID"
	CodeLaneNoMatch         Code = "E_LANE_NO_MATCH"
	CodeLaneUnhealthy       Code = "E_LANE_UNHEALTHY"
	CodeNoBaseline          Code = "E_NO_BASELINE"
	CodeBaselineUnhealthy   Code = "E_BASELINE_UNHEALTHY"
	CodeNoInstances         Code = "E_NO_INSTANCES"
	CodeHardConstraint      Code = "E_HARD_CONSTRAINT"
	CodeRegistryUnavailable Code = "E_REGISTRY_UNAVAILABLE"
	CodeRegistryStale       Code = "E_REGISTRY_STALE"
	CodeZoneCap             Code = "E_ZONE_CAP"
	CodeLoopDetected        Code = "E_LOOP_DETECTED"
	CodeUpstreamConnect     Code = "E_UPSTREAM_CONNECT"
)

// Reason says why a decision is what it is: one lower-case word, as in
// "lane_absent".
type Reason string

// Caller is who asks.
type Caller struct {
	Env, Tenant, Zone string
	InstanceID        string // the caller's own instance: avoided when others remain
	Self              string // this proxy's own listener, host:port: never chosen
}

// Request is everything about one request that a decision depends on.
type Request struct {
	Service  string
	External bool // the host is no service: nothing is looked up
	Tag      Tag  // what the carrier holds
	// TraceLane is the tag that the trace map knows for the request's trace.
	TraceLane Name
	Hops      int
	TraceID   string
	StickyKey string
	Version   string // asked for; soft
	Caller    Caller
	// ForceBaseline asks for the baseline whatever the tag names, as a guard
	// does that turns a request away: the tag decides nothing, and goes on as
	// it came.
	ForceBaseline bool
	// Killed says, with ForceBaseline, that the request would be the guard's lane's
	// own, and that this lane is killed.
	Killed bool
	// Now is the time of the decision, for warm-up and the registry's age.
	Now time.Time

	// Excluded are IDs of instances that have just refused a connection. They
	// count as unhealthy, also where that empties the set. A policy that falls
	// back from an unhealthy lane does so here too: a request that has been
	// dialled once must not follow it there.
	Excluded []string

	// Cross and Total are the caller's sliding window for the cross-zone cap.
	Cross, Total int
}

// Candidate is a chosen instance and its share of the requests.
type Candidate struct {
	Instance *Instance
	Weight   float64 // share, the sum over a decision is 1
}

// Decision is the set of instances that may serve a request, and why. Its slices
// may be shared with other decisions: read them only. DecideInto reuses a
// decision's own memory.
type Decision struct {
	Kind    Kind
	Reason  Reason
	Code    Code
	Service string
	// Lane is the lane that the request belongs to, empty for the baseline.
	Lane Name
	// Group is the active group that the baseline is reduced to, in an error that comes
	// of it; else empty.
	Group string
	// Within is what the caller asks of env, tenant and zone, in an error that comes of
	// it; else empty.
	Within string
	// PassOn is the tag that goes on with the request: what the carriers held,
	// or the trace's lane where that overruled them, or none where an invalid
	// tag was dropped. A kill switch changes nothing of it. Where it is invalid,
	// and with ForceBaseline, the carriers stay as they are.
	PassOn   Tag
	Chosen   []Candidate // sorted by ID
	Metrics  []Metric
	Warnings []string
	// RegistryAge is how old the registry's answer was, 0 when fresh.
	RegistryAge time.Duration
	// RuleRev is the revision of the rule that colored the request; the front
	// that colored it sets it, empty if none did.
	RuleRev string

	// The decision's own memory; Chosen, Metrics and Warnings point into it
	// unless the catalog has the same slice already.
	chosen   []Candidate
	metrics  []Metric
	warnings []string
}

// Metric is one count that a decision asks for: a name and at most one label.
type Metric struct {
	Name  string
	Label string // "" without a label, else e.g. "reason"
	Value string
}
