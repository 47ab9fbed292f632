// Package tracemap reads trace ids out of the headers of many tracing systems,
// and holds the map from such an id to the tag with which its trace came in, so
// that a request that an application sends without the tag finds it again. It
// begins a trace where a request has no id that counts.
//
// It never looks at a response, never guesses (two ids are one only where their
// systems say so), never starts a goroutine, and keeps nothing of a request but
// its ids and its tag.
package tracemap
