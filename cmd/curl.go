package cmd

import (
	"context"
	"os/exec"

	"github.com/spf13/cobra"
)

func newCurlCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "curl [--lane LANE] [CURL ARGUMENTS] URL",
		Short: "Send a request in your lane, with curl",
		Long: `Run curl through the session's coloring proxy: the request is tagged with the
lane, and names of services are resolved by the registry. All arguments but a
leading --lane are curl's own. Send an untagged request with
-H 'x-lane-tag: baseline'.`,
		Example: `  lane curl -i http://order-service/api/orders/42
  lane curl -i -H 'x-lane-tag: baseline' http://order-service/api/orders/42`,
		DisableFlagParsing: true,
		ValidArgsFunction:  f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "-h" || args[0] == "--help" {
				return c.Help()
			}
			return runCurl(c.Context(), f, args)
		},
	}
	return c
}

func runCurl(ctx context.Context, f *factory, args []string) error {
	name, rest, err := laneFlag(args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("", "lane curl needs a URL")
	}
	s, err := f.session(ctx, name)
	if err != nil {
		return err
	}
	path, err := exec.LookPath("curl")
	if err != nil {
		return usagef("install it, or use another client with `lane run` or `lane env`", "curl is not installed: %v", err)
	}
	// An inherited NO_PROXY must not lead the request past the proxy.
	argv := append([]string{"curl", "--proxy", s.Status.Proxy, "--noproxy", ""}, rest...)
	return f.become(ctx, path, argv, f.curlEnv(&s.Status))
}
