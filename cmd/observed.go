package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"lane/pkg/accesslog"
	adminport "lane/pkg/admin"
	"lane/pkg/chain"
	"lane/pkg/consul"
	"lane/pkg/gateway"
	"lane/pkg/lane"
	"lane/pkg/metrics"
	"lane/pkg/session"
	"lane/pkg/traffic"
	"lane/pkg/whitelist"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

// observedOptions say how a gateway or a sidecar is looked at.
type observedOptions struct {
	admin     string
	hosts     []string
	accessLog string
	aliases   bool
	announce  bool
}

func (o *observedOptions) flags(c *cobra.Command, as string) {
	addFlag(c, &o.admin, "admin", "127.0.0.1:0", or(anAddress, ""), "address for metrics and health; \"\" is none")
	addFlags(c, &o.hosts, "admin-host", anAdminHost, "host by which others name the admin port")
	addFlag(c, &o.accessLog, "access-log", "", or(aNewFile, "-"), "file for a JSON line of each request, reopened at SIGHUP; - is stdout")
	fl := c.Flags()
	fl.BoolVar(&o.aliases, "metric-aliases", false, "also show gray_fallback_total and gray_tag_missing_total")
	fl.BoolVar(&o.announce, "announce", true, "register as "+as+", for lane top and --wait")
}

// observed is what looks at a gateway or a sidecar: parts that run beside it.
type observed struct {
	watcher *consul.Watcher
	log     *traffic.Log
	meter   *metrics.Meter
	admin   *adminport.Server // nil: none
	access  *accesslog.Log    // nil: none
	hold    *consul.Hold      // nil: not announced
	id      string            // by which it is announced
	// up is closed when the front takes requests; then say says so.
	up  chan struct{}
	say func()
	// hangups say that the access log's file was moved away; nil: nobody says so.
	hangups <-chan struct{}
	reopen  func()
}

// router is a gateway or a sidecar as whoever looks at it has to know it.
type router struct {
	as     string // the service that it is announced as
	front  net.Addr
	before string               // the service before which it stands; empty: none
	always []string             // services that it asks the registry for from the start
	traces func() int           // nil: it remembers none
	rules  *gateway.Rules       // nil: it watches none
	own    bool                 // it has those of a file
	list   *whitelist.Whitelist // nil: it asks none
	relay  func() metrics.Relay // nil: it is none
	// lane and service report which names it knows beside the registry's; nil: none.
	lane    func(lane.Name) bool
	service func(string) bool
}

// observe opens what there is to look at.
func (f *factory) observe(at *place, o *observedOptions, r *router) (*observed, error) {
	w := &observed{watcher: consul.NewWatcher(at.client, consul.WatchOptions{Always: r.always, Log: f.logger(slog.LevelWarn)}), log: traffic.NewLog(entryRing), up: make(chan struct{})}
	known := metrics.NewKnown(w.watcher.Catalog)
	opts := metrics.Options{KnownLane: either(known.Lane, r.lane), KnownService: either(known.Service, r.service), Killed: known.Killed, TraceMap: r.traces, Aliases: o.aliases}
	opts.Relay = r.relay
	if r.rules != nil {
		opts.RulesRefused = func() uint64 { return r.rules.State().Refusals }
	}
	if r.list != nil {
		opts.Whitelist = r.list.Failures
	}
	if o.accessLog != "" {
		ao := accesslog.Options{Path: o.accessLog, Logger: f.logger(slog.LevelWarn)}
		if o.accessLog == "-" {
			ao.Path, ao.Out = "", f.io.Out
		}
		var err error
		if w.access, err = accesslog.Open(ao); err != nil {
			return nil, usagef(newFileHint, "--access-log: %v", err)
		}
		opts.AccessLost = w.access.Lost
		if ao.Path != "" && f.hangups != nil {
			w.hangups, w.reopen = f.hangups(), func() { f.reopen(w.access, o.accessLog) }
		}
	}
	w.meter = metrics.New(opts)
	if o.admin == "" {
		return w, nil
	}
	var err error
	w.admin, err = adminport.Listen(adminport.Options{Listen: o.admin, Hosts: o.hosts, Metrics: w.meter, Stats: w.meter.Stats,
		Trace: func(id string) chain.Hops { return chain.Hops{Service: r.before, Hops: chain.Find(w.log.Each, id)} },
		Lane:  func(name lane.Name, after uint64) chain.LaneSeen { return chain.FindLane(w.log.Each, name, after) },
		Rev:   func() adminport.Rev { return revOf(r.rules, r.own) },
		Ready: []adminport.Check{{Name: "registry", Ask: w.watcher.Ready}}})
	if err != nil {
		return nil, &session.PortError{What: "the admin port", Addr: o.admin, From: "--admin", Err: err}
	}
	if o.announce {
		reg, err := announcement(r.as, r.front, w.admin.Addr())
		if err != nil {
			return nil, errors.Join(err, w.admin.Close())
		}
		if r.relay != nil { // it is its front that is looked for
			if front, err := netip.ParseAddrPort(r.front.String()); err == nil {
				reg.Address = front.Addr().Unmap().String()
				reg.ID = consul.BaselineID(reg.Service, reg.Address, reg.Port)
			}
		}
		w.id = reg.ID
		w.hold = at.client.NewHold(reg, consul.HoldOptions{App: true, AppNote: "it serves", Log: f.logger(slog.LevelWarn)})
	}
	return w, nil
}

