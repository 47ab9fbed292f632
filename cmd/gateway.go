package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	adminport "lane/pkg/admin"
	"lane/pkg/config"
	"lane/pkg/consul"
	"lane/pkg/gateway"
	"lane/pkg/nearest"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/session"
	"lane/pkg/tracemap"

	"github.com/spf13/cobra"
)

// entryRing is how many exchanges a gateway or a sidecar keeps for its readers.
const entryRing = 4096

type gatewayOptions struct {
	listen   string
	config   string
	routes   []proxy.Route
	rules    string
	lists    listOptions
	traces   tracemap.Sources
	sampled  bool
	expose   proxy.Expose
	settings func() []config.Flag
	observed observedOptions
	drain    time.Duration
}

func newGatewayCmd(f *factory) *cobra.Command {
	o := &gatewayOptions{}
	c := &cobra.Command{
		Use:   "gateway",
		Short: "Run an entry of the shared environment: color by rules, route",
		Long: `Run an entry of the shared environment. It finds the service of each request by
host and path, gives the request its lane by the rules, and sends it to the
lane's instance, or to the baseline. Requests leave it with a tag, the baseline's
among them, so that one without a tag has lost it on the way.

A client's own tag and trace ids count only if the rules trust their sender
(trustHeader); otherwise they are taken off, a new trace begins, and the answer
says so in X-Lane-Warning.

The rules are those in the registry (lane rules push): a new revision holds within
moments, as a whole, and one that cannot be loaded never comes to hold.`,
		Example: `  lane gateway --listen 0.0.0.0:8080 --route productpage --rules rules.yaml
  lane gateway --route shop.test/api/orders=order-service --route productpage
  lane gateway --config gateway.yaml --rules rules.yaml`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error { return runGateway(c.Context(), f, o) },
	}
	addFlag(c, &o.listen, "listen", "127.0.0.1:8080", anAddress, "address to listen on; port 0 takes a free one")
	o.routeFlags(c)
	addFlag(c, &o.rules, "rules", "", aFile, "file of rules, in place of those in the registry")
	o.lists.flags(c)
	addFlag(c, &o.traces, "trace-header", tracemap.Auto, aTrace, "the one header with the trace id; auto is every known one")
	c.Flags().BoolVar(&o.sampled, "trace-sampled", true, "say of a trace that begins here that it is recorded")
	addFlag(c, &o.expose, "expose", string(proxy.ExposeTrusted), kind[proxy.Expose]{"WHO", proxy.ParseExpose}, "who learns instances and faults inside: trusted, all or none")
	addFlag(c, &o.drain, "drain", "30s", duration(0, longest), "how long the end waits for requests under way")
	o.observed.flags(c, consul.GatewayService)
	o.settings = placeFlags(c)
	return c
}

// routeFlags are the flags that say where requests are led.
func (o *gatewayOptions) routeFlags(c *cobra.Command) {
	addFlag(c, &o.config, "config", "", aFile, "file with the gateway's routes, see docs/gateway.md")
	addFlags(c, &o.routes, "route", aRoute, "where requests go; SERVICE alone for everything")
}

func runGateway(ctx context.Context, f *factory, o *gatewayOptions) error {
	routes, err := o.readRoutes()
	if err != nil {
		return err
	}
	if !o.sampled {
		o.traces = o.traces.Unsampled()
	}
	set, err := readRules(o.rules)
	if err != nil {
		return err
	}
	o.warn(f, set, routes)
	redis, err := o.lists.url(f)
	if err != nil {
		return err
	}
	at, err := f.place(ctx, o.settings())
	if err != nil {
		return err
	}
	defer at.client.Close()
	list, err := o.lists.open(f, redis, at.client)
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }() // what it could not end ends with the process
	members := membersOf(ctx, list)
	fixed := func(_ context.Context, r *rules.Request) (rules.Result, rules.Revision) {
		return set.Color(r, members), set.Revision()
	}
	ln, err := net.Listen("tcp", o.listen)
	if err != nil {
		return &session.PortError{What: "the gateway", Addr: o.listen, From: "--listen", Err: err}
	}
	var inForce *gateway.Rules
	if set == nil {
		inForce = gateway.NewRules(at.client, members, f.logger(slog.LevelInfo))
	}
	known := gateway.NewKnown(routes, func() *rules.Set {
		if inForce != nil {
			return inForce.Set()
		}
		return set
	})
	seen, err := f.observe(at, &o.observed, &router{as: consul.GatewayService, front: ln.Addr(), always: gateway.Services(routes), rules: inForce, own: set != nil, list: list, lane: known.Lane, service: known.Service})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	opts := gateway.Options{
		Listener: ln, Watcher: seen.watcher, Meter: seen.meter, Routes: routes, Policy: at.policy(), Carriers: &at.carriers, Caller: at.caller(), Sticky: at.s.StickyKey(), Browsers: browsers(at.s),
		Traces: o.traces, Expose: o.expose, Color: fixed, Log: seen.log, Drain: drainOf(o.drain), Force: f.force, Logger: f.logger(slog.LevelWarn),
	}
	if inForce != nil {
		opts.Rules, opts.Color = inForce, inForce.Color
	}
	opts.Ready = func() { seen.ready(func() { o.ready(f, ln.Addr(), inForce, seen.addr()) }) }
	opts.Beside = func(ctx context.Context) error {
		var asks sync.WaitGroup // no request waits for it
		defer asks.Wait()
		asks.Go(func() { warnUnknown(ctx, f, at.client, gateway.Services(routes)) })
		return seen.run(ctx)
	}
	// A signal is how its supervisor ends it: that is no failure.
	return gateway.Run(ctx, opts)
}

