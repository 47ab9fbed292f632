// Package metrics counts what decisions and exchanges ask for, by service, lane
// and instance, and shows it: as text for Prometheus, and as rates, errors and
// percentiles over the last seconds.
//
//	request --Decided, Done--> atomic counters --Families--> Prometheus
//	                                  |
//	                            a sample each 2 s --Stats--> lane top
//
// A request adds to counters and waits for nobody; no count is lost. Memory is
// bounded whatever callers ask for: a lane or service that is not known is
// `other`. It never decides, sends or listens.
package metrics
