// Package demo is a whole test environment on one machine: an embedded registry
// with rules in it, a gateway, a bookshop of four baseline services behind a
// sidecar each, and three lanes; with a tour that checks each of its claims,
// traffic to look at, and a page for a browser.
//
//	gateway --> productpage --> details
//	                 |             :
//	                 |             canary: details
//	                 +--------> reviews  ----> ratings
//	                               :              :
//	                               dev2: reviews  dev3: ratings
//
// The services pass on a request's id and know nothing of lanes. It never reads
// settings or the environment, never uses a fixed port, and never leaves anything
// behind: all of it ends before Run returns.
package demo
