package consul

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
)

// WatchOptions are the times and bounds of a Watcher; zero values are the
// defaults.
type WatchOptions struct {
	Wait        time.Duration // cap of a blocking query; 45 s
	LeaderEvery time.Duration // between two asks for the leader, and two looks for idle watches; 5 s
	Idle        time.Duration // without a Need, a service's watch ends; 10 min
	IdleEmpty   time.Duration // the same for a service without instances; 1 min
	MaxWatches  int           // the least recently used one gives way; 20
	MinPause    time.Duration // first pause after a failure; 1 s
	MaxPause    time.Duration // longest pause after failures; 30 s
	Grace       time.Duration // after an outage, what is missing counts for so long; 15 s, a beat's time to live
	Tolerate    time.Duration // a watch failing for longer makes the catalog stale; 5 s
	// Always are services that are asked for from the start, and never given up: they
	// are beside the bound on watches, so whoever names them bounds their number.
	Always []string
	// Now is the clock for first-seen times and ages; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger // where outages are told; nil: nowhere
}

func (o WatchOptions) withDefaults() WatchOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.Wait, defaultWait)
	def(&o.LeaderEvery, 5*time.Second)
	def(&o.Idle, 10*time.Minute)
	def(&o.IdleEmpty, time.Minute)
	def(&o.MinPause, time.Second)
	def(&o.MaxPause, 30*time.Second)
	def(&o.Tolerate, 5*time.Second)
	def(&o.Grace, 15*time.Second)
	if o.MaxWatches <= 0 {
		o.MaxWatches = 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Watcher keeps a catalog of the services that are needed. One loop (Run) owns
// all of its state; readers load one pointer.
//
//	Need(service) --> pending --+
//	watches ----- events -------+--> loop --publish--> *lane.Catalog
//	leader asks --------------- +
type Watcher struct {
	c *Client
	o WatchOptions

	catalog atomic.Pointer[lane.Catalog]
	needs   atomic.Pointer[map[string]*need] // copied on write
	clock   atomic.Int64                     // coarse, for the order of use
	trust   atomic.Pointer[lane.Trust]
	shown   atomic.Pointer[lane.Trust]
	err     atomic.Pointer[error]
	index   newest

	always  int        // how many services are watched always
	mu      sync.Mutex // guards pending, writes to needs, stopped
	pending []*need
	stopped bool
	wake    chan struct{}
	done    chan struct{} // Run has ended

	namesTurn chan struct{}
	names     []string // guarded by namesTurn
	namesAt   time.Time
}

// need is one service that somebody asked for.
type need struct {
	service string
	always  bool         // its watch never ends
	used    atomic.Int64 // clock of the last use
	ok      atomic.Bool  // the catalog has an answer for it
	err     atomic.Pointer[error]
	ready   chan struct{} // closed at the first outcome, answer or failure
}

// NewWatcher makes a watcher; it asks nothing before Run.
func NewWatcher(c *Client, o WatchOptions) *Watcher {
	w := &Watcher{c: c, o: o.withDefaults(), wake: make(chan struct{}, 1), done: make(chan struct{}),
		namesTurn: make(chan struct{}, 1)}
	trust := lane.Trust{State: lane.Unreachable} // until the registry has named a leader
	w.trust.Store(&trust)
	w.shown.Store(&trust)
	none := lane.NewCatalog(trust, nil, lane.Switches{})
	none.ClaimsUnknown = true
	w.catalog.Store(none)
	w.clock.Store(w.o.Now().UnixNano())
	needs := map[string]*need{}
	for _, name := range w.o.Always {
		if needs[name] == nil && checkWatched(name) == nil {
			needs[name] = &need{service: name, always: true, ready: make(chan struct{})}
			w.pending = append(w.pending, needs[name])
		}
	}
	w.always = len(needs)
	w.needs.Store(&needs)
	w.wake <- struct{}{}
	return w
}

// Catalog returns the newest catalog, never nil.
func (w *Watcher) Catalog() *lane.Catalog { return w.catalog.Load() }

// Trust returns how far the catalog can be trusted; its Since is exact, where a
// fresh catalog's own is that of its publication.
func (w *Watcher) Trust() lane.Trust { return *w.trust.Load() }

// Shown is the trust as a person is to see it: of a registry that has just failed
// it says so at once, though requests put up with that for a while. Its Since is the
// last time that all was well.
func (w *Watcher) Shown() lane.Trust { return *w.shown.Load() }

// ErrStale is why whoever routes by a watcher is not ready.
var ErrStale = errors.New("the registry has not answered lately")

// Ready is ErrStale unless the catalog is fresh.
func (w *Watcher) Ready() error {
	if w.Trust().State != lane.Fresh {
		return ErrStale
	}
	return nil
}

// Index is the highest index that the registry has answered with, 0 before there is
// one. It grows with every change in it, and begins anew with another registry.
func (w *Watcher) Index() uint64 { return w.index.Load() }

// newest is the highest of numbers that several tell.
type newest struct{ atomic.Uint64 }

func (n *newest) tell(v uint64) {
	for old := n.Load(); v > old && !n.CompareAndSwap(old, v); old = n.Load() {
	}
}

// Err returns the last failure of the registry, nil while everything answers.
func (w *Watcher) Err() error {
	if e := w.err.Load(); e != nil {
		return *e
	}
	return nil
}

// Need makes sure that the service is watched and waits until the catalog has
// an answer for it: the first time at most until ctx ends, later not at all. A
// failure of that first answer is returned at once, and again until there is
// one. It is called for every request.
func (w *Watcher) Need(ctx context.Context, service string) error {
	if n := (*w.needs.Load())[service]; n != nil && n.ok.Load() {
		n.touch(w.clock.Load())
		return nil
	}
	return w.await(ctx, service)
}

func (n *need) touch(now int64) {
	if n.used.Load() != now { // once a tick, so that requests do not fight for the line
		n.used.Store(now)
	}
}

func (w *Watcher) await(ctx context.Context, service string) error {
	if err := checkWatched(service); err != nil {
		return err
	}
	for {
		n, err := w.need(service)
		if err != nil {
			return err
		}
		select {
		case <-n.ready:
		case <-w.done:
			return errStopped
		case <-ctx.Done():
			return w.c.explain(ctx, "wait for the first answer about "+service, needReads, ctx.Err())
		}
		if n.ok.Load() {
			n.touch(w.clock.Load())
			return nil
		}
		if e := n.err.Load(); e != nil && !errors.Is(*e, errEvicted) {
			return *e
		}
	}
}

// floodFactor times the bound on watches is how many services may wait for a
// first answer: a page that makes names up must not open connections without end.
const floodFactor = 5

// need returns the service's entry, and makes one that the loop will pick up.
func (w *Watcher) need(service string) (*need, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := (*w.needs.Load())[service]; n != nil {
		return n, nil
	}
	if w.stopped {
		return nil, errStopped
	}
	if len(*w.needs.Load())-w.always >= floodFactor*w.o.MaxWatches {
		return nil, errFlood
	}
	n := &need{service: service, ready: make(chan struct{})}
	n.used.Store(w.clock.Load())
	next := maps.Clone(*w.needs.Load())
	next[service] = n
	w.needs.Store(&next)
	w.pending = append(w.pending, n)
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return n, nil
}

// forget removes a service's entry; whoever waits for it asks again.
func (w *Watcher) forget(n *need) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := maps.Clone(*w.needs.Load())
	delete(next, n.service)
	w.needs.Store(&next)
	n.ok.Store(false)
	n.fail(errEvicted)
}

