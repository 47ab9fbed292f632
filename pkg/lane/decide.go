package lane

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// query is one decision on its way.
//
//	tag -> may we answer? -> hard constraints -> which set -> which of the set
//	(1-5)      (6-9)              (10)             (11-17)       (18-22)
//
// The numbers are those of the table in docs/routing.md.
type query struct {
	r     *Router
	req   *Request
	d     *Decision
	s     *Service
	x     *index
	sw    *Switches
	trust Trust

	untrusted bool   // an absence proves nothing
	blind     bool   // a lane that is declared cannot be told from one that is not
	group     string // the active group
	grouped   bool   // only the active group is the baseline
	groupless bool   // and nobody healthy is in it
}

func (q *query) count(name string) { q.d.metrics = append(q.d.metrics, Metric{Name: name}) }

func (q *query) countBy(name, label, value string) {
	q.d.metrics = append(q.d.metrics, Metric{name, label, value})
}

func (q *query) warn(text string) { q.d.warnings = append(q.d.warnings, text) }

// fail ends the decision with an error.
func (q *query) fail(code Code, reason Reason) {
	q.d.Kind, q.d.Code, q.d.Reason, q.d.Chosen = KindError, code, reason, nil
	q.countBy(MetricRouteErrors, "code", string(code))
}

func (q *query) decide() {
	p := &q.r.p
	if q.req.External { // 1
		q.d.Kind, q.d.Reason = KindExternal, ReasonExternalHost
		q.count(MetricExternal)
		return
	}
	if q.req.Hops >= p.MaxHops { // 2
		q.d.PassOn = q.req.Tag
		q.fail(CodeLoopDetected, ReasonMaxHops)
		return
	}
	if !q.readTag() || !q.mayAnswer() || !q.hardConstraints() {
		return
	}
	if len(q.x.notes) > 0 {
		if len(q.d.warnings) == 0 {
			q.d.Warnings = q.x.notes[:len(q.x.notes):len(q.x.notes)]
		} else {
			q.d.warnings = append(q.d.warnings, q.x.notes...)
		}
	}
	q.choose()
}

// readTag is steps 3 to 5: which lane the request belongs to. It reports false
// when the decision has ended.
func (q *query) readTag() bool {
	tag := q.req.Tag
	q.d.PassOn = tag
	q.d.Kind, q.d.Reason = KindBaseline, ReasonUntagged // unless something below ends otherwise
	if q.req.ForceBaseline {
		switch {
		case q.req.Killed:
			q.d.Kind, q.d.Reason = KindKillSwitch, ReasonKillSwitch
			q.count(MetricKillSwitch)
		case tag.Kind != TagNone:
			q.d.Reason = ReasonForced
		}
		return true
	}
	conflict := false
	if tag.Kind != TagInvalid {
		for i, other := range tag.Conflict {
			conflict = true
			place := ""
			if i < len(tag.Places) {
				place = foundIn(tag.Places[i])
			}
			q.warn("tag_conflict:" + plain(other) + place + "!=" + plain(tag.Value()) + foundIn(tag.From))
		}
	}
	if entry := ParseTag(string(q.req.TraceLane)); entry.Kind != TagNone { // 3, 3'
		switch {
		case tag.Kind == TagNone:
			tag = entry
			q.countBy(MetricTagMissing, "reason", "trace_mapped")
		case !tag.same(entry):
			conflict = true
			q.warn("tag_conflict:" + plain(tag.Value()) + "!=" + plain(entry.Value()))
			tag = entry
		}
		q.d.PassOn = tag
	} else if tag.Kind == TagNone && q.r.p.StampedEntry { // 3''
		q.countBy(MetricTagMissing, "reason", "no_header")
	}
	if conflict {
		q.count(MetricTagConflict)
	}
	switch {
	case tag.Kind == TagNone:
	case tag.Kind == TagBaseline:
		q.d.Reason = ReasonExplicitBaseline
	case q.killed(tag): // 4
		q.d.Kind, q.d.Reason = KindKillSwitch, ReasonKillSwitch
		q.count(MetricKillSwitch)
	case tag.Kind == TagLane:
		q.d.Lane = tag.Lane
	case q.r.p.InvalidTag == InvalidReject: // 5
		q.fail(CodeTagInvalid, ReasonTagInvalid)
		return false
	default:
		q.d.Reason, q.d.PassOn = ReasonTagInvalidDropped, Tag{}
		q.countBy(MetricTagRejected, "reason", "invalid")
	}
	return true
}

func (q *query) killed(tag Tag) bool {
	return q.sw != nil && (q.sw.KillAll || len(q.sw.KilledLanes) > 0 && q.sw.Killed(Name(tag.Value())))
}

