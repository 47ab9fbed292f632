package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lane/pkg/consul"
	"lane/pkg/consul/dev"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/traffic"
)

// Options are the settings of a demo.
type Options struct {
	Now func() time.Time
}

// World is the environment while it runs.
type World struct {
	o       Options
	dir     string // of the sessions' sockets
	log     *slog.Logger
	address string // of the registry, as a URL

	client  *consul.Client
	watcher *consul.Watcher // of the baseline's engines
	shop    map[string]*service
	engines []*proxy.Transport
	outside *outside // a host that is no service
	people  *caller  // whoever knows nothing of lanes
	asked   atomic.Uint64

	alice, bob *member
	before     string // the registry's picture without lanes
}

// startLimit bounds the waiting for a part of the world to be ready.
const startLimit = 10 * time.Second

// Run brings the world up, calls use, and takes everything down again, also when
// ctx ends: then its error is ctx's cause.
func Run(ctx context.Context, o Options, use func(context.Context, *World) error) error {
	dir, err := os.MkdirTemp("", "lane-")
	if err != nil {
		return fmt.Errorf("a directory for the demo: %w", err)
	}
	w := &World{o: o, dir: dir, log: slog.New(slog.DiscardHandler)}
	w.people = newCaller(&w.asked, nil)
	err = w.run(ctx, use)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// run nests the world: what is inside is gone before what it stands on.
//
//	registry
//	  watcher of the baseline's engines
//	    services
//	      lanes
//	        use
func (w *World) run(ctx context.Context, use func(context.Context, *World) error) error {
	ln, err := listen()
	if err != nil {
		return err
	}
	w.address = "http://" + ln.Addr().String()
	serve := func(ctx context.Context) error { return runRegistry(ctx, ln) }
	return nest(ctx, serve, func(ctx context.Context) error {
		w.client, err = consul.Open(w.registry())
		if err != nil {
			return err
		}
		defer w.client.Close()
		defer w.people.close()
		if err := w.client.Ping(ctx); err != nil {
			return err
		}
		w.watcher = consul.NewWatcher(w.client, consul.WatchOptions{Now: w.o.Now})
		return nest(ctx, w.watcher.Run, func(ctx context.Context) error { return w.runShop(ctx, use) })
	})
}

// registry is the demo's own, whatever Consul's variables name. A token that
// nobody asks for keeps Consul's client from reading the user's.
func (w *World) registry() consul.Config {
	return consul.Config{Address: w.address, Token: "demo", Getenv: func(string) string { return "" }}
}

func runRegistry(ctx context.Context, ln net.Listener) error {
	reg := dev.New(dev.Options{})
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return reg.Run(ctx) })
	parts.Go(func() error { return serveHTTP(ctx, ln, withoutNamespace(reg)) })
	return parts.Wait()
}

// withoutNamespace takes CONSUL_NAMESPACE and CONSUL_PARTITION out of requests:
// Consul's client adds them by itself, and a registry that has neither refuses
// them.
func withoutNamespace(reg http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Has("ns") || q.Has("partition") {
			q.Del("ns")
			q.Del("partition")
			r.URL.RawQuery = q.Encode()
		}
		reg.ServeHTTP(w, r)
	})
}

// runShop opens, registers and serves the baseline and the host outside, and the
// lanes inside of them.
func (w *World) runShop(ctx context.Context, use func(context.Context, *World) error) error {
	router, err := lane.NewRouter(lane.DefaultPolicy())
	if err != nil {
		return err
	}
	w.shop = map[string]*service{}
	listeners := map[string]net.Listener{}
	shut := func(err error) error {
		for _, ln := range listeners {
			err = errors.Join(err, ln.Close())
		}
		return err
	}
	for _, s := range shopOrder {
		// Each service has an engine of its own, as with a sidecar: no session's
		// lane, so the request's own tag decides.
		engine, err := proxy.NewTransport(proxy.Config{Registry: w.watcher, Router: router,
			Log: traffic.NewLog(1), Now: w.o.Now, Logger: w.log})
		if err != nil {
			return shut(err)
		}
		w.engines = append(w.engines, engine)
		if listeners[s.name], err = listen(); err != nil {
			delete(listeners, s.name)
			return shut(err)
		}
		w.shop[s.name] = &service{name: s.name, by: baseline, says: s.says, calls: s.calls,
			client: &http.Client{Transport: engine}, addr: listeners[s.name].Addr().String()}
	}
	out, err := listen()
	if err != nil {
		return shut(err)
	}
	w.outside = &outside{addr: out.Addr().String()}
	serve := func(ctx context.Context) error {
		parts, ctx := errgroup.WithContext(ctx)
		for name, ln := range listeners {
			parts.Go(func() error { return serveHTTP(ctx, ln, w.shop[name]) })
		}
		parts.Go(func() error { return serveHTTP(ctx, out, w.outside) })
		return parts.Wait()
	}
	return nest(ctx, serve, func(ctx context.Context) error {
		defer w.hangUp()
		for _, s := range shopOrder {
			if err := w.register(ctx, w.shop[s.name]); err != nil {
				return err
			}
			if err := w.watcher.Need(ctx, s.name); err != nil {
				return err
			}
		}
		if w.before, err = w.picture(ctx); err != nil {
			return err
		}
		return w.runLanes(ctx, use)
	})
}

// hangUp closes the connections on which nothing is being asked: a server that
// ends waits for those that were opened to spare.
func (w *World) hangUp() {
	w.people.close()
	for _, e := range w.engines {
		e.Close()
	}
}

// runLanes runs the two developers' sessions around use, and looks that nothing
// of them is left.
func (w *World) runLanes(ctx context.Context, use func(context.Context, *World) error) error {
	w.alice = newMember(w, "dev-alice", "alice", reviews, "alice says: readers LOVED it")
	w.bob = newMember(w, "dev-bob", "bob", ratings, "bob says: five of five")
	lanes := func(ctx context.Context) error {
		all, life := errgroup.WithContext(ctx)
		all.Go(func() error { return w.alice.run(life) })
		all.Go(func() error { return w.bob.run(life) })
		if err := all.Wait(); err != nil {
			return err
		}
		<-ctx.Done() // the world goes on when both have left
		return nil
	}
	err := nest(ctx, lanes, func(ctx context.Context) error {
		for _, m := range []*member{w.alice, w.bob} {
			if err := m.await(ctx); err != nil {
				return err
			}
		}
		return use(ctx, w)
	})
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	after, e := w.picture(clean)
	if e == nil && after != w.before {
		e = fmt.Errorf("the registry is not as it was before the lanes:\n%s", after)
	}
	return errors.Join(err, e)
}

// Alice is dev-alice's session as its viewer sees it.
func (w *World) Alice() View { return w.alice.view }

// proxyURL parses the address of a session's proxy, which lane itself has made.
func proxyURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("the session's proxy: %w", err)
	}
	return u, nil
}
