package cmd

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"lane/tunnel"

	"github.com/spf13/cobra"
)

// limitFlags are the flags that say what one user may hold and do at a relay.
func limitFlags(c *cobra.Command, l *tunnel.Limits) {
	count := number(1, 1<<20)
	addFlag(c, &l.Agents, "max-tunnels", "3", count, "how many tunnels one user has at once")
	addFlag(c, &l.Claims, "max-claims", "10", count, "how many services one tunnel claims")
	addFlag(c, &l.Streams, "max-streams", "256", count, "how many connections one tunnel has at once, in each direction")
	addFlag(c, &l.Opens, "stream-rate", "1000", count, "how many new connections a second one user has")
	// Less would not carry the heads of requests.
	addFlag(c, &l.Rate, "byte-rate", "256MiB", size[int](1<<10, 1<<40), "that one user moves a second, in each direction; more waits")
	addFlag(c, &l.Volume, "token-bytes", "0", size[int64](0, math.MaxInt64), "that one token moves in all, then it is worth nothing; 0 is no bound")
}

// size is a number of bytes within bounds: 1048576, 1024KiB or 1MiB.
func size[T int | int64](least, most int64) kind[T] {
	return kind[T]{"SIZE", func(text string) (T, error) {
		number, shift := text, 0
		for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
			if n, ok := strings.CutSuffix(text, unit); ok {
				number, shift = n, 10*(i+1)
			}
		}
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case err != nil || n < 0 || n > math.MaxInt64>>shift:
			return 0, fmt.Errorf("%q is no size such as 64MiB: a number of bytes, or of KiB, MiB, GiB or TiB", text)
		case n<<shift < least || n<<shift > most:
			return 0, fmt.Errorf("%q is not between %s and %s", text, inUnits(least), inUnits(most))
		}
		return T(n << shift), nil
	}}
}

func inUnits(n int64) string {
	unit := 0
	for ; n >= 1024 && n%1024 == 0 && unit < 4; unit++ {
		n /= 1024
	}
	return strconv.FormatInt(n, 10) + [...]string{"", "KiB", "MiB", "GiB", "TiB"}[unit]
}
