package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"

	"lane/pkg/consul"
	"lane/pkg/gateway"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/sidecar"
	"lane/pkg/tracemap"
)

// post is a service of the baseline behind its sidecar: callers come to in, and
// the application's own calls go to out.
type post struct {
	*process
	in, out net.Listener
	router  *router
}

// open takes the ports of a service and of its sidecar.
func (w *World) open(name, says string, calls []string) (*post, error) {
	in, err := listen()
	if err != nil {
		return nil, err
	}
	out, err := listen()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	at := addrPort(in)
	s := &service{name: name, by: baseline, says: says, calls: calls, instance: consul.BaselineID(name, at.Addr().String(), int(at.Port())),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: out.Addr().String()})}}}
	if name == productpage {
		s.shop = &front{}
	}
	return &post{process: &process{service: s}, in: in, out: out}, nil
}

func (p *post) shut() error { return errors.Join(p.in.Close(), p.out.Close()) }

// runShop runs the services, their sidecars around body, and the host outside.
func (w *World) runShop(ctx context.Context, body func(context.Context) error) error {
	out, err := listen()
	if err != nil {
		return err
	}
	w.outside = &outside{addr: out.Addr().String()}
	w.shop = map[string]*post{}
	for _, s := range shopOrder {
		p, err := w.open(s.name, s.says, s.calls)
		if err == nil {
			w.shop[s.name] = p
			err = p.start()
		}
		if err != nil {
			return errors.Join(err, w.close(), out.Close())
		}
	}
	serve := func(ctx context.Context) error { return serveHTTP(ctx, out, w.outside) }
	err = nest(ctx, serve, func(ctx context.Context) error { return w.runSidecars(ctx, body) })
	return errors.Join(err, w.stop())
}

// close closes what has not been given to a sidecar, and stops the applications.
func (w *World) close() error {
	err := w.stop()
	for _, p := range w.shop {
		err = errors.Join(err, p.shut())
	}
	return err
}

func (w *World) stop() error {
	var err error
	for _, p := range w.shop {
		p.client.CloseIdleConnections()
		err = errors.Join(err, p.process.stop())
	}
	return err
}

// runSidecars puts a sidecar before each service, which also registers it.
func (w *World) runSidecars(ctx context.Context, body func(context.Context) error) error {
	var all []sidecar.Options
	for _, s := range shopOrder {
		o, err := w.sidecar(w.shop[s.name])
		if err != nil {
			for _, p := range w.shop {
				err = errors.Join(err, p.shut())
			}
			return errors.Join(err, w.closeRouters())
		}
		all = append(all, o)
	}
	serve := func(ctx context.Context) error {
		parts, ctx := errgroup.WithContext(ctx)
		for _, o := range all {
			parts.Go(func() error { return sidecar.Run(ctx, o) })
		}
		return parts.Wait()
	}
	return nest(ctx, serve, func(ctx context.Context) error {
		defer w.hangUp()
		if err := w.awaitRouters(ctx); err != nil {
			return err
		}
		return body(ctx)
	})
}

// sidecar are the settings of one, as `lane sidecar --register --stamped` makes them.
func (w *World) sidecar(p *post) (sidecar.Options, error) {
	traces := tracemap.New(tracemap.Options{})
	r, err := w.newRouter(consul.SidecarService, p.name, addrPort(p.in), func() int { return traces.Stats().Size }, nil)
	if err != nil {
		return sidecar.Options{}, err
	}
	p.router = r
	sources, err := tracemap.ParseSources(tracemap.Auto)
	if err != nil {
		return sidecar.Options{}, err
	}
	policy := lane.DefaultPolicy()
	policy.StampedEntry = true
	at := addrPort(p.in)
	return sidecar.Options{
		Inbound: p.in, Outbound: p.out, Client: w.client, Watcher: r.watcher, Service: p.name, Instance: p.instance, App: []string{p.addr},
		Sources: sources, Traces: traces, Stamped: true, Policy: policy, Log: r.log, Meter: r.meter, Beside: r.run, Drain: goodbye,
		Register: &consul.Registration{ID: p.instance, Name: p.name, Service: p.name, Baseline: true,
			Address: at.Addr().String(), Port: int(at.Port())},
		Ready: r.up, Logger: w.log,
	}, nil
}

// runGateway runs the entry around body: everything that comes in is a visit to
// the bookshop's page.
func (w *World) runGateway(ctx context.Context, body func(context.Context) error) error {
	ln, err := listen()
	if err != nil {
		return err
	}
	w.entry = "http://" + ln.Addr().String()
	w.rules = gateway.NewRules(w.client, nil, w.log)
	r, err := w.newRouter(consul.GatewayService, "", addrPort(ln), nil, w.rules, productpage)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	w.shop[productpage].shop.open(w)
	o := gateway.Options{
		Listener: ln, Watcher: r.watcher, Routes: []proxy.Route{{Service: productpage}}, Color: w.rules.Color, Rules: w.rules,
		Policy: lane.DefaultPolicy(), Log: r.log, Meter: r.meter, Beside: r.run, Drain: goodbye, Ready: r.up, Logger: w.log,
	}
	serve := func(ctx context.Context) error { return gateway.Run(ctx, o) }
	return nest(ctx, serve, func(ctx context.Context) error {
		defer w.hangUp()
		if err := w.awaitRouters(ctx); err != nil {
			return err
		}
		return body(ctx)
	})
}

// hangUp closes the connections on which nothing is being asked: a server that
// ends waits for those that were opened to spare.
func (w *World) hangUp() {
	w.people.close()
	for _, p := range w.shop {
		p.client.CloseIdleConnections()
	}
}

// addrPort is where a listener of the loopback address listens.
func addrPort(ln net.Listener) netip.AddrPort {
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// awaitRouters waits until each gateway and sidecar that has been started serves,
// and sees every service healthy: an instance is there before its checks pass.
func (w *World) awaitRouters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, r := range w.routers {
		if err := r.await(ctx); err != nil {
			return err
		}
		for _, s := range shopOrder {
			if err := r.watcher.Need(ctx, s.name); err != nil {
				return err
			}
		}
	}
	for _, s := range shopOrder {
		if err := until(ctx, startLimit, "the routers see "+s.name+" healthy", func() bool { return w.known(s.name, baselineServes) }); err != nil {
			return err
		}
	}
	return nil
}

func baselineServes(s *lane.Service) bool {
	return slices.ContainsFunc(s.Instances, func(in lane.Instance) bool { return in.MetaLane == "" && in.Health == lane.Passing })
}

// known says whether each gateway and sidecar sees a service so.
func (w *World) known(service string, so func(*lane.Service) bool) bool {
	for _, r := range w.routers {
		if s := r.watcher.Catalog().Service(service); s == nil || !so(s) {
			return false
		}
	}
	return true
}
