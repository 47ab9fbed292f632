//go:build !unix

package tui

// stop: there are no jobs here.
var stop func() bool