// either reports what one of two reports; the second may be nil.
func either[T any](one, other func(T) bool) func(T) bool {
	if other == nil {
		return one
	}
	return func(v T) bool { return one(v) || other(v) }
}

// announcement is how a router is found: its front's address, and its admin port.
func announcement(as string, front net.Addr, admin string) (consul.Registration, error) {
	at, err := netip.ParseAddrPort(front.String())
	if err != nil {
		return consul.Registration{}, err
	}
	look, err := netip.ParseAddrPort(admin)
	return consul.RouterEntry(as, at, look), err
}

// run is everything beside the front, until ctx ends.
func (w *observed) run(ctx context.Context) error {
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return w.meter.Run(ctx) })
	if w.access != nil {
		parts.Go(func() error { return w.access.Run(ctx, w.log) })
	}
	if w.hangups != nil {
		parts.Go(func() error {
			for {
				select {
				case <-w.hangups:
					w.reopen()
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	if w.admin != nil {
		parts.Go(func() error { return w.admin.Run(ctx) })
	}
	if w.hold != nil {
		parts.Go(func() error { return w.announced(ctx) })
	}
	parts.Go(func() error {
		w.tell(ctx)
		return nil
	})
	return parts.Wait()
}

// ready is called when the front takes requests; say is told when it is announced too.
func (w *observed) ready(say func()) {
	w.say = say
	close(w.up)
}

// tell says that the router is ready. Whoever has read that finds it in the registry: it
// waits for the first try to announce it, whose failure stands in the log before. The
// front waits for nothing of this.
func (w *observed) tell(ctx context.Context) {
	waits := []<-chan struct{}{w.up}
	if w.hold != nil {
		waits = append(waits, w.hold.Tried())
	}
	for _, c := range waits {
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
	}
	w.say()
}

// reopen opens the access log's file again, and says so: from then on nothing is
// written to the old one.
func (f *factory) reopen(l *accesslog.Log, path string) {
	if err := l.Reopen(); err != nil {
		f.logger(slog.LevelWarn).Error("the access log is not opened again, the old file stays in use", "error", err)
		return
	}
	fmt.Fprintf(f.io.Err, "lane: the access log is opened again: %s\n", path)
}

// announced keeps the router in the registry. That it may not is an error, with its
// way out; that the registry is away is none: it serves all the same.
func (w *observed) announced(ctx context.Context) error {
	err := w.hold.Keep(ctx)
	if err != nil {
		err = fmt.Errorf("announce it in the registry (--announce=false does without): %w", err)
	}
	return errors.Join(err, w.hold.Deregister(context.WithoutCancel(ctx)))
}

// announcedAs is the ID by which it is in the registry, and "" if it is not, or not soon.
func (w *observed) announcedAs(ctx context.Context) string {
	if w.hold == nil {
		return ""
	}
	soon := time.NewTimer(2 * time.Second)
	defer soon.Stop()
	select {
	case <-w.hold.Shown():
		return w.id
	case <-soon.C:
	case <-ctx.Done():
	}
	return ""
}

// addr is the admin port's line for who has started the router.
func (w *observed) addr() string {
	if w.admin == nil {
		return ""
	}
	return "admin at " + reached(w.admin.Addr()) + "\n"
}
