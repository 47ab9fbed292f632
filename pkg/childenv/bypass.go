package childenv

import (
	"net/netip"
	"slices"
	"strings"
)

// Bypassed are those of hosts that a child with vars would call past the proxy,
// because the user's own NO_PROXY names them: their calls would be untagged, and
// nothing would say so. The rules are those that most clients share: a name
// means itself and what is below it, a network means its addresses.
func Bypassed(vars []Var, hosts []string) []string {
	i := slices.IndexFunc(vars, func(v Var) bool { return v.Name == "NO_PROXY" })
	if i < 0 {
		return nil
	}
	var out []string
	for _, h := range hosts {
		for e := range strings.SplitSeq(vars[i].Value, ",") {
			if excludes(strings.ToLower(e), strings.ToLower(hostOf(h))) {
				out = append(out, h)
				break
			}
		}
	}
	return out
}

func excludes(entry, host string) bool {
	if host == "" {
		return false
	}
	if net, err := netip.ParsePrefix(entry); err == nil {
		ip, err := netip.ParseAddr(host)
		return err == nil && net.Contains(ip.Unmap())
	}
	name := hostOf(entry)
	suffix := strings.TrimPrefix(strings.TrimPrefix(name, "*"), ".")
	// With a dot or *. in front some clients leave the domain itself out.
	return suffix != "" && (host == name || strings.HasSuffix(host, "."+suffix))
}
