package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	goruntime "runtime"
	"strconv"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/proxy"
	"lane/pkg/session"
	"lane/pkg/sidecar"
	"lane/pkg/tracemap"
	"lane/pkg/whitelist"

	"github.com/spf13/cobra"
)

type sidecarOptions struct {
	service  string
	app      []string
	listen   string
	outbound string
	sources  tracemap.Sources
	traces   int
	ttl      time.Duration
	stamped  bool
	rules    string
	lists    listOptions
	probes   []string
	drain    time.Duration
	register bool
	weight   int
	settings func() []config.Flag
	observed observedOptions
}

func newSidecarCmd(f *factory) *cobra.Command {
	o := &sidecarOptions{}
	c := &cobra.Command{
		Use:   "sidecar --service NAME --app HOST:PORT",
		Short: "Run beside a baseline service: keep the tag of each trace",
		Long: `Run beside a service that passes on its trace headers and knows no lanes. Callers
come to the sidecar, which learns with which tag each trace came in; the
application's own calls go through the sidecar's proxy (HTTP_PROXY), which gives
them that tag again and routes them.

The application has to pass on one trace header: traceparent, b3, x-b3-traceid,
uber-trace-id, sw8, x-datadog-trace-id, x-amzn-trace-id or x-request-id.

With --rules the service is an entry: a request without a tag, of a trace that has
none, gets its lane from the rules whose entry the service is, and goes to that
lane's instance of the service if there is one. "registry" takes the active rules
(lane rules push), and each later revision within moments.`,
		Example: `  lane sidecar --service order-service --app 127.0.0.1:8080 --listen 0.0.0.0:9080
  lane sidecar --service order-service --app 8080 --register --zone eu-1
  HTTP_PROXY=http://127.0.0.1:9081 ./order-service`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runSidecar(c.Context(), f, o) },
	}
	addFlag(c, &o.service, "service", "", checked("NAME", config.CheckOwnName), "name of the service in the registry")
	addFlag(c, &o.app, "app", "", kind[[]string]{"HOST:PORT", readApp}, "the application, or a port of this machine")
	addFlag(c, &o.listen, "listen", "127.0.0.1:9080", anAddress, "address for the service's callers; port 0 takes a free one")
	addFlag(c, &o.outbound, "outbound", "127.0.0.1:9081", anAddress, "address of the application's proxy; port 0 takes a free one")
	addFlag(c, &o.sources, "trace-header", tracemap.Auto, aTrace, "the one header that holds the trace id, or auto for every known one")
	addFlag(c, &o.traces, "traces", strconv.Itoa(tracemap.DefaultSize), number(1, 100_000_000), "how many traces are kept; the oldest go first")
	addFlag(c, &o.ttl, "trace-ttl", "10m", duration(time.Second, 24*time.Hour), "how long a trace is kept after its last request")
	c.Flags().BoolVar(&o.stamped, "stamped", false, "the entry gives each request a tag: count those without as lost")
	addFlag(c, &o.rules, "rules", "", kind[string]{"registry|FILE", readRulesSource}, "color requests without a tag by the rules whose entry is the service")
	o.lists.flags(c)
	addFlags(c, &o.probes, "probe", aPath, "path that is answered here: 200 while the application's port accepts")
	addFlag(c, &o.drain, "drain", "30s", duration(0, longest), "how long the end waits for requests under way")
	c.Flags().BoolVar(&o.register, "register", false, "register the service with the sidecar's address, for as long as it runs")
	addFlag(c, &o.weight, "weight", "", number(1, 65535), "`WEIGHT` of the registered instance among the others")
	o.observed.flags(c, consul.SidecarService)
	o.settings = placeFlags(c,
		setting{"advertise", "advertise", "IP", "address under which the environment reaches this machine, for --register"},
		setting{"app-version", "version", "VERSION", "version of the application, as metadata"})
	_ = c.RegisterFlagCompletionFunc("service", f.completeServices)
	return c
}