// settle lets whoever waits go on. Only the loop calls it.
func (n *need) settle() {
	n.ok.Store(true)
	n.close()
}

func (n *need) fail(err error) {
	n.err.Store(&err)
	n.close()
}

func (n *need) close() {
	select {
	case <-n.ready:
	default:
		close(n.ready)
	}
}

// namesFor is how long the list of all services is kept.
const namesFor = 3 * time.Second

// Services returns the names of all services in the registry, sorted, without
// the isolated names of lanes. The answer may be 3 s old.
func (w *Watcher) Services(ctx context.Context) ([]string, error) {
	select {
	case w.namesTurn <- struct{}{}:
		defer func() { <-w.namesTurn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if now := w.o.Now(); w.names == nil || now.Sub(w.namesAt) > namesFor {
		names, err := w.c.serviceNames(ctx, "")
		if err != nil {
			return nil, err
		}
		isolated := map[string]bool{}
		for _, cl := range w.Catalog().Claims {
			if cl.Registered != cl.Service {
				isolated[cl.Registered] = true
			}
		}
		names = slices.DeleteFunc(names, func(n string) bool { return isolated[n] })
		w.names, w.namesAt = names, now
	}
	return slices.Clone(w.names), nil
}

const (
	settleEvery = 10 * time.Millisecond // between two looks at what is known, at the start
	settleWait  = 3 * time.Second       // before a router lets its first request in anyway
	firstWait   = 10 * time.Second      // the same, for the first answers about its services
)

// Settle waits, for 3 s at most, until the registry's leader and the claims are
// known: before that an absence proves nothing, and a router that has just been
// started would answer with errors. Claims that may not be read are not waited for.
// Then it waits, for 10 s in all at most, until the registry has said something of
// each service that is always watched, if only that it cannot.
func (w *Watcher) Settle(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	return errors.Join(w.settle(ctx), w.firstAnswers(first))
}

func (w *Watcher) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		if c := w.Catalog(); c.Trust.State == lane.Fresh && (!c.ClaimsUnknown || c.ClaimsDenied) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *Watcher) firstAnswers(ctx context.Context) error {
	for _, n := range *w.needs.Load() {
		if !n.always {
			continue
		}
		select {
		case <-n.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
