// Package dev is the embedded registry: an http.Handler that speaks the part of
// Consul's HTTP API that services and lanes of a test environment use, with the
// semantics, texts and headers of Consul 1.14.11, all in memory. It is for a
// laptop alone, demonstrations and tests; one table of tests runs against it and
// against the real Consul, and any difference fails.
//
// It never persists anything, never joins a cluster, never runs scripts, and
// never listens: the caller owns the socket, and Run owns every timer.
package dev
