package sidecar

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/tracemap"
	"lane/pkg/traffic"
)

// Options are everything that a sidecar needs. Inbound, Outbound, Client, Watcher,
// Service, App and Traces are required.
type Options struct {
	Inbound  net.Listener // where callers come to; closed at the end
	Outbound net.Listener // the application's proxy; closed at the end
	Client   *consul.Client
	Watcher  *consul.Watcher // run by Run
	Service  string
	Instance string   // the application's ID in the registry
	App      []string // its addresses, dialled in this order
	Sources  tracemap.Sources
	Traces   *tracemap.Map
	// Stamped says that the entry gives each request a tag: one without has lost it.
	Stamped bool
	// Color, if set, makes the service an entry: it colors requests without a tag.
	Color func(ctx context.Context, r *rules.Request) (rules.Result, rules.Revision)
	// Rules, if set, are watched for as long as Run runs, and waited for before the
	// first request: until their first answer nothing would be colored.
	Rules    Rules
	Probes   []string
	Policy   lane.Policy
	Carriers *lane.Carriers // nil: the default
	Caller   lane.Caller
	Sticky   rules.Key      // where a request says who its user is; none: nobody keeps his version
	Browsers proxy.Browsers // what answers get for browsers
	Upstream proxy.Upstream // an inherited proxy, for external hosts
	Hosts    map[string]string
	Colored  []string
	Log      *traffic.Log
	Meter    proxy.Meter // may be nil
	// Beside, if set, runs for as long as the sidecar does, and longer than its last
	// request; its error ends the sidecar.
	Beside func(ctx context.Context) error
	// Drain is how long the end waits for requests, callers' and the application's own
	// in all; 0 is 30 s, and a negative one none at all. When Force is closed it waits
	// no longer.
	Drain time.Duration
	Force <-chan struct{}
	// Register, if set, puts the application into the registry, at the inbound
	// front's address, for as long as Run runs. A registry that is away is asked
	// again; meanwhile the sidecar serves.
	Register *consul.Registration
	Hold     consul.HoldOptions
	// Ready, if set, is called when everything is up, and the registry shows it.
	Ready  func()
	Logger *slog.Logger
}

// Rules are those of a registry, which change while a sidecar runs.
type Rules interface {
	Run(ctx context.Context) error
	// Settled is closed when the registry has answered for the first time.
	Settled() <-chan struct{}
}

// Run serves until ctx ends, then drains. It returns when nothing of it runs.
func Run(ctx context.Context, o Options) error {
	// One drain time for all: the way out of the registry and either front would each
	// wait for its own.
	over := make(chan struct{})
	force, drain := o.Force, o.Drain
	if drain == 0 {
		drain = defaultDrain
	}
	o.Force = over
	inbound, outbound, watcher, transport, err := o.fronts()
	if err != nil {
		return errors.Join(err, o.Inbound.Close(), o.Outbound.Close())
	}
	defer transport.Close()
	// Callers end first, then the application's own calls, then the watch by which
	// they are decided.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	calls, quiet := context.WithCancel(life)
	defer quiet()
	serving, stop := context.WithCancel(life)
	defer stop()
	var parts errgroup.Group
	parts.Go(func() error {
		defer close(over)
		select {
		case <-ctx.Done():
		case <-serving.Done():
		}
		end := time.NewTimer(drain)
		defer end.Stop()
		select {
		case <-end.C:
		case <-force:
		case <-life.Done():
		}
		return nil
	})
	entry := o.enter()
	refused := make(chan error, 1) // why the registry does not take it
	parts.Go(func() error {
		defer stop()
		return watcher.Run(life)
	})
	if o.Beside != nil {
		parts.Go(func() error {
			defer stop()
			return o.Beside(life)
		})
	}
	parts.Go(func() error {
		defer end()
		defer stop()
		_ = watcher.Settle(calls) // what is not known by then, each call says
		return outbound.Serve(calls, o.Outbound)
	})
	if o.Rules != nil {
		parts.Go(func() error {
			defer stop()
			return o.Rules.Run(life)
		})
	}
	parts.Go(func() error {
		defer quiet()
		if o.Rules != nil {
			select {
			case <-o.Rules.Settled():
			case <-serving.Done():
			}
		}
		return inbound.Serve(serving, o.Inbound)
	})
	if entry != nil {
		parts.Go(func() error {
			refused <- entry.keep(life)
			return nil
		})
	}
	parts.Go(func() error {
		defer stop()
		var err error
		for up, on := entry.shown(), true; on; {
			select {
			case <-up:
				up = nil
				if o.Ready != nil {
					o.Ready()
				}
			case err = <-refused:
				on = false
			case <-ctx.Done():
				on = false
			case <-serving.Done(): // a part has failed
				on = false
			}
		}
		return errors.Join(err, entry.leave(life, inbound.InFlight))
	})
	return parts.Wait()
}

func (o *Options) fronts() (in *proxy.Inbound, out *proxy.Forward, w *consul.Watcher, t *proxy.Transport, err error) {
	router, err := lane.NewRouter(o.Policy)
	if err != nil {
		return nil, nil, nil, nil, err
	}
	names, err := proxy.NewNames(proxy.NamesConfig{Hosts: o.Hosts, Colored: o.Colored})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	w = o.Watcher
	t, err = proxy.NewTransport(proxy.Config{
		Registry: w, Router: router, Carriers: o.Carriers, Names: names, Caller: o.Caller, Sticky: o.Sticky, Browsers: o.Browsers,
		Log: o.Log, Meter: o.Meter, Upstream: o.Upstream, Logger: o.Logger,
		Traces: o.Sources, TraceLane: o.Traces.Get,
	})
	if err != nil {
		return nil, nil, nil, nil, err
	}
	in, err = proxy.NewInbound(t, proxy.InboundConfig{
		Service: o.Service, InstanceID: o.Instance, App: o.App, Stamped: o.Stamped, Color: o.Color, Probes: o.Probes, Drain: o.Drain, Force: o.Force,
		Learn: o.Traces.Put,
	})
	if err != nil {
		t.Close()
		return nil, nil, nil, nil, err
	}
	return in, proxy.NewForward(t, proxy.ForwardConfig{Drain: o.Drain, Force: o.Force}), w, t, nil
}
