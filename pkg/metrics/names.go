package metrics

import "lane/pkg/lane"

// Names of the metrics that are no decision's own.
const (
	MetricRequests        = "lane_requests_total"
	MetricDuration        = "lane_request_duration_seconds"
	MetricColor           = "lane_color_total"
	MetricWhitelistErrors = "lane_whitelist_errors_total"
	MetricTraceRejected   = "lane_trace_rejected_total"
	MetricTraceMapEntries = "lane_trace_map_entries"
	MetricRelayLinks      = "lane_relay_links"
	MetricRelayClaims     = "lane_relay_claims"
	MetricRelayStreams    = "lane_relay_streams"
	MetricRelayRefused    = "lane_relay_refused_total"
	MetricRelayLimited    = "lane_relay_limited_total"
	MetricRelayBytes      = "lane_relay_bytes_total"
	MetricAccessLogLost   = "lane_access_log_lost_total"
	MetricWhitelistFaults = "lane_whitelist_lookup_errors_total"
	MetricRulesRefused    = "lane_rules_refused_total"

	// The aliases are the names of an older system.
	MetricAliasFallback   = "gray_fallback_total"
	MetricAliasTagMissing = "gray_tag_missing_total"
)

// Values of labels that are nobody's name.
const (
	Other    = "other"    // a lane, service or instance that is not known, or beyond a bound
	Baseline = "baseline" // the lane of a request without one
	NoCode   = "none"     // the code of a request that got no answer
)

// family is one counter by service and lane, and at most one label more.
type family struct {
	name, label, help string
	alias             string // a second name, if those are asked for
}

// The places of the families in a pair's counters.
const (
	famMatch = iota
	famFallback
	famTagMissing
	famTagConflict
	famTagRejected
	famKillSwitch
	famRouteErrors
	famHardConstraint
	famCrossZone
	famCrossZoneDenied
	famVersionFallback
	famRegistryStale
	famExternal
	famColor
	famWhitelistErrors
	famTraceRejected
	nFamilies
)

var families = [nFamilies]family{
	famMatch:           {name: lane.MetricMatch, help: "Requests that an instance of their own lane served."},
	famFallback:        {name: lane.MetricFallback, label: "reason", help: "Requests with a lane that the baseline served, by why.", alias: MetricAliasFallback},
	famTagMissing:      {name: lane.MetricTagMissing, label: "reason", help: "Requests that came without the tag that they should have had.", alias: MetricAliasTagMissing},
	famTagConflict:     {name: lane.MetricTagConflict, help: "Requests whose carriers, or whose carrier and trace, named different lanes."},
	famTagRejected:     {name: lane.MetricTagRejected, label: "reason", help: "Tags that were not taken, by why."},
	famKillSwitch:      {name: lane.MetricKillSwitch, help: "Requests with a lane that a kill switch sent to the baseline."},
	famRouteErrors:     {name: lane.MetricRouteErrors, label: "code", help: "Requests that lane itself answered with an error, by its code."},
	famHardConstraint:  {name: lane.MetricHardConstraint, help: "Requests for which no instance had the env, tenant or zone that they need."},
	famCrossZone:       {name: lane.MetricCrossZone, label: "reason", help: "Requests that were let out of their caller's zone, by why."},
	famCrossZoneDenied: {name: lane.MetricCrossZoneDenied, help: "Requests that would have had to leave their zone and were not let."},
	famVersionFallback: {name: lane.MetricVersionFallback, help: "Requests that got another version than the one asked for."},
	famRegistryStale:   {name: lane.MetricRegistryStale, help: "Requests that were decided by an old picture of the registry."},
	famExternal:        {name: lane.MetricExternal, help: "Requests to hosts that are no services."},
	famColor:           {name: MetricColor, label: "rule", help: "Requests that a rule gave their lane, by rule."},
	famWhitelistErrors: {name: MetricWhitelistErrors, help: "Whitelists that gave a request no answer, and so no lane."},
	famTraceRejected:   {name: MetricTraceRejected, help: "Requests whose trace began anew at the entry, because their sender may not name one."},
}

