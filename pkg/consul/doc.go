// Package consul is the registry adapter: it watches Consul and publishes one
// immutable *lane.Catalog (Watcher), holds a registration (Hold), holds claims
// under a session (Session), keeps the coloring rules as immutable revisions
// (PushRules, RuleWatch), sets the switches, and reads and removes what lanes left
// in the registry. It is the only package that imports Consul's client.
//
//	Consul --blocking queries--> Watcher --publish--> atomic pointer --> readers
//	Hold    --register, beat, drain, deregister--> the local agent
//	Session --lock lane/declared/<lane>/<service>--> the servers
//	RuleWatch <--lane/rules/active/current-- PushRules, ApproveRules, RollbackRules
//
// It never decides a route, never registers anything without a valid lane,
// never sets a service tag (one consumer reads the merged tags of a service and
// would drop the whole service), never goes through a proxy of the environment,
// never compares the clocks of two machines, and never lets a request wait for
// it, except for the first answer about a service.
package consul
