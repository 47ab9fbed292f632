package cmd

import (
	"context"
	"os/exec"
	"strings"

	"lane/pkg/compare"

	"github.com/spf13/cobra"
)

func newCurlCmd(f *factory) *cobra.Command {
	c := &cobra.Command{
		Use:   "curl [--lane LANE] [--diff [--ignore WHAT]...] [CURL ARGUMENTS] URL",
		Short: "Send a request in your lane, with curl",
		Long: `Run curl through the session's coloring proxy: the request is tagged with the
lane, and names of services are resolved by the registry. All arguments but a
leading --lane, --diff and --ignore are curl's own. Send an untagged request with
-H 'x-lane-tag: baseline'.

With --diff the request is sent twice, first to the baseline and then to the lane. One
that changes data does so twice, once in the shared environment: a note says so for
methods other than GET, HEAD, OPTIONS and TRACE. Printed is in what the two answers
differ: status, headers, and the body, JSON by path, other text by line, all else by
its first bytes that differ. What was inserted into a list or a text, or removed, is one
difference, and so are the same items in another order ('body .items order': where each
item of the second was in the first, from 0). An index, or a line's number, is that of
the lane's answer; of what only the baseline has, that of the baseline's. Where too many
items are equal to be aligned they are compared by index, which is said. Cookies are compared
by name ('header set-cookie sid'). It exits 0 if the lane has answered as the baseline has,
and 1 if not: also if the lane did not serve its request, as the baseline is then compared
with itself, and if one of them failed. --diff=json prints JSON, with "lane_served".
One request is compared: several URLs, --next, and what writes elsewhere (-o, -O, -D, -w)
are refused before anything is sent; what a file of options (-K) says is not looked at.
--ignore leaves a difference out, * stands for anything: 'header etag',
'body .items[*].id', 'body'. Left out in any case:
` + wrapped(compare.Ignored(), 80) + `.`,
		Example: `  lane curl -i http://order-service/api/orders/42
  lane curl -i -H 'x-lane-tag: baseline' http://order-service/api/orders/42
  lane curl --diff --ignore 'body .served_at' http://order-service/api/orders/42`,
		DisableFlagParsing: true,
		ValidArgsFunction:  f.completeURL,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			return runCurl(c.Context(), f, args)
		},
	}
	return c
}

// wrapped joins items by commas, in lines of at most width columns.
func wrapped(items []string, width int) string {
	var b strings.Builder
	column := 0
	for i, item := range items {
		switch {
		case i == 0:
		case column+len(", ")+len(item)+len(",") > width:
			b.WriteString(",\n")
			column = 0
		default:
			b.WriteString(", ")
			column += 2
		}
		b.WriteString(item)
		column += len(item)
	}
	return b.String()
}

func runCurl(ctx context.Context, f *factory, args []string) error {
	name, diff, rest, err := leading(args)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return usagef("lane curl http://order-service/", "there is no URL")
	}
	s, err := f.session(ctx, name)
	if err != nil {
		return err
	}
	path, err := exec.LookPath("curl")
	if err != nil {
		return usagef("install it, or use another client with `lane run` or `lane env`", "curl is not installed: %v", err)
	}
	if diff.on {
		return runCurlDiff(ctx, f, path, &s.Status, diff, rest)
	}
	// An inherited NO_PROXY must not lead the request past the proxy.
	argv := append([]string{"curl", "--proxy", s.Status.Proxy, "--noproxy", ""}, rest...)
	return f.become(ctx, path, argv, f.curlEnv(&s.Status))
}
