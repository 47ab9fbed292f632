// Package dev is the embedded registry: an http.Handler that speaks the part of
// Consul's HTTP API that services and lanes of a test environment use, with the
// semantics, texts and headers of Consul 1.14.11, all in memory. It is for a
// laptop alone, demonstrations and tests; one table of tests runs against it and
// against the real Consul, and any difference fails.
//
// Where it differs from a Consul agent: it has one node and no service mesh; it
// makes TTL, HTTP and TCP checks only, and their first probe at once; its
// transactions change keys only; it never compresses an answer, has no ACLs, no
// user interface, and no limit of connections for one client; and it refuses a
// Host header that is not this machine's. The rest is a defect.
//
// It never persists anything, never joins a cluster, never runs scripts, and
// never listens: the caller owns the socket, and Run owns every timer.
package dev