func runSidecar(ctx context.Context, f *factory, o *sidecarOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	at, err := f.place(ctx, o.settings())
	if err != nil {
		return err
	}
	defer at.client.Close()
	colors, err := o.colors(ctx, f, at)
	if err != nil {
		return err
	}
	defer colors.close()
	in, err := net.Listen("tcp", o.listen)
	if err != nil {
		return &session.PortError{What: "the sidecar", Addr: o.listen, From: "--listen", Err: err}
	}
	out, err := net.Listen("tcp", o.outbound)
	if err != nil {
		return errors.Join(&session.PortError{What: "the sidecar's proxy", Addr: o.outbound, From: "--outbound", Err: err}, in.Close())
	}
	if ip, err := netip.ParseAddrPort(out.Addr().String()); err == nil && !ip.Addr().IsLoopback() {
		fmt.Fprintln(f.io.Err, "lane: the application's proxy asks nobody who he is, and other machines can reach it")
	}
	reg, err := o.registration(ctx, at.s, at.client, in.Addr())
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	instance := o.service
	if reg != nil {
		instance = reg.ID
	}
	traces := tracemap.New(tracemap.Options{Size: o.traces, TTL: o.ttl})
	seen, err := f.observe(at, &o.observed, &router{as: consul.SidecarService, front: in.Addr(), before: o.service, traces: func() int { return traces.Stats().Size }, rules: colors.registry, own: colors.set != nil, list: colors.list, lane: colors.lane,
		service: func(name string) bool { return name == o.service }}) // which it never asks the registry for
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	policy := at.policy()
	policy.StampedEntry = o.stamped
	var upstream proxy.Upstream
	upstream.HTTP, upstream.HTTPS, upstream.NoProxy = childenv.Inherited(f.environ, goruntime.GOOS == "windows")
	opts := sidecar.Options{
		Inbound: in, Outbound: out, Client: at.client, Watcher: seen.watcher, Meter: seen.meter, Beside: seen.run, Service: o.service, Instance: instance, App: o.app, Register: reg,
		Sources: o.sources, Traces: traces, Stamped: o.stamped, Probes: o.probes,
		Policy: policy, Carriers: &at.carriers, Caller: at.caller(), Sticky: at.s.StickyKey(), Browsers: browsers(at.s),
		Upstream: upstream, Hosts: at.s.Hosts, Colored: at.s.Colored,
		Log: seen.log, Drain: drainOf(o.drain), Force: f.force, Logger: f.logger(slog.LevelWarn),
		Ready: func() {
			seen.ready(func() { // who has closed it does not read it
				_, _ = fmt.Fprintf(f.io.Out, "sidecar of %s at %s\nproxy at %s\n%s", o.service, reached(in.Addr().String()), reached(out.Addr().String()), seen.addr())
			})
		},
	}
	if colors.registry != nil {
		opts.Rules = colors.registry
	}
	opts.Color = colors.color()
	// A signal is how its supervisor ends it: that is no failure.
	return sidecar.Run(ctx, opts)
}

// registration is what --register puts into the registry, nil without it.
func (o *sidecarOptions) registration(ctx context.Context, s *config.Settings, client *consul.Client, at net.Addr) (*consul.Registration, error) {
	if !o.register {
		return nil, nil
	}
	listen, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return nil, err
	}
	ip := listen.Addr()
	switch {
	case s.Advertise != "":
		if ip, err = netip.ParseAddr(s.Advertise); err != nil {
			return nil, err
		}
	case ip.IsUnspecified():
		if ip, err = client.LocalIP(ctx); err != nil {
			return nil, fmt.Errorf("find this machine's address: %w", err)
		}
	}
	reg := &consul.Registration{
		Name: o.service, Service: o.service, Baseline: true, Address: ip.Unmap().String(), Port: int(listen.Port()),
		Env: s.Env, Tenant: s.Tenant, Zone: s.Zone, Version: s.Version, Weight: o.weight,
	}
	reg.ID = consul.BaselineID(reg.Service, reg.Address, reg.Port)
	return reg, reg.Validate()
}

// check holds the flags to what they must be together.
func (o *sidecarOptions) check() error {
	const hint = "lane sidecar --service order-service --app 127.0.0.1:8080"
	switch {
	case o.service == "":
		return usagef(hint, "--service is missing")
	case len(o.app) == 0:
		return usagef(hint, "--app is missing")
	case o.rules != "" && o.stamped:
		return usagef("--stamped where another entry colors, --rules where this one does", "--rules and --stamped are of two entries")
	case o.rules == "" && (o.lists.redis != "" || o.lists.prefix != whitelist.DefaultPrefix):
		return usagef("add --rules registry", "--redis and --redis-prefix are about the whitelists of rules")
	case o.weight != 0 && !o.register:
		return usagef("add --register", "--weight is that of the instance which --register registers")
	}
	return nil
}

// readApp reads the application's address: HOST:PORT, or a port of this machine, on
// both loopbacks.
func readApp(s string) ([]string, error) {
	if _, err := config.CheckPort(s); err == nil {
		return []string{"127.0.0.1:" + s, "[::1]:" + s}, nil
	}
	if config.CheckHostPort(s) != nil {
		return nil, fmt.Errorf("%q is neither HOST:PORT nor a port of this machine", s)
	}
	return []string{s}, nil
}
