package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/control"
	"lane/pkg/iostreams"
	"lane/pkg/lane"
	"lane/pkg/listening"
	"lane/pkg/printer"
	"lane/pkg/session"
	"lane/tui"

	"github.com/spf13/cobra"
)

type upOptions struct {
	lane     string
	services []string
	command  []string
	flags    []config.Flag
	takeOver bool
	join     bool
	detach   bool
	plain    bool
	json     bool
	bodies   bool
	utf8     bool
}

func newUpCmd(f *factory) *cobra.Command {
	o := &upOptions{}
	services := flagValues{word: "NAME=PORT"}
	var given func() []config.Flag
	c := &cobra.Command{
		Use:   "up LANE [-s NAME=PORT]... [-- COMMAND [ARGUMENTS]]",
		Short: "Put local processes into a lane, and color your outgoing calls",
		Long: `Put local processes into a lane of the shared registry, and run a coloring proxy
that tags outgoing calls with the lane. In front of each local process stands a
guard: only requests tagged with the lane reach the process; everything else is
sent on to the baseline. It runs until Ctrl-C, until 'lane down', or until
COMMAND ends, and then removes everything that it put into the registry. In the
terminal UI q, then d, leaves it running without the terminal, as -d begins it.

Without -s the services of lane.yaml are taken; without either, lane only colors
outgoing calls. With COMMAND, the command gets the proxy's environment and the
terminal, and its exit code becomes lane's.`,
		Example: `  lane up dev-alice -s order-service=8080
  lane up dev-alice -s order-service=8080 -- ./order-service
  lane up dev-alice -d`,
		Args: func(c *cobra.Command, args []string) error {
			n := len(args)
			if at := c.ArgsLenAtDash(); at >= 0 {
				n = at
			}
			if n == 0 && f.getenv("LANE_TAG") == "" {
				return errors.New("which lane? A lane of your own has a name like dev-alice")
			}
			if n > 1 {
				return fmt.Errorf("one lane, not %s; a command goes behind --", strings.Join(args[:n], " "))
			}
			return nil
		},
		ValidArgsFunction: f.completeRegistered,
		RunE: func(c *cobra.Command, args []string) error {
			if at := c.ArgsLenAtDash(); at >= 0 {
				args, o.command = args[:at], args[at:]
				if len(o.command) == 0 {
					return usagef("lane up LANE -- COMMAND", "there is no command behind --")
				}
			}
			if o.takeOver && o.join {
				return usagef("take the services, or stand beside whoever holds them", "either --takeover or --join, not both")
			}
			if len(args) > 0 {
				o.lane = args[0]
			}
			o.flags, o.services = given(), services.all
			if f.held == nil && f.draws(o) {
				if held, err := f.hold(c.Context(), os.Args[1:]); held {
					return err
				}
			}
			return f.untilFree(c.Context(), o, func() error { return runUp(c.Context(), f, o, os.Args[1:]) })
		},
	}
	c.Flags().VarP(&services, "service", "s", "service and port of its local process; may be repeated")
	c.Flags().BoolVar(&o.takeOver, "takeover", false, "take the lane's services from whoever holds them")
	c.Flags().BoolVar(&o.join, "join", false, "stand beside whoever holds the lane's services: both get a part of the calls")
	c.Flags().BoolVarP(&o.detach, "detach", "d", false, "return when the lane is routable, and leave the session running")
	c.Flags().BoolVar(&o.bodies, "bodies", false, "keep bodies for the terminal UI: 64 KiB of each, 32 MiB in all, in memory")
	c.Flags().BoolVar(&o.plain, "plain", false, "print lines, no terminal UI")
	utf8Flag(c, &o.utf8)
	c.Flags().BoolVar(&o.json, "json", false, "with -d: print the session's status as JSON")
	given = settingFlags(c, sessionSettings)
	_ = c.RegisterFlagCompletionFunc("service", f.completeServices)
	return c
}

