// Package guardian cleans up after a session that was killed: a small process
// in a session of its own that waits for the end of a pipe. It never does
// anything while its session lives, and nothing for one that has ended cleanly.
package guardian
