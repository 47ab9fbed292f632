// Package proxy is the engine: a Transport that takes one request, finds out
// which lane it belongs to, decides which instance serves it, sends it and
// records what happened; and the fronts by which requests come in: the
// developer's forward proxy and the guard before a local process.
//
// It never keeps a registry, never registers anything, never decides by itself
// (that is lane.Router), and never lets a request wait for a reader of the log.
//
//	app --HTTP--> front --> Transport ------------------------------> instance
//	                         1 Color   which tag         pure
//	                         2 Look    catalog           one atomic load
//	                         3 Decide  which instances   pure
//	                         4 Send    the only I/O
//	                         5 Record  never blocks
package proxy