func runUp(ctx context.Context, f *factory, o *upOptions, argv []string) error {
	s, err := f.settings(given{lane: o.lane, services: o.services, flags: o.flags})
	if err != nil {
		return err
	}
	name, err := readLane(s.Lane)
	if err != nil {
		return err
	}
	if o.json && !o.detach {
		return usagef("`lane status --json` shows a running session", "--json goes with -d")
	}
	if o.detach {
		st, err := f.detach(ctx, string(name), attached(argv))
		if err != nil {
			return err
		}
		if o.json {
			return f.printJSON(st)
		}
		return f.banner(f.io.Out, &st)
	}
	if path := f.getenv(detachedLog); path != "" {
		if err := f.intoLog(path); err != nil {
			return err
		}
		f.deafToHangups()
	}
	opts, err := f.sessionOptions(s, name, o)
	if err != nil {
		return err
	}
	away := f.show(&opts, o)
	if len(o.command) > 0 {
		if err := f.warnNode(ctx, o.command[0]); err != nil {
			return err
		}
	}
	ready, wasUp := opts.Ready, false
	opts.Ready = func(st control.Status) {
		wasUp = true
		if ready != nil {
			ready(st)
		}
	}
	var cause error // of its end
	opts.Ended = func(c error) { cause = c }
	err = session.Run(ctx, opts)
	log := opts.LogPath
	if path, left := away.left(); left {
		log = path
	}
	if log != "" && wasUp { // of a start that fails, whoever waits for it is told
		if e := leaveEnd(log, f.now(), err); e != nil {
			opts.Log.Warn("lane status will not say how this ended", "error", e)
		}
	}
	if err == nil && opts.LogPath != "" && !wasUp {
		return errDownAtStart // whoever waits for it is told why it does not come
	}
	var left *session.LeftBehindError
	if err == nil || errors.Is(err, errInterrupted) && !errors.As(err, &left) {
		var names []string
		for _, v := range opts.Services {
			names = append(names, v.Name)
		}
		if _, e := fmt.Fprintln(f.io.Err, farewell(string(name), names)+endedBy(cause)); e != nil {
			return errors.Join(err, e)
		}
	}
	if err == nil && errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}

// deafToHangups is for a session that has no terminal, or none any more: that one was
// closed is nothing to it.
func (f *factory) deafToHangups() {
	if f.hangups != nil {
		f.hangups()
	}
}

// endedBy says who has ended a session where it was not whoever sits at its terminal.
func endedBy(cause error) string {
	var by *session.InterruptedError
	switch {
	case errors.Is(cause, session.ErrStopped):
		return " (" + session.ErrStopped.Error() + ")"
	case errors.As(cause, &by) && by != errInterrupted: //nolint:errorlint // to errors.Is they are one
		return " (ended " + by.How + ")"
	}
	return ""
}

// errDownAtStart is the end of a detached session by `lane down` while it started.
var errDownAtStart = errors.New("the session was ended by lane down while it started")

// attached is a command line without its wish to detach, which is the first -d
// or --detach before a -- that ends the flags.
func attached(argv []string) []string {
	var out []string
	for i, a := range argv {
		if a == "--" {
			return append(out, argv[i:]...)
		}
		if a != "-d" && a != "--detach" && a != "--json" {
			out = append(out, a)
		}
	}
	return out
}