// drainOf is a --drain for a front, to which 0 is its default: nothing is to be waited for.
func drainOf(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// warn says which rules of a file can never color anything here.
func (o *gatewayOptions) warn(f *factory, set *rules.Set, routes []proxy.Route) {
	if set == nil {
		return
	}
	for _, entry := range set.Entries() {
		if !slices.ContainsFunc(routes, func(r proxy.Route) bool { return r.Service == entry }) {
			fmt.Fprintf(f.io.Err, "lane: no route leads to %s: its rules color nothing here\n", entry)
		}
	}
}

// unknownWithin bounds the question for the registry's services at a start.
const unknownWithin = 3 * time.Second

// warnUnknown says which routes lead to no service. One may come later: it is no mistake.
func warnUnknown(ctx context.Context, f *factory, client *consul.Client, services []string) {
	ctx, cancel := context.WithTimeout(ctx, unknownWithin)
	defer cancel()
	known, err := client.EveryService(ctx)
	if err != nil || known == nil { // nobody can tell
		return
	}
	for _, s := range services {
		if slices.Contains(known, s) {
			continue
		}
		near := nearest.Word(s, known)
		if near != "" {
			near = "; did you mean " + near + "?"
		}
		fmt.Fprintf(f.io.Err, "lane: the registry has no service %s: requests that are led to it fail until one is registered%s\n", s, near)
	}
}

// revOf is what the admin port says of the rules; own says that they are a file's.
func revOf(r *gateway.Rules, own bool) adminport.Rev {
	rev := r.Rev()
	rev.Own = own
	return rev
}

// ready says that the gateway is up, and by which rules.
func (o *gatewayOptions) ready(f *factory, at net.Addr, registry *gateway.Rules, admin string) {
	by := "rules of " + o.rules
	if registry != nil {
		switch st := registry.State(); {
		case st.Refused != 0:
			by = fmt.Sprintf("revision %d of the registry's rules cannot be loaded: %v", st.Refused, st.Why)
		case st.Applied != 0:
			by = fmt.Sprintf("revision %d of the registry's rules", st.Applied)
		default:
			by = "no rules in the registry yet: nothing is colored"
		}
	}
	_, _ = fmt.Fprintf(f.io.Out, "gateway at %s\n%s%s\n", reached(at.String()), admin, by) // who has closed it does not read it
}

// readRoutes are the routes of the file, then those of the command line.
func (o *gatewayOptions) readRoutes() ([]proxy.Route, error) {
	var out []proxy.Route
	if o.config != "" {
		b, err := os.ReadFile(o.config)
		if err != nil {
			return nil, err
		}
		if out, err = gateway.ParseRoutes(b); err != nil {
			return nil, usagef("see docs/gateway.md", "%s: %v", o.config, err)
		}
	}
	out = append(out, o.routes...)
	if len(out) == 0 {
		return nil, usagef("--route SERVICE leads everything to one service; --config FILE reads a file", "a gateway needs a route")
	}
	if err := proxy.CheckRoutes(out); err != nil {
		return nil, usagef("see docs/gateway.md", "%v", err)
	}
	return out, nil
}

// readRules reads a document of rules; without a file there is none.
func readRules(file string) (*rules.Set, error) {
	if file == "" {
		return nil, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set, err := rules.Parse(b)
	if err != nil {
		return nil, usagef("see docs/rules.md", "%s: %v", file, err)
	}
	return set, nil
}

// logger writes what is to be known on stderr.
func (f *factory) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(f.io.Err, &slog.HandlerOptions{Level: level}))
}
