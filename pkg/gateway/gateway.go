package gateway

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

// Color colors a request by the rules in force. One call is one edition of the
// rules: what it returns is of the revision that it names.
type Color func(ctx context.Context, r *rules.Request) (rules.Result, rules.Revision)

// Options are everything that a gateway needs. Listener, Watcher, Routes and Color
// are required.
type Options struct {
	Listener net.Listener    // closed at the end
	Watcher  *consul.Watcher // run by Run
	Routes   []proxy.Route
	Color    Color
	Policy   lane.Policy
	Carriers *lane.Carriers // nil: the default
	Caller   lane.Caller
	Sticky   rules.Key        // where a request says who its user is; none: nobody keeps his version
	Browsers proxy.Browsers   // what answers get for browsers
	Traces   tracemap.Sources // where a trace's id is read and, if it begins here, written
	Expose   proxy.Expose
	Log      *traffic.Log
	Meter    proxy.Meter // may be nil
	// Beside, if set, runs for as long as the gateway does, and longer than its
	// last request; its error ends the gateway.
	Beside func(ctx context.Context) error
	// Rules, if set, are watched for as long as Run runs, and waited for before the
	// first request: until their first answer nothing would be colored.
	Rules *Rules
	// Drain is how long the end waits for requests; 0 is 30 s, and a negative one none at
	// all. When Force is closed it waits no longer.
	Drain time.Duration
	Force <-chan struct{}
	// Ready, if set, is called before the first request is taken.
	Ready  func()
	Logger *slog.Logger
}

// Run serves until ctx ends, then drains. It returns when nothing of it runs.
func Run(ctx context.Context, o Options) error {
	router, err := lane.NewRouter(o.Policy)
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	watcher := o.Watcher
	transport, err := proxy.NewTransport(proxy.Config{
		Registry: watcher, Router: router, Carriers: o.Carriers, Caller: o.Caller, Sticky: o.Sticky, Browsers: o.Browsers, Traces: o.Traces,
		Log: o.Log, Meter: o.Meter, Logger: o.Logger,
	})
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	defer transport.Close()
	front, err := proxy.NewGateway(transport, proxy.GatewayConfig{Routes: o.Routes, Color: o.Color, Expose: o.Expose, Drain: o.Drain, Force: o.Force})
	if err != nil {
		return errors.Join(err, o.Listener.Close())
	}
	// The watch ends behind the front: what drains is still decided.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	var parts errgroup.Group
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
	if o.Rules != nil {
		parts.Go(func() error {
			defer stop()
			return o.Rules.Run(life)
		})
	}
	parts.Go(func() error {
		defer end()
		if o.Rules != nil {
			select {
			case <-o.Rules.Settled():
			case <-serving.Done():
			}
		}
		_ = watcher.Settle(serving) // what is not known by then, each request says
		if o.Ready != nil {
			o.Ready()
		}
		return front.Serve(serving, o.Listener)
	})
	return parts.Wait()
}
