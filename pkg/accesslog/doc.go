// Package accesslog writes one JSON line for each exchange. It is a reader of
// the exchanges' log like any other: a request never waits for it, and what it is
// too slow for is counted, and said in the log itself.
//
//	request --> traffic.Log --Run--> buffer --> stdout, or a file
package accesslog
