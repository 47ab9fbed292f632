package demo

import (
	"context"
	"errors"
	"net/netip"

	"golang.org/x/sync/errgroup"

	"lane/pkg/admin"
	"lane/pkg/chain"
	"lane/pkg/consul"
	"lane/pkg/gateway"
	"lane/pkg/lane"
	"lane/pkg/metrics"
	"lane/pkg/traffic"
)

// router is what stands beside a gateway or a sidecar: what it counts, the port on
// which it is looked at, and the entry by which `lane top` and `lane rules push
// --wait` find that port.
type router struct {
	watcher *consul.Watcher
	log     *traffic.Log
	meter   *metrics.Meter
	admin   *admin.Server
	hold    *consul.Hold

	serves chan struct{} // closed when it takes requests
}

// keptRows is how many requests a gateway or a sidecar remembers, for `lane check`
// chain: as many as those of an environment.
const keptRows = 4096

// newRouter opens the port; before is a sidecar's service, rules are a gateway's, always
// the services of its routes.
func (w *World) newRouter(as, before string, at netip.AddrPort, traces func() int, rules *gateway.Rules, always ...string) (*router, error) {
	r := &router{watcher: consul.NewWatcher(w.client, consul.WatchOptions{Always: always, Now: w.o.Now}), log: traffic.NewLog(keptRows),
		serves: make(chan struct{})}
	known := metrics.NewKnown(r.watcher.Catalog)
	r.meter = metrics.New(metrics.Options{KnownLane: known.Lane, KnownService: known.Service, TraceMap: traces, Now: w.o.Now})
	o := admin.Options{Listen: "127.0.0.1:0", Metrics: r.meter, Stats: r.meter.Stats,
		Trace: func(id string) chain.Hops { return chain.Hops{Service: before, Hops: chain.Find(r.log.Each, id)} },
		Lane:  func(name lane.Name, after uint64) chain.LaneSeen { return chain.FindLane(r.log.Each, name, after) },
		Rev:   func() admin.Rev { return rules.Rev() },
		Ready: []admin.Check{{Name: "registry", Ask: r.watcher.Ready}}}
	var err error
	if r.admin, err = admin.Listen(o); err != nil {
		return nil, err
	}
	look, err := netip.ParseAddrPort(r.admin.Addr())
	if err != nil {
		return nil, errors.Join(err, r.admin.Close())
	}
	r.hold = w.client.NewHold(consul.RouterEntry(as, at, look), consul.HoldOptions{App: true, AppNote: "it serves"})
	w.routers = append(w.routers, r)
	return r, nil
}

// run is everything beside the front, until ctx ends.
func (r *router) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return r.meter.Run(ctx) })
	parts.Go(func() error { return r.admin.Run(ctx) })
	parts.Go(func() error {
		err := r.hold.Keep(ctx)
		return errors.Join(err, r.hold.Deregister(context.WithoutCancel(ctx)))
	})
	return parts.Wait()
}

// up is called when the front takes requests.
func (r *router) up() { close(r.serves) }

func (r *router) await(ctx context.Context) error {
	for _, ready := range []<-chan struct{}{r.serves, r.hold.Shown()} {
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// closeRouters closes the ports of those that were never run.
func (w *World) closeRouters() error {
	var err error
	for _, r := range w.routers {
		err = errors.Join(err, r.admin.Close())
	}
	return err
}
