// Package lane is the pure domain of traffic lanes: names and tags, instances
// and catalogs, the carriers that hold a tag, and the routing decision. It
// never does I/O: no network, no files, no clock, no goroutine. Everything that
// it needs to know, the time included, is in its arguments.
//
// The words, one per idea, used everywhere in the program:
//
//	lane      a named set of instances that serve only requests tagged with it
//	baseline  the instances of no lane: they serve everything else
//	tag       the lane name that a request carries
//	carrier   the header or baggage member that holds the tag
//	instance  one registered address of a service
//	catalog   the instances of the services, one immutable value
//	declared  a lane's promise to hold a service; absence is then an error
//	decision  which instances serve a request, and why
//	fallback  a tagged request that the baseline serves
package lane