// mayAnswer is steps 6 to 9: whether the registry's picture allows an answer.
func (q *query) mayAnswer() bool {
	if q.s != nil && q.s.ACLFiltered { // 6
		q.fail(CodeRegistryUnavailable, ReasonACLFiltered)
		return false
	}
	if q.trust.State != Fresh {
		reason, word := ReasonRegistryStale, "stale"
		if q.trust.State == Unreachable {
			reason, word = ReasonRegistryUnreachable, "unreachable"
		}
		if q.s == nil || !q.s.HasSnapshot { // 7
			static := q.r.static[q.req.Service]
			if q.d.Lane != "" || len(static) == 0 {
				q.fail(CodeRegistryUnavailable, reason)
				return false
			}
			q.d.Kind, q.d.Reason, q.d.Chosen = KindStatic, reason, static[:len(static):len(static)]
			q.count(MetricRegistryStale)
			return false
		}
		q.count(MetricRegistryStale) // 8
		if q.trust.Since.IsZero() {
			q.untrusted = true
			q.warn("registry_" + word + "_age_unknown")
		} else {
			age := max(q.req.Now.Sub(q.trust.Since), 0)
			q.d.RegistryAge, q.untrusted = age, age > q.r.p.MaxStale
			q.warn("registry_" + word + "_age_" + strconv.FormatInt(int64(age/time.Second), 10) + "s")
		}
	} else if q.trust.Doubt != Fresh && !q.trust.Since.IsZero() {
		// Not counted, and trusted: but who reads the answer is to know by what it was made.
		word := "stale"
		if q.trust.Doubt == Unreachable {
			word = "unreachable"
		}
		q.warn("registry_" + word + "_age_" + strconv.FormatInt(int64(max(q.req.Now.Sub(q.trust.Since), 0)/time.Second), 10) + "s")
	}
	if q.s == nil || len(q.s.Instances) == 0 { // 9
		q.fail(CodeNoInstances, ReasonNoInstances)
		return false
	}
	return true
}

// choose is steps 11 to 17: the lane's set or the baseline's.
func (q *query) choose() {
	p := &q.r.p
	lane := q.d.Lane
	if lane == "" { // 11
		q.baseline(q.d.Kind, q.d.Reason, Metric{})
		return
	}
	in := q.pool(lane)
	switch {
	case in.healthy > 0: // 12
		if p.NoMatch == NoMatchProportional && q.inRatio() && q.pool("").serving > 0 {
			q.baseline(KindDegraded, ReasonProportional, fallback(ReasonProportional))
			return
		}
		q.d.Kind, q.d.Reason = KindLaneMatch, ReasonLaneMatch
		q.narrow(lane, in, Metric{Name: MetricMatch})
	case in.live > 0: // 13
		q.unhealthy(ReasonLaneRegisteredUnhealthy)
	case in.members == 0 && slices.Contains(q.s.Declared, lane): // 14
		q.unhealthy(ReasonLaneDeclaredAbsent)
	case q.untrusted: // 15
		q.fail(CodeRegistryStale, ReasonAbsenceNotTrusted)
	case q.blind && in.members == 0: // 15
		q.warnAlso(WarnClaimsUnknown)
		q.fail(CodeRegistryStale, ReasonAbsenceNotTrusted)
	case p.NoMatch == NoMatchFallback: // 17
		reason := q.absence(in)
		q.baseline(KindFallback, reason, fallback(reason))
	case p.NoMatch == NoMatchProportional && q.inRatio(): // 17
		q.baseline(KindDegraded, ReasonProportional, fallback(ReasonProportional))
	default: // 16
		q.fail(CodeLaneNoMatch, q.absence(in))
	}
}

func fallback(r Reason) Metric { return Metric{MetricFallback, "reason", string(r)} }

// unhealthy is step 13: an error, or the fallback that the policy opted in to.
func (q *query) unhealthy(reason Reason) {
	if q.r.p.UnhealthyLane == UnhealthyFallback {
		q.baseline(KindFallback, ReasonLaneUnhealthy, fallback(ReasonLaneUnhealthy))
		return
	}
	q.fail(CodeLaneUnhealthy, reason)
}

// absence is why a lane is not here: the first reason that applies.
func (q *query) absence(in pool) Reason {
	switch {
	case in.members > 0:
		return ReasonLaneDrained
	case q.x.all.lanes[q.d.Lane] != nil:
		return ReasonLaneFilteredHard
	case q.r.p.KnownLanes != nil && !slices.Contains(q.r.p.KnownLanes, q.d.Lane):
		return ReasonLaneUnknown
	}
	return ReasonLaneAbsent
}

// baseline ends the decision in the baseline; m counts it once an instance is
// found.
func (q *query) baseline(kind Kind, reason Reason, m Metric) {
	in := q.pool("")
	q.groupless = q.grouped && in.healthy == 0
	switch {
	case in.members == 0:
		q.fail(CodeNoBaseline, ReasonNoBaseline)
	case in.healthy == 0:
		q.fail(CodeBaselineUnhealthy, ReasonNoHealthyBaseline)
	default:
		q.d.Kind, q.d.Reason = kind, reason
		q.narrow("", in, m)
	}
}

// plain makes text from the wire fit for a warning, which may end in a header
// or on a terminal.
func plain(s string) string {
	if len(s) > 80 {
		s = s[:80]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// foundIn says where a value was found, as far as that is known.
func foundIn(place string) string {
	if place == "" {
		return ""
	}
	return " in " + place
}
