//go:build !race

package cmd

const raceMemory = 1
