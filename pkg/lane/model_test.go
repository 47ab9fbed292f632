package lane

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// model decides as the table of docs/routing.md reads: no index, no sharing, one
// row after the other. The property tests hold Decide against it.
func model(s situation) Result {
	p, req := s.p, s.req
	if p.Mode == Strict {
		p.NoMatch, p.InvalidTag, p.UnhealthyLane = NoMatchFail, InvalidReject, UnhealthyError
	}
	out := Result{Chosen: []string{}, Weights: map[string]float64{}, Metrics: []string{}, Warnings: []string{}}
	count := func(m string) { out.Metrics = append(out.Metrics, m) }
	warn := func(format string, a ...any) { out.Warnings = append(out.Warnings, fmt.Sprintf(format, a...)) }
	lane := Name("")
	done := func(kind Kind, reason Reason) Result {
		out.Kind, out.Reason = kind, reason
		if lane != "" {
			out.EffectiveLane = &lane
		}
		slices.Sort(out.Metrics)
		slices.Sort(out.Warnings)
		slices.Sort(out.Chosen)
		return out
	}
	fail := func(code Code, reason Reason) Result {
		http := code.HTTP()
		out.Code, out.HTTP = &code, &http
		count("lane_route_errors_total{code=" + string(code) + "}")
		return done(KindError, reason)
	}
	if req.External {
		count("lane_external_total")
		return done(KindExternal, "external_host")
	}
	if req.Hops >= p.MaxHops {
		return fail(CodeLoopDetected, "max_hops")
	}
	kind, reason := KindBaseline, Reason("untagged")
	if req.ForceBaseline {
		if req.Tag.Kind != TagNone {
			reason = "forced_baseline"
		}
	} else {
		tag := req.Tag
		if req.TraceLane != "" {
			entry := ParseTag(string(req.TraceLane))
			if tag.Kind == TagNone {
				count("lane_tag_missing_total{reason=trace_mapped}")
			} else if tag.Kind != entry.Kind || tag.Lane != entry.Lane {
				count("lane_tag_conflict_total")
				warn("tag_conflict:%s!=%s", strings.TrimSpace(tag.Raw), req.TraceLane)
			}
			tag = entry
		} else if tag.Kind == TagNone && p.StampedEntry {
			count("lane_tag_missing_total{reason=no_header}")
		}
		named := tag.Kind == TagLane || tag.Kind == TagInvalid
		switch {
		case named && (s.c.Switches.KillAll || slices.Contains(s.c.Switches.KilledLanes, Name(strings.TrimSpace(tag.Raw)))):
			kind, reason = KindKillSwitch, "kill_switch"
			count("lane_kill_switch_total")
		case tag.Kind == TagInvalid && p.InvalidTag == InvalidReject:
			return fail(CodeTagInvalid, "tag_invalid")
		case tag.Kind == TagInvalid:
			reason = "tag_invalid_dropped"
			count("lane_tag_rejected_total{reason=invalid}")
		case tag.Kind == TagBaseline:
			reason = "explicit_baseline"
		default:
			lane = tag.Lane
		}
	}
	svc := s.c.Service(req.Service)
	if svc != nil && svc.ACLFiltered {
		return fail(CodeRegistryUnavailable, "acl_filtered")
	}
	untrusted := false
	if st := s.c.Trust.State; st != Fresh {
		word := map[RegistryState]string{Stale: "stale", Unreachable: "unreachable"}[st]
		if svc == nil || !svc.HasSnapshot {
			static := p.BaselineStatic[req.Service]
			if lane != "" || len(static) == 0 {
				return fail(CodeRegistryUnavailable, Reason("registry_"+word))
			}
			count("lane_registry_stale_total")
			out.Chosen = append(out.Chosen, static...)
			return done(KindStatic, Reason("registry_"+word))
		}
		count("lane_registry_stale_total")
		if s.c.Trust.Since.IsZero() {
			untrusted = true
			warn("registry_%s_age_unknown", word)
		} else {
			age := req.Now.Sub(s.c.Trust.Since)
			untrusted = age > p.MaxStale
			warn("registry_%s_age_%ds", word, int(age.Seconds()))
		}
	}
	if svc == nil || len(svc.Instances) == 0 {
		return fail(CodeNoInstances, "service_has_no_instances")
	}

	// Which instance is where.
	type seen struct {
		in   *Instance
		lane Name
		sick bool // quarantined
	}
	var all, here []seen
	for i := range svc.Instances {
		in := &svc.Instances[i]
		one, two := ParseTag(in.MetaLane), ParseTag(in.MetaTag)
		first := one
		if one.Kind == TagNone {
			first = two
		}
		v := seen{in: in, lane: first.Lane, sick: first.Kind == TagInvalid || in.Local && first.Kind != TagLane}
		all = append(all, v)
	}
	for _, v := range all {
		c := req.Caller
		if p.EnvRequired && c.Env != "" && v.in.Env != c.Env || c.Tenant != "" && v.in.Tenant != c.Tenant ||
			p.Zone == ZoneRequired && v.in.Zone != c.Zone {
			continue
		}
		here = append(here, v)
	}
	if len(here) == 0 {
		count("lane_hard_constraint_total")
		return fail(CodeHardConstraint, "no_instance_satisfies_env_tenant_zone")
	}
	for _, v := range all {
		if v.sick {
			warn("quarantined:%s", v.in.ID)
		}
		one, two := ParseTag(v.in.MetaLane), ParseTag(v.in.MetaTag)
		if one.Kind != TagNone && two.Kind != TagNone && !(one.Kind == two.Kind && one.Lane == two.Lane) {
			warn("meta_conflict:%s", v.in.ID)
		}
	}
	of := func(l Name) (members []*Instance) {
		for _, v := range here {
			if !v.sick && v.lane == l {
				members = append(members, v.in)
			}
		}
		if active := s.c.Switches.ActiveGroup[req.Service]; l == "" && active != "" &&
			slices.ContainsFunc(members, func(in *Instance) bool { return in.Group != "" }) {
			members = slices.DeleteFunc(members, func(in *Instance) bool { return in.Group != active })
		}
		return members
	}
	live := func(in *Instance) bool { return !in.Draining && in.Weight > 0 }
	good := func(in *Instance) bool {
		return live(in) && (in.Health == Passing || in.Health == Warning && p.AllowWarning)
	}
	filter := func(set []*Instance, yes func(*Instance) bool) (kept []*Instance) {
		for _, in := range set {
			if yes(in) {
				kept = append(kept, in)
			}
		}
		return kept
	}
	usable := func(in *Instance) bool { return good(in) && !slices.Contains(req.Excluded, in.ID) }
	inside := req.Key() != "" && Bucket(string(lane), req.Key()) < int(math.Round(p.DegradeRatio*10000))

	var set []*Instance
	metric := ""
	useBase := func(k Kind, r Reason, m string) *Result {
		base := of("")
		set, kind, reason, metric = filter(base, usable), k, r, m
		if len(base) == 0 {
			res := fail(CodeNoBaseline, "no_baseline_registered")
			return &res
		}
		if len(set) == 0 {
			res := fail(CodeBaselineUnhealthy, "no_healthy_baseline")
			return &res
		}
		return nil
	}
	fallback := func(r Reason) string { return "lane_fallback_total{reason=" + string(r) + "}" }
	var ended *Result
	if lane == "" {
		ended = useBase(kind, reason, "")
	} else {
		members := of(lane)
		declared := len(members) == 0 && slices.Contains(svc.Declared, lane)
		switch {
		case len(filter(members, usable)) > 0:
			if p.NoMatch == NoMatchProportional && inside && len(filter(of(""), good)) > 0 {
				ended = useBase(KindDegraded, "proportional", fallback("proportional"))
			} else {
				set, kind, reason, metric = filter(members, usable), KindLaneMatch, "lane_match", "lane_match_total"
			}
		case len(filter(members, live)) > 0 || declared:
			why := Reason("lane_registered_unhealthy")
			if declared {
				why = "lane_declared_but_absent"
			}
			if p.UnhealthyLane == UnhealthyError {
				return fail(CodeLaneUnhealthy, why)
			}
			ended = useBase(KindFallback, "lane_unhealthy", fallback("lane_unhealthy"))
		case untrusted:
			return fail(CodeRegistryStale, "absence_not_trusted")
		case s.c.ClaimsUnknown && len(members) == 0:
			warn("claims_unknown")
			return fail(CodeRegistryStale, "absence_not_trusted")
		default:
			why := Reason("lane_absent")
			switch {
			case len(members) > 0:
				why = "lane_drained"
			case slices.ContainsFunc(all, func(v seen) bool { return !v.sick && v.lane == lane }):
				why = "lane_filtered_hard"
			case p.KnownLanes != nil && !slices.Contains(p.KnownLanes, lane):
				why = "lane_unknown"
			}
			switch {
			case p.NoMatch == NoMatchFallback:
				ended = useBase(KindFallback, why, fallback(why))
			case p.NoMatch == NoMatchProportional && inside:
				ended = useBase(KindDegraded, "proportional", fallback("proportional"))
			default:
				return fail(CodeLaneNoMatch, why)
			}
		}
	}
	if ended != nil {
		return *ended
	}

	c := req.Caller
	if set = filter(set, func(in *Instance) bool { return c.Self == "" || in.Addr != c.Self }); len(set) == 0 {
		return fail(CodeLoopDetected, "only_candidate_is_this_proxy")
	}
	if others := filter(set, func(in *Instance) bool { return in.ID != c.InstanceID }); c.InstanceID != "" && len(others) > 0 {
		set = others
	}
	if req.Version != "" {
		if same := filter(set, func(in *Instance) bool { return in.Version == req.Version }); len(same) > 0 {
			set = same
		} else {
			metric += " lane_version_fallback_total"
		}
	}
	if req.StickyKey != "" {
		weights, won, most := map[string]int{}, "", -1.0
		for _, in := range set {
			weights[in.Version] += in.Weight
		}
		for v, weight := range weights {
			sum := sha256.Sum256([]byte(v + "|" + req.StickyKey))
			if s := -float64(weight) / math.Log((float64(binary.BigEndian.Uint64(sum[:8])>>11)+0.5)/(1<<53)); s > most {
				won, most = v, s
			}
		}
		set = filter(set, func(in *Instance) bool { return in.Version == won })
	}
	zoned := slices.ContainsFunc(set, func(in *Instance) bool { return in.Zone != "" })
	if p.Zone == ZoneAffinity && c.Zone != "" && zoned {
		z := filter(set, func(in *Instance) bool { return in.Zone == c.Zone })
		may := float64(req.Cross+1)/float64(req.Total+1) <= p.MaxCross
		switch {
		case len(z) > 0 && len(z) >= p.MinLocal:
			set = z
		case len(z) > 0 && may:
			count("lane_cross_zone_total{reason=local_insufficient}")
		case len(z) > 0:
			count("lane_cross_zone_denied_total")
			set = z
		case p.OnEmpty == OnEmptyCross || p.OnEmpty == OnEmptyCap && may:
			count("lane_cross_zone_total{reason=local_empty}")
		default:
			count("lane_cross_zone_denied_total")
			return fail(CodeZoneCap, "cross_zone_not_allowed")
		}
	}
	sum, weights := 0.0, make([]float64, len(set))
	for i, in := range set {
		f := 1.0
		if p.Warmup > 0 && !in.FirstSeen.IsZero() {
			f = min(max(req.Now.Sub(in.FirstSeen).Seconds()/p.Warmup.Seconds(), 0), 1)
			if p.Curve == CurveQuadratic {
				f *= f
			}
		}
		weights[i] = float64(in.Weight) * f
		sum += weights[i]
	}
	if sum == 0 {
		warn("all_weights_zero_equalised")
	}
	for i, in := range set {
		share := 1 / float64(len(set))
		if sum > 0 {
			share = weights[i] / sum
		}
		out.Chosen = append(out.Chosen, in.ID)
		out.Weights[in.ID] += share
	}
	for _, m := range strings.Fields(metric) {
		count(m)
	}
	for id, w := range out.Weights {
		out.Weights[id] = math.Round(w*1e4) / 1e4
	}
	return done(kind, reason)
}
