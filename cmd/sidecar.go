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
	"strings"
	"time"

	"lane/pkg/childenv"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/proxy"
	"lane/pkg/session"
	"lane/pkg/sidecar"
	"lane/pkg/tracemap"

	"github.com/spf13/cobra"
)

type sidecarOptions struct {
	service  string
	app      string
	listen   string
	outbound string
	header   string
	traces   int
	ttl      time.Duration
	stamped  bool
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
uber-trace-id, sw8, x-datadog-trace-id, x-amzn-trace-id or x-request-id.`,
		Example: `  lane sidecar --service order-service --app 127.0.0.1:8080 --listen 0.0.0.0:9080
  lane sidecar --service order-service --app 8080 --register --zone eu-1
  HTTP_PROXY=http://127.0.0.1:9081 ./order-service`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runSidecar(c.Context(), f, o) },
	}
	fl := c.Flags()
	fl.StringVar(&o.service, "service", "", "`NAME` of the service in the registry")
	fl.StringVar(&o.app, "app", "", "`HOST:PORT` of the application, or a port of this machine")
	fl.StringVar(&o.listen, "listen", "127.0.0.1:9080", "`ADDRESS` for the service's callers; port 0 takes a free one")
	fl.StringVar(&o.outbound, "outbound", "127.0.0.1:9081", "`ADDRESS` of the application's proxy; port 0 takes a free one")
	fl.StringVar(&o.header, "trace-header", tracemap.Auto, "the one `HEADER` that holds the trace id, or auto for every known one")
	fl.IntVar(&o.traces, "traces", tracemap.DefaultSize, "how many traces, `N`, are kept; the oldest go first")
	fl.DurationVar(&o.ttl, "trace-ttl", tracemap.DefaultTTL, "how long a trace is kept after its last request")
	fl.BoolVar(&o.stamped, "stamped", false, "the entry gives each request a tag: count those without as lost")
	fl.StringArrayVar(&o.probes, "probe", nil, "`PATH` that is answered here: 200 while the application's port accepts; may be repeated")
	fl.DurationVar(&o.drain, "drain", 30*time.Second, "how long the end waits for requests under way")
	fl.BoolVar(&o.register, "register", false, "register the service with the sidecar's address, for as long as it runs")
	fl.IntVar(&o.weight, "weight", 0, "`WEIGHT` of the registered instance among the others")
	o.observed.flags(c, consul.SidecarService)
	o.settings = placeFlags(c,
		setting{"advertise", "advertise", "IP", "address under which the environment reaches this machine, for --register"},
		setting{"app-version", "version", "VERSION", "version of the application, as metadata"})
	_ = c.RegisterFlagCompletionFunc("service", f.completeServices)
	return c
}

func runSidecar(ctx context.Context, f *factory, o *sidecarOptions) error {
	app, err := o.check()
	if err != nil {
		return err
	}
	sources, err := tracemap.ParseSources(o.header)
	if err != nil {
		return usagef("", "--trace-header: %v", err)
	}
	at, err := f.place(ctx, o.settings())
	if err != nil {
		return err
	}
	defer at.client.Close()
	in, err := net.Listen("tcp", o.listen)
	if err != nil {
		return &session.PortError{What: "the sidecar", Addr: o.listen, Err: err}
	}
	out, err := net.Listen("tcp", o.outbound)
	if err != nil {
		return errors.Join(&session.PortError{What: "the sidecar's proxy", Addr: o.outbound, Err: err}, in.Close())
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
	seen, err := f.observe(at, &o.observed, &router{as: consul.SidecarService, front: in.Addr(), traces: func() int { return traces.Stats().Size },
		service: func(name string) bool { return name == o.service }}) // which it never asks the registry for
	if err != nil {
		return errors.Join(err, in.Close(), out.Close())
	}
	policy := at.policy()
	policy.StampedEntry = o.stamped
	var upstream proxy.Upstream
	upstream.HTTP, upstream.HTTPS, upstream.NoProxy = childenv.Inherited(f.environ, goruntime.GOOS == "windows")
	err = sidecar.Run(ctx, sidecar.Options{
		Inbound: in, Outbound: out, Client: at.client, Watcher: seen.watcher, Meter: seen.meter, Beside: seen.run, Service: o.service, Instance: instance, App: app, Register: reg,
		Sources: sources, Traces: traces, Stamped: o.stamped, Probes: o.probes,
		Policy: policy, Carriers: &at.carriers, Caller: at.caller(),
		Upstream: upstream, Hosts: at.s.Hosts, Colored: at.s.Colored,
		Log: seen.log, Drain: o.drain, Force: f.force, Logger: f.logger(slog.LevelWarn),
		Ready: func() { // who has closed it does not read it
			_, _ = fmt.Fprintf(f.io.Out, "sidecar of %s at %s\nproxy at %s\n%s", o.service, reached(in.Addr().String()), reached(out.Addr().String()), seen.addr())
		},
	})
	return err // a signal is how its supervisor ends it: that is no failure
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
			return nil, usagef("", "advertise: %v", err)
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

// check holds the flags to what they must be, and gives the application's
// addresses.
func (o *sidecarOptions) check() ([]string, error) {
	const hint = "lane sidecar --service order-service --app 127.0.0.1:8080"
	switch {
	case o.service == "":
		return nil, usagef(hint, "--service is missing")
	case o.app == "":
		return nil, usagef(hint, "--app is missing")
	case o.traces < 1:
		return nil, usagef("", "--traces: %d traces are none", o.traces)
	case o.ttl <= 0:
		return nil, usagef("", "--trace-ttl: %v is no time", o.ttl)
	case o.drain < 0:
		return nil, usagef("", "--drain: %v is no time", o.drain)
	case o.weight != 0 && !o.register:
		return nil, usagef("add --register", "--weight is that of the instance which --register registers")
	}
	for _, path := range o.probes {
		if !strings.HasPrefix(path, "/") {
			return nil, usagef("", "--probe: %q is no path: it begins with /", path)
		}
	}
	host, port, err := net.SplitHostPort(o.app)
	if !strings.Contains(o.app, ":") {
		host, port, err = "localhost", o.app, nil
	}
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
		return nil, usagef(hint, "--app: %q is neither HOST:PORT nor a port", o.app)
	}
	if port == o.app {
		return []string{"127.0.0.1:" + port, "[::1]:" + port}, nil
	}
	return []string{o.app}, nil
}
