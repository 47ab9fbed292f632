//go:build race

package cmd

// raceMemory is by how much the race detector multiplies what a process holds: it
// keeps shadow words for each of its own.
const raceMemory = 2
