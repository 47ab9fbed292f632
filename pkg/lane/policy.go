package lane

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Mode is how strictly a lane is kept.
type Mode string

// NoMatch is what becomes of a tagged request whose lane is not there.
type NoMatch string

// InvalidTag is what becomes of a malformed tag.
type InvalidTag string

// UnhealthyLane is what becomes of a request whose lane is there and unhealthy.
type UnhealthyLane string

// ZoneMode is what a caller's zone means.
type ZoneMode string

// OnEmpty is what zone affinity does when the caller's zone has no candidate.
type OnEmpty string

// Curve is the shape of the warm-up.
type Curve string

// The values of a policy's fields.
const (
	Relaxed Mode = "relaxed"
	Strict  Mode = "strict" // no match fails, invalid tags are rejected, an unhealthy lane is an error

	NoMatchFallback     NoMatch = "fallback"
	NoMatchFail         NoMatch = "fail"
	NoMatchProportional NoMatch = "proportional"

	InvalidDrop   InvalidTag = "drop"   // the request is untagged
	InvalidReject InvalidTag = "reject" // 400

	UnhealthyError    UnhealthyLane = "error"
	UnhealthyFallback UnhealthyLane = "fallback"

	ZoneOff      ZoneMode = "off"
	ZoneAffinity ZoneMode = "affinity" // inside the chosen set, its own zone first
	ZoneRequired ZoneMode = "required" // a hard constraint

	OnEmptyCross OnEmpty = "cross"
	OnEmptyCap   OnEmpty = "cap"
	OnEmptyFail  OnEmpty = "fail"

	CurveLinear    Curve = "linear"
	CurveQuadratic Curve = "quadratic"
)

// Policy is a router's settings. The zero value is not valid: start from
// DefaultPolicy. The kill switch and the active groups are not here, because
// they belong to the environment: see Switches.
type Policy struct {
	Mode          Mode
	NoMatch       NoMatch
	DegradeRatio  float64 // share of keys that NoMatchProportional sends to the baseline, 0 to 1
	InvalidTag    InvalidTag
	UnhealthyLane UnhealthyLane
	KnownLanes    []Name // a catalogue; nil is none. It changes the reason of a fallback, nothing else
	AllowWarning  bool   // instances with health warning are routable
	EnvRequired   bool   // the caller's env, where it has one, must match
	Zone          ZoneMode
	MaxCross      float64 // share of requests that may leave the caller's zone, 0 to 1
	OnEmpty       OnEmpty
	MinLocal      int           // fewer candidates than this in the zone may spill over
	Warmup        time.Duration // 0: none
	Curve         Curve
	MaxStale      time.Duration // older than this, the registry's picture proves no absence
	MaxHops       int
	StampedEntry  bool // the entry tags every request, so that an untagged one lost its tag
	// BaselineStatic are addresses (host:port) of a service's baseline, by
	// service, for untagged requests while the registry cannot be asked and
	// never could.
	BaselineStatic map[string][]string
}

// DefaultPolicy is the policy of a shared gateway: relaxed, with fallback;
// invalid tags are dropped. A developer's own proxy sets InvalidReject.
func DefaultPolicy() Policy {
	return Policy{
		Mode: Relaxed, NoMatch: NoMatchFallback, InvalidTag: InvalidDrop, UnhealthyLane: UnhealthyError,
		AllowWarning: true, EnvRequired: true,
		Zone: ZoneAffinity, MaxCross: 0.3, OnEmpty: OnEmptyCross, MinLocal: 1,
		Curve: CurveLinear, MaxStale: 300 * time.Second, MaxHops: 16,
	}
}

// PolicyError names a policy's field that has no valid value.
type PolicyError struct {
	Field string // as in the snapshot form: "no_match"
	Value string
	Why   string
}

func (e *PolicyError) Error() string { return fmt.Sprintf("%s: %s: %s", e.Field, e.Value, e.Why) }

func oneOf[T ~string](field string, v T, allowed ...T) error {
	if slices.Contains(allowed, v) {
		return nil
	}
	why := "must be "
	for i, a := range allowed {
		if i > 0 {
			why += ", "
		}
		if i == len(allowed)-1 {
			why += "or "
		}
		why += string(a)
	}
	return &PolicyError{Field: field, Value: fmt.Sprintf("%q", string(v)), Why: why}
}

func within(field string, v float64) error {
	if math.IsNaN(v) || v < 0 || v > 1 {
		return &PolicyError{Field: field, Value: fmt.Sprint(v), Why: "must be between 0 and 1"}
	}
	return nil
}

func atLeast[T int | time.Duration](field string, v, least T) error {
	if v < least {
		return &PolicyError{Field: field, Value: fmt.Sprint(v), Why: fmt.Sprintf("must be at least %v", least)}
	}
	return nil
}

// Validate returns a *PolicyError for the first field without a valid value.
func (p *Policy) Validate() error {
	for _, err := range []error{
		oneOf("mode", p.Mode, Relaxed, Strict),
		oneOf("no_match", p.NoMatch, NoMatchFallback, NoMatchFail, NoMatchProportional),
		within("degrade_ratio", p.DegradeRatio),
		oneOf("invalid_tag", p.InvalidTag, InvalidDrop, InvalidReject),
		oneOf("unhealthy_lane", p.UnhealthyLane, UnhealthyError, UnhealthyFallback),
		oneOf("zone_mode", p.Zone, ZoneOff, ZoneAffinity, ZoneRequired),
		within("max_cross", p.MaxCross),
		oneOf("on_empty", p.OnEmpty, OnEmptyCross, OnEmptyCap, OnEmptyFail),
		atLeast("min_local", p.MinLocal, 0),
		atLeast("warmup_s", p.Warmup, 0),
		oneOf("warmup_curve", p.Curve, CurveLinear, CurveQuadratic),
		atLeast("max_stale_s", p.MaxStale, 0),
		atLeast("max_hops", p.MaxHops, 1),
	} {
		if err != nil {
			return err
		}
	}
	for service, addrs := range p.BaselineStatic {
		if slices.Contains(addrs, "") {
			return &PolicyError{Field: "baseline_static", Value: service, Why: "has an empty address"}
		}
	}
	return nil
}

// effective is the policy with what strict forces.
func (p Policy) effective() Policy {
	if p.Mode == Strict {
		p.NoMatch, p.InvalidTag, p.UnhealthyLane = NoMatchFail, InvalidReject, UnhealthyError
	}
	return p
}
