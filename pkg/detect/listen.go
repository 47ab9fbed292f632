package detect

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"
)

// Dial opens a connection, as (*net.Dialer).DialContext does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// dialTime is how long a loopback port may take to answer.
const dialTime = 300 * time.Millisecond

// Listening returns those of ports on which something of this machine listens,
// in their order. It asks 127.0.0.1 and ::1, of all ports at once.
func Listening(ctx context.Context, ports []int, dial Dial) []int {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	open := make([]bool, len(ports))
	var wg sync.WaitGroup
	for i, p := range ports {
		wg.Go(func() {
			for _, host := range []string{"127.0.0.1", "::1"} {
				c, err := dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(p)))
				if err == nil {
					_ = c.Close() // nothing was said on it
					open[i] = true
					return
				}
			}
		})
	}
	wg.Wait()
	var out []int
	for i, p := range ports {
		if open[i] {
			out = append(out, p)
		}
	}
	return out
}
