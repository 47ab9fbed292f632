//go:build !linux

package listening

import "net/netip"

// Holder names the process that listens on a port: here it cannot be told.
func Holder(int) string { return "" }

// Outgoing are the open connections of a process group: here they cannot be told.
func Outgoing(int) (to []netip.AddrPort, names []string) { return nil, nil }

// OutgoingOf are those of a process and of what it has started: here they cannot be told.
func OutgoingOf(int) (to []netip.AddrPort, names []string) { return nil, nil }
