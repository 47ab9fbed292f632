package relay

import "net/netip"

// Elsewhere has the guards take every caller for one on another machine.
func Elsewhere(o *Options) { o.here = func(netip.Addr) bool { return false } }
