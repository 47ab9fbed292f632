package cmd

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"lane/pkg/child"
	"lane/pkg/childenv"
	"lane/pkg/control"

	"github.com/spf13/cobra"
)

func newRunCmd(f *factory) *cobra.Command {
	return &cobra.Command{
		Use:   "run [--lane LANE] [--] COMMAND [ARGUMENTS]",
		Short: "Run any command with its calls going through your lane",
		Long: `Run a command with the environment that makes its HTTP clients use the session's
coloring proxy: HTTP_PROXY, HTTPS_PROXY, grpc_proxy, NODE_USE_ENV_PROXY,
JAVA_TOOL_OPTIONS, LANE_TAG and LANE_PROXY; and where the session opens TLS,
SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, NODE_EXTRA_CA_CERTS and a trust
store for Java, so that it trusts the CA ('lane ca'). The command's signals,
terminal and exit code are its own. On Linux, one that has connections after 10 s and
none through the proxy is told, with what its runtime needs.

curl, wget, Go, grpc-go, Python and Java need nothing more; Node 22.21, 24.5 or
newer. HTTPS is passed through and not colored unless mitm in lane.yaml lists the
host; loopback addresses are called directly. docs/clients.md has the table of what
was tested, and the pitfalls.`,
		Example:            `  lane run -- npm test`,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
				return c.Help()
			}
			return runRun(c.Context(), f, args)
		},
	}
}

func runRun(ctx context.Context, f *factory, args []string) error {
	name, rest, err := laneFlag(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return usagef("lane run -- COMMAND", "there is no command")
	}
	s, err := f.session(ctx, name)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(rest[0])
	if err != nil {
		return &child.StartError{Name: rest[0], Err: err}
	}
	if err := f.warnBypassed(s.Status); err != nil {
		return err
	}
	if err := f.warnNode(ctx, path); err != nil {
		return err
	}
	f.watchRun(&s.Status)
	return f.become(ctx, path, rest, childenv.Build(f.environ, f.childSession(&s.Status)))
}

// warnBypassed says which services the user's own NO_PROXY leads past the lane.
func (f *factory) warnBypassed(st control.Status) error {
	var names []string
	for _, v := range st.Services {
		names = append(names, v.Name)
	}
	past := childenv.Bypassed(childenv.Vars(f.environ, plainSession(&st)), names)
	if len(past) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(f.io.Err, "lane: NO_PROXY names %s: calls to it go past the lane's proxy, untagged\n", strings.Join(past, ", "))
	return err
}
