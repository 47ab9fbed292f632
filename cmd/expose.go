package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	goruntime "runtime"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/proxy"
	"lane/pkg/session"

	"github.com/spf13/cobra"
)

func newExposeCmd(f *factory) *cobra.Command {
	var laneName string
	var given func() []config.Flag
	c := &cobra.Command{
		Use:   "expose NAME=PORT",
		Short: "Lead plain TCP from the shared environment to a local port, through a relay",
		Long: `Lead plain TCP from the shared environment to a local port, through a relay, until
Ctrl-C: for a client that speaks no HTTP, such as a debugger or a database's shell. It
is registered as lane-<lane>-<name>, and under no other name; nobody is routed to it.
While nothing listens on the local port, connections are refused, and that is said.
There is no guard before it: whoever reaches the address that it prints is through.`,
		Example: `  lane expose --lane dev-alice debugger=5005 --relay wss://relay.test.example`,
		Args:    takes("NAME=PORT"),
		RunE: func(c *cobra.Command, args []string) error {
			return runExpose(c.Context(), f, laneName, args[0], given())
		},
	}
	addFlag(c, &laneName, "lane", "", aLane, "the lane that it is part of (default LANE_TAG)")
	given = settingFlags(c, []setting{
		{"relay", "relay", "URL", "the relay, wss://HOST[:PORT][#FINGERPRINT]"},
		{"relay-fingerprint", "relay_fingerprint", "SHA256", "pin the relay's certificate: what lane relay prints"},
	})
	_ = c.RegisterFlagCompletionFunc("lane", f.completeRegistered)
	return c
}

func runExpose(ctx context.Context, f *factory, laneName, what string, flags []config.Flag) error {
	const hint = "lane expose --lane dev-alice debugger=5005"
	s, err := f.settings(given{lane: laneName, flags: flags})
	if err != nil {
		return err
	}
	v, err := config.ParseService(what)
	if err != nil {
		return usagef(hint, "%v", err)
	}
	if v.Port == 0 {
		return usagef(hint, "%s has no port", v.Name)
	}
	if s.Lane == "" {
		return usagef(hint, "which lane? --lane says it, or LANE_TAG")
	}
	name, err := readLane(s.Lane)
	if err != nil {
		return err
	}
	if s.Relay == "" {
		return usagef("--relay URL, LANE_RELAY, or relay in lane.yaml", "there is no relay to lead it through")
	}
	var up proxy.Upstream
	up.HTTP, up.HTTPS, up.NoProxy = childenv.Inherited(f.environ, goruntime.GOOS == "windows")
	by, err := f.relayOf(s, up)
	if err != nil {
		return err
	}
	state, err := config.StateDir(f.system())
	if err != nil {
		return err
	}
	install, err := config.InstallID(state)
	if err != nil {
		return err
	}
	runtime, err := f.runtimeDir()
	if err != nil {
		return err
	}
	host, _ := os.Hostname() // shown only
	err = session.Expose(ctx, session.ExposeOptions{
		Relay: by, Lane: name, Name: v.Name, Local: v.Addrs(), Install: install, Host: host, RuntimeDir: runtime, Log: f.logger(slog.LevelWarn), Now: f.now,
		Ready: func(registered, addr string) { // who has closed it does not read it
			_, _ = fmt.Fprintf(f.io.Out, "%s at %s -> %s\n", registered, addr, v.Addrs()[0])
		},
	})
	var left *session.LeftBehindError
	if errors.As(err, &left) {
		return err // who has interrupted it does not know that
	}
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}
