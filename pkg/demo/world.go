package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lane/pkg/consul"
	"lane/pkg/consul/dev"
	"lane/pkg/gateway"
)

// Options are the settings of a demo.
type Options struct {
	Now func() time.Time
	// Program is how the user calls this program, for the commands to try.
	Program string
}

// World is the environment while it runs.
type World struct {
	o       Options
	dir     string // of the sessions' sockets, and of rules to push
	log     *slog.Logger
	address string // of the registry, as a URL

	client  *consul.Client
	shop    map[string]*post
	routers []*router // the sidecars, then the gateway
	rules   *gateway.Rules
	entry   string   // the gateway's URL
	outside *outside // a host that is no service
	people  *caller  // whoever knows nothing of lanes
	asked   atomic.Uint64

	alice, bob, next *member
	before           string // the registry's picture without lanes
	customers        customers
}

// startLimit bounds the waiting for a part of the world to be ready.
const startLimit = 30 * time.Second

// Run brings the world up, calls use, and takes everything down again, also when
// ctx ends: then its error is ctx's cause.
func Run(ctx context.Context, o Options, use func(context.Context, *World) error) error {
	dir, err := os.MkdirTemp("", "lane-")
	if err != nil {
		return fmt.Errorf("a directory for the demo: %w", err)
	}
	w := &World{o: o, dir: dir, log: slog.New(slog.DiscardHandler)}
	w.people = newCaller(nil, nil)
	if err = os.WriteFile(w.moreRules(), []byte(document(morePercent)), 0o600); err == nil {
		err = w.run(ctx, use)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(ctx)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// run nests the world: what is inside is gone before what it stands on.
//
//	registry
//	  services
//	    sidecars
//	      gateway
//	        lanes
//	          use
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
		if _, err := w.push(ctx, document(sharePercent), "the bookshop's first rules"); err != nil {
			return err
		}
		return w.runShop(ctx, func(ctx context.Context) error {
			return w.runGateway(ctx, func(ctx context.Context) error {
				if w.before, err = w.picture(ctx); err != nil {
					return err
				}
				return w.runLanes(ctx, use)
			})
		})
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

// runLanes runs the sessions around use, and looks that nothing of them is left.
func (w *World) runLanes(ctx context.Context, use func(context.Context, *World) error) error {
	w.alice = newMember(w, laneAlice, "alice", reviews, "alice says: readers LOVED it")
	w.bob = newMember(w, laneBob, "bob", ratings, "bob says: five of five")
	w.next = newMember(w, laneNext, "release", details, "200 pages, and a sample chapter")
	lanes := func(ctx context.Context) error {
		all, life := errgroup.WithContext(ctx)
		for _, m := range w.members() {
			all.Go(func() error { return m.run(life) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		<-ctx.Done() // the world goes on when all have left
		return nil
	}
	err := nest(ctx, lanes, func(ctx context.Context) error {
		for _, m := range w.members() {
			if err := m.await(ctx); err != nil {
				return err
			}
		}
		return use(ctx, w)
	})
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	after, e := w.picture(clean)
	if left := w.leftOf(after); e == nil && left != "" {
		e = fmt.Errorf("the lanes have left something in the registry:\n%s", left)
	}
	return errors.Join(err, e)
}

func (w *World) members() []*member { return []*member{w.alice, w.bob, w.next} }

// leftOf are the lines of a picture that tell of the demo's lanes. What somebody
// else has put in meanwhile is none of its business.
func (w *World) leftOf(picture string) string {
	var left []string
	for line := range strings.Lines(picture) {
		for _, m := range w.members() {
			if strings.Contains(line, ":"+string(m.lane)+":") || strings.Contains(line, "/"+string(m.lane)+"/") {
				left = append(left, line)
				break
			}
		}
	}
	return strings.Join(left, "")
}
