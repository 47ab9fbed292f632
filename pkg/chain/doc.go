// Package chain judges from what gateways and sidecars have recorded whether the
// tag of a lane was at every hop of a trace, and names the service that lost it. It
// sends nothing and asks nobody.
//
//	a router's exchanges --Find--> hops of one trace --Judge--> tree, and the break
package chain
