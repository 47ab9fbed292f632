package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lane/pkg/control"
	"lane/pkg/listening"
	"lane/pkg/session"
	"lane/pkg/traffic"

	"github.com/spf13/cobra"
)

// bypassName is the command that looks at what lane run has become.
const bypassName = "bypass"

const (
	// bypassAfter is how long a command may take until its first call.
	bypassAfter = 10 * time.Second
	// bypassLooks is how often it is judged: a command may begin to call late.
	bypassLooks = 12
)

// newBypassCmd is the process that lane run starts for its command.
func newBypassCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:    bypassName + " PID PROXY RUNTIME-DIR SESSION-PID",
		Short:  "Tell a command that bypasses the proxy (started by lane run)",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(c *cobra.Command, args []string) error {
			pid, err := strconv.Atoi(args[0])
			if err != nil {
				return usagef("", "%q is no process", args[0])
			}
			holder, err := strconv.Atoi(args[3])
			if err != nil {
				return usagef("", "%q is no process", args[3])
			}
			return runBypass(c.Context(), f, pid, args[1], control.Dial(args[2], holder))
		},
	}
}

// runBypass tells once when a command and what it started have connections, and none
// through the proxy.
func runBypass(ctx context.Context, f *factory, pid int, proxy string, s *control.Client) error {
	began := f.now()
	var seen session.Seen
	for n := range bypassLooks {
		glances := session.Glances(n)
		for range glances {
			if commandEnded(bypassAfter / time.Duration(glances)) {
				return nil
			}
			seen.Add(listening.OutgoingOf(pid))
		}
		why := seen.Bypassed(proxy)
		if why == "" {
			continue
		}
		// A call that has ended leaves no connection. Who made it is not known: no
		// notice is better than a wrong one.
		ctx, cancel := context.WithTimeout(ctx, listLimit)
		rows, _, err := s.Since(ctx, 0, 0)
		cancel()
		if err != nil || slices.ContainsFunc(rows, func(e traffic.Exchange) bool {
			return e.Front == traffic.FrontForward && e.Start.After(began)
		}) {
			return nil
		}
		_, err = fmt.Fprintf(f.io.Err, "lane: %s\n", why)
		return err
	}
	return nil
}