// familyOf is the place of a counter by its name, -1 for one that is not known.
// It is a switch because a map would cost each request a hash.
func familyOf(name string) int {
	switch name {
	case lane.MetricMatch:
		return famMatch
	case lane.MetricFallback:
		return famFallback
	case lane.MetricTagMissing:
		return famTagMissing
	case lane.MetricTagConflict:
		return famTagConflict
	case lane.MetricTagRejected:
		return famTagRejected
	case lane.MetricKillSwitch:
		return famKillSwitch
	case lane.MetricRouteErrors:
		return famRouteErrors
	case lane.MetricHardConstraint:
		return famHardConstraint
	case lane.MetricCrossZone:
		return famCrossZone
	case lane.MetricCrossZoneDenied:
		return famCrossZoneDenied
	case lane.MetricVersionFallback:
		return famVersionFallback
	case lane.MetricRegistryStale:
		return famRegistryStale
	case lane.MetricExternal:
		return famExternal
	case MetricColor:
		return famColor
	case MetricWhitelistErrors:
		return famWhitelistErrors
	case MetricTraceRejected:
		return famTraceRejected
	}
	return -1
}

// Entry describes one metric, for the docs.
type Entry struct {
	Name, Type string
	Labels     []string
	Help       string
}

// Names are all metrics that can be there.
func Names() []Entry {
	out := []Entry{
		{MetricRequests, "counter", []string{"service", "lane", "front", "instance", "code"}, helpRequests},
		{MetricDuration, "histogram", []string{"service", "lane", "front"}, helpDuration},
	}
	for i := range families {
		f := &families[i]
		labels := []string{"service", "lane"}
		if f.label != "" {
			labels = append(labels, f.label)
		}
		out = append(out, Entry{f.name, "counter", labels, f.help})
		if f.alias != "" {
			out = append(out, Entry{f.alias, "counter", labels, f.help})
		}
	}
	return append(out,
		Entry{MetricWhitelistFaults, "counter", []string{"kind"}, helpFaults},
		Entry{MetricRulesRefused, "counter", nil, helpRulesRefused},
		Entry{MetricTraceMapEntries, "gauge", nil, helpTraceMap},
		Entry{MetricAccessLogLost, "counter", nil, helpAccessLost},
		Entry{MetricRelayLinks, "gauge", nil, helpRelayLinks},
		Entry{MetricRelayClaims, "gauge", nil, helpRelayClaims},
		Entry{MetricRelayStreams, "gauge", nil, helpRelayStreams},
		Entry{MetricRelayRefused, "counter", nil, helpRelayRefused},
		Entry{MetricRelayLimited, "counter", []string{"limit"}, helpRelayLimited},
		Entry{MetricRelayBytes, "counter", []string{"user", "host", "direction"}, helpRelayBytes})
}

const (
	helpRequests     = "Requests, by the instance that served them and the status of the response."
	helpDuration     = "Time from a request's head to the end of its response. Tunnels and connections that switched protocols are not in it."
	helpFaults       = "Look-ups at the source of the whitelists that failed, by how."
	helpRulesRefused = "Revisions of the rules that were active and could not be loaded here."
	helpTraceMap     = "Traces whose lane is remembered."
	helpAccessLost   = "Requests that the access log was too slow to write."
	helpRelayLinks   = "Laptops that are connected to this relay."
	helpRelayClaims  = "Services of laptops that this relay has registered."
	helpRelayStreams = "Connections inside the tunnels of this relay."
	helpRelayRefused = "Laptops and claims that this relay has turned away."
	helpRelayLimited = "Times that one of this relay's limits has turned a laptop away, or held it up."
	helpRelayBytes   = "Bytes inside the tunnels of this relay, from a laptop and to it."
)
