// Package gateway is one `lane gateway`: an entry of the shared environment, its
// routes read from a document, its rules in force behind one pointer, over its own
// watch of the registry.
//
// It writes nothing to the registry, and decides nothing itself: coloring is
// pkg/rules, the decision pkg/lane, the way of a request pkg/proxy.
package gateway
