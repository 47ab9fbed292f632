package cmd

import "net/netip"

// reached is a URL by which this machine reaches a listener. [::] and 0.0.0.0 mean
// every address of it, and nobody can put them into a program.
func reached(addr string) string {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsUnspecified() {
		return "http://" + addr
	}
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	return "http://" + loopback.String() + " (and at every other address of this machine)"
}
