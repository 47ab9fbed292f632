package cmd

import (
	"math"
	"strconv"
	"strings"

	"lane/tunnel"

	"github.com/spf13/pflag"
)

// relayLimits are what one user may hold and do at a relay, as they are given.
type relayLimits struct {
	tunnels, claims, streams, opens int
	rate, volume                    string
}

func (l *relayLimits) flags(fl *pflag.FlagSet) {
	fl.IntVar(&l.tunnels, "max-tunnels", 3, "how many tunnels one user has at once")
	fl.IntVar(&l.claims, "max-claims", 10, "how many services one tunnel claims")
	fl.IntVar(&l.streams, "max-streams", 256, "how many connections one tunnel has at once, in each direction")
	fl.IntVar(&l.opens, "stream-rate", 1000, "how many new connections a second one user has")
	fl.StringVar(&l.rate, "byte-rate", "256MiB", "`SIZE` that one user moves a second, in each direction; more waits")
	fl.StringVar(&l.volume, "token-bytes", "0", "`SIZE` that one token moves in all, then it is worth nothing; 0 is no bound")
}

func (l *relayLimits) parse() (tunnel.Limits, error) {
	out := tunnel.Limits{Agents: l.tunnels, Claims: l.claims, Streams: l.streams, Opens: l.opens}
	for _, n := range []struct {
		flag  string
		value int
	}{{"max-tunnels", l.tunnels}, {"max-claims", l.claims}, {"max-streams", l.streams}, {"stream-rate", l.opens}} {
		if n.value < 1 || n.value > 1<<20 {
			return out, usagef("", "--%s: %d is not between 1 and %d", n.flag, n.value, 1<<20)
		}
	}
	rate, err := parseSize("byte-rate", l.rate)
	if err != nil {
		return out, err
	}
	if rate < 1<<10 || rate > 1<<40 { // less would not carry the heads of requests
		return out, usagef("", "--byte-rate: %s is not between 1KiB and 1TiB", l.rate)
	}
	out.Rate = int(rate)
	out.Volume, err = parseSize("token-bytes", l.volume)
	return out, err
}

// parseSize reads a number of bytes: 1048576, 1024KiB or 1MiB.
func parseSize(flag, text string) (int64, error) {
	number, shift := text, 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, usagef("--"+flag+" 64MiB", "--%s: %q is no size: a number of bytes, or of KiB, MiB, GiB or TiB", flag, text)
	}
	return n << shift, nil
}
