package consul

// Policy is a policy for the registry's access control, in its own language.
type Policy struct {
	Name  string // as it may be called in the registry
	For   string // who gets a token with it
	Rules string
}

// Policies are those by which one token may propose rules and another approve
// them. The prefixes decide that, and no name that a client gives.
func Policies() []Policy {
	return []Policy{
		{"lane-router", "gateways, sidecars and whatever else routes: it reads, and writes nothing but its own entry",
			rulesOf(RouterRights(GatewayService, nil), RouterRights(SidecarService, nil))},
		{"lane-rules-propose", "whoever may propose rules; what they propose routes nothing",
			`key_prefix "` + rulesPrefix + `"          { policy = "read" }
key_prefix "` + proposedPrefix + `" { policy = "write" }
`},
		{"lane-rules-approve", "whoever may make rules active; give nobody this one and the one before",
			`key_prefix "` + rulesPrefix + `"        { policy = "read" }
key_prefix "` + activePrefix + `" { policy = "write" }
`},
		{"lane-whitelist", "whoever may say who is on a whitelist; it changes no rule",
			`key_prefix "` + whitelistPrefix + `" { policy = "write" }
`},
		{"lane-operator", "whoever may use lane kill and lane switch, and take a lane's instances out",
			`key_prefix "` + switchesPrefix + `" { policy = "write" }
key_prefix "` + declaredPrefix + `" { policy = "write" }
key_prefix "` + activityPrefix + `" { policy = "write" }
service_prefix ""           { policy = "write" }
node_prefix ""              { policy = "read" }
`},
	}
}
