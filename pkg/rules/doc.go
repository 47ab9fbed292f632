// Package rules says which lane a request belongs to when it enters the shared
// environment: it reads a document into an immutable Set, colors requests by it,
// and finds what is wrong with a document. It never does I/O: no network, no
// files, no clock, no goroutine. Who is on a whitelist it asks its caller.
//
//	request --> the tag, if its sender is trusted      header
//	        --> whitelists, by priority                whitelist   --> Members
//	        --> user and tenant rules, by priority     rule
//	        --> shares of users, by priority           percentage
//	        --> no tag: the baseline
//
// The first that says yes decides.
package rules
