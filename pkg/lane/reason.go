package lane

// The reasons of a decision; see docs/routing.md, Reasons.
const (
	ReasonUntagged          Reason = "untagged"
	ReasonExplicitBaseline  Reason = "explicit_baseline"
	ReasonTagInvalidDropped Reason = "tag_invalid_dropped"
	ReasonForced            Reason = "forced_baseline" // a guard sent it on to the baseline
	ReasonKillSwitch        Reason = "kill_switch"
	ReasonLaneMatch         Reason = "lane_match"
	ReasonProportional      Reason = "proportional"
	ReasonExternalHost      Reason = "external_host"

	// Why a lane is not here, in the order in which they are asked.
	ReasonLaneDrained      Reason = "lane_drained"
	ReasonLaneFilteredHard Reason = "lane_filtered_hard"
	ReasonLaneUnknown      Reason = "lane_unknown"
	ReasonLaneAbsent       Reason = "lane_absent"

	ReasonLaneUnhealthy           Reason = "lane_unhealthy" // of a fallback that was opted in
	ReasonLaneRegisteredUnhealthy Reason = "lane_registered_unhealthy"
	ReasonLaneDeclaredAbsent      Reason = "lane_declared_but_absent"

	ReasonTagInvalid          Reason = "tag_invalid"
	ReasonMaxHops             Reason = "max_hops"
	ReasonACLFiltered         Reason = "acl_filtered"
	ReasonRegistryStale       Reason = "registry_stale"
	ReasonRegistryUnreachable Reason = "registry_unreachable"
	ReasonAbsenceNotTrusted   Reason = "absence_not_trusted"
	ReasonNoInstances         Reason = "service_has_no_instances"
	ReasonHardConstraint      Reason = "no_instance_satisfies_env_tenant_zone"
	ReasonNoBaseline          Reason = "no_baseline_registered"
	ReasonNoHealthyBaseline   Reason = "no_healthy_baseline"
	ReasonOnlyThisProxy       Reason = "only_candidate_is_this_proxy"
	ReasonCrossZoneNotAllowed Reason = "cross_zone_not_allowed"
)

// The names of the counters that a decision asks for; the labels service, lane
// and instance are the counter's own business.
const (
	MetricMatch           = "lane_match_total"
	MetricFallback        = "lane_fallback_total"
	MetricTagMissing      = "lane_tag_missing_total"
	MetricTagConflict     = "lane_tag_conflict_total"
	MetricTagRejected     = "lane_tag_rejected_total"
	MetricKillSwitch      = "lane_kill_switch_total"
	MetricRouteErrors     = "lane_route_errors_total"
	MetricHardConstraint  = "lane_hard_constraint_total"
	MetricCrossZone       = "lane_cross_zone_total"
	MetricCrossZoneDenied = "lane_cross_zone_denied_total"
	MetricVersionFallback = "lane_version_fallback_total"
	MetricRegistryStale   = "lane_registry_stale_total"
	MetricExternal        = "lane_external_total"
)

// String is the metric in the form name or name{label=value}.
func (m Metric) String() string {
	if m.Label == "" {
		return m.Name
	}
	return m.Name + "{" + m.Label + "=" + m.Value + "}"
}