func (f *factory) sessionOptions(s *config.Settings, name lane.Name, o *upOptions) (session.Options, error) {
	none := session.Options{}
	car, err := s.Carriers()
	if err != nil {
		return none, err
	}
	state, err := config.StateDir(f.system())
	if err != nil {
		return none, err
	}
	install, err := config.InstallID(state)
	if err != nil {
		return none, err
	}
	runtime, err := f.runtimeDir()
	if err != nil {
		return none, err
	}
	host, _ := os.Hostname() // shown only
	opts := session.Options{
		Lane: name, Mode: s.Register, TakeOver: o.takeOver, Join: o.join, Owner: s.Owner, Host: host, Install: install,
		Env: s.Env, Tenant: s.Tenant, Zone: s.Zone, Version: s.Version,
		Proxy: s.Proxy, ProxyFixed: s.Source("proxy") != "default", ProxyFrom: s.Source("proxy"), Registry: f.consulConfig(s),
		Policy: s.Policy(), Sticky: s.StickyKey(), Browsers: browsers(s), Carriers: car, Hosts: s.Hosts, Colored: s.Colored,
		Opens: s.Mitm, Bodies: o.bodies, Reject: s.Guard == config.Reject, Probes: s.Probes, Drain: s.Drain,
		Command: o.command, In: f.io.In, Out: iostreams.ForChild(f.io.Out), Err: iostreams.ForChild(f.io.Err),
		Remarks: s.Warnings(), Settings: s.Deciding(), RuntimeDir: runtime, LogPath: f.getenv(detachedLog), Now: f.now, Force: f.force,
	}
	for _, v := range s.Services {
		opts.Services = append(opts.Services, session.Service{Name: v.Name, Local: v.Addrs(), Health: v.Health})
	}
	if s.Advertise != "" {
		if opts.Advertise, err = netip.ParseAddr(s.Advertise); err != nil {
			return none, err
		}
	}
	if err := f.opening(&opts, s); err != nil {
		return none, err
	}
	opts.Guardian, opts.Outgoing = f.guardian, listening.Outgoing
	if opts.Gate, err = f.gate(); err != nil {
		return none, err
	}
	// The command calls services, and no relay.
	environ := slices.DeleteFunc(slices.Clone(f.environ), func(v string) bool {
		return strings.HasPrefix(v, relayTokenVar+"=") || strings.HasPrefix(v, detachedLog+"=")
	})
	opts.ChildEnv = func(st control.Status) []string { return childenv.Build(environ, f.childSession(&st)) }
	opts.Upstream.HTTP, opts.Upstream.HTTPS, opts.Upstream.NoProxy = childenv.Inherited(f.environ, goruntime.GOOS == "windows")
	if s.Relay != "" {
		if opts.Relay, err = f.relayOf(s, opts.Upstream); err != nil {
			return none, err
		}
	}
	return opts, nil
}

// draws says that a session is shown as the terminal UI.
func (f *factory) draws(o *upOptions) bool {
	return !o.plain && !o.detach && !o.json && len(o.command) == 0 && f.getenv(detachedLog) == "" && f.screen()
}

// show sets how a session shows itself: as the terminal UI, which it may leave, as lines,
// or, with a command that owns the terminal, in a few words.
func (f *factory) show(opts *session.Options, o *upOptions) *parting {
	away := &parting{f: f, lane: opts.Lane, out: &gate{to: f.io.Err}, level: new(slog.LevelVar)}
	away.level.Set(slog.LevelWarn)
	if opts.LogPath != "" {
		away.level.Set(slog.LevelInfo)
	}
	opts.Log = slog.New(slog.NewTextHandler(away.out, &slog.HandlerOptions{Level: away.level}))
	away.say = opts.Log
	opts.Ready = func(st control.Status) {
		_ = f.banner(f.io.Err, &st) // who has closed it does not read it
		if st.Child != "" {
			_ = f.warnBypassed(st)
		}
	}
	switch {
	case len(o.command) > 0, opts.LogPath != "":
	case f.draws(o):
		opts.Ready = nil
		opts.View = func(ctx context.Context, v session.View) error {
			defer away.out.close(ctx)() // a line would tear the screen
			how := tui.Options{UTF8: o.utf8}
			if f.held != nil {
				how.Detach = away.prepare
			}
			err := f.watch(ctx, v, how)
			if errors.Is(err, tui.ErrDetached) {
				return away.leave(ctx, v)
			}
			return errors.Join(err, away.drop())
		}
	default:
		opts.View = f.lines
	}
	return away
}

// lines prints a session's exchanges until it ends.
func (f *factory) lines(ctx context.Context, v session.View) error {
	var last uint64
	for {
		rows, lost, err := v.Next(ctx, last)
		if err != nil {
			return nil // the session has ended
		}
		if err := f.printLost(false, lost); err != nil {
			return err
		}
		for _, e := range rows {
			last = e.Seq
			if err := printer.Exchange(f.io, &e); err != nil {
				return err
			}
		}
	}
}

// completeServices completes the services of lane.yaml, then the registry's.
func (f *factory) completeServices(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	s, err := f.settings(given{})
	if err != nil {
		return nil, directive
	}
	var out []string
	for _, v := range s.Services {
		out = append(out, v.Name)
	}
	for _, name := range f.serviceNames(c.Context()) {
		if config.CheckOwnName(name) == nil && !slices.Contains(out, name) {
			out = append(out, name+"=")
		}
	}
	return out, directive
}

const listLimit = 2 * time.Second
