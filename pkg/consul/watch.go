package consul

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// watch follows one thing in the registry with blocking queries and sends what
// changed to the watcher's loop, which alone keeps state.
type watch struct {
	key  string
	kick chan struct{} // start over from index 0, now

	mu     sync.Mutex
	cancel context.CancelFunc // of the query in flight
}

// answer is what a query said; the zero of the others with err set.
type answer struct {
	instances []lane.Instance
	claims    []lane.Claim
	switches  lane.Switches
	filtered  bool          // cut by the registry's access control
	contact   time.Duration // how long ago the answering server heard of its leader
}

func (a answer) same(b answer) bool {
	return a.filtered == b.filtered && slices.Equal(a.instances, b.instances) && slices.Equal(a.claims, b.claims) &&
		sameSwitches(a.switches, b.switches)
}

// event is what a watch tells the loop.
type event struct {
	w       *watch
	answer  answer
	changed bool // false: as before, but it answers (again)
	err     error
}

type ask func(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error)

// again makes the watch start over: after the registry was away, an old index
// can be ahead of the new one, and a query in flight can hang on a dead
// connection.
func (w *watch) again() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		w.cancel()
	}
}

func (w *watch) begin(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	qctx, cancel := context.WithTimeout(ctx, d)
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	return qctx, cancel
}

func (w *watch) kicked() bool {
	select {
	case <-w.kick:
		return true
	default:
		return false
	}
}

// run asks until ctx ends. It reports every failure, every change, and the
// first answer after a failure or a new start.
func (w *watch) run(ctx context.Context, o WatchOptions, f ask, out chan<- event) {
	var index uint64
	var last answer
	p := newPace(o.MinPause, o.MaxPause)
	report := true // the next answer, changed or not
	first := true
	for p.wait(ctx, w.kick) {
		if w.kicked() {
			index, report = 0, true
		}
		limit := callTimeout
		if index > 0 { // it waits for a change, and the registry adds up to a 16th
			limit = o.Wait + o.Wait/16 + 2*callTimeout
		}
		qctx, cancel := w.begin(ctx, limit)
		q := query(qctx)
		q.WaitIndex, q.WaitTime = index, o.Wait
		got, meta, err := f(qctx, q)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case w.kicked():
			index, report = 0, true
			if err != nil { // our own cancel, most probably; the next answer tells
				continue
			}
		}
		if err != nil {
			index, report = 0, true
			if !send(ctx, out, event{w: w, err: err}) || !p.failed(ctx, w.kick) {
				return
			}
			report = true
			continue
		}
		p.succeeded()
		index = nextIndex(index, meta.LastIndex)
		got.contact, got.filtered = meta.LastContact, meta.ResultsFilteredByACLs
		changed := first || !got.same(last)
		if changed || report || got.contact > staleContact || last.contact > staleContact {
			if !send(ctx, out, event{w: w, answer: got, changed: changed}) {
				return
			}
		}
		last, first, report = got, false, false
	}
}

func send(ctx context.Context, out chan<- event, e event) bool {
	select {
	case out <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// staleContact is how old a server's last word from its leader may be.
const staleContact = 5 * time.Second

// askService reads every instance of a name: health is decided by the router,
// so nothing is filtered by it.
func (c *Client) askService(name string) ask {
	return func(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error) {
		entries, meta, err := c.api.Health().Service(name, "", false, o)
		return answer{instances: instances(name, entries)}, meta, c.explain(ctx, "watch "+name, needReads, err)
	}
}

func (c *Client) askClaims(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error) {
	pairs, meta, err := c.api.KV().List(declaredPrefix, o)
	return answer{claims: decodeClaims(pairs)}, meta,
		c.explain(ctx, "watch the claims", `key:read on the prefix "lane/declared/"`, err)
}

func (c *Client) askSwitches(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error) {
	pairs, meta, err := c.api.KV().List(switchesPrefix, o)
	return answer{switches: decodeSwitches(pairs)}, meta,
		c.explain(ctx, "watch the switches", `key:read on the prefix "lane/switches/"`, err)
}

func isDenied(err error) bool {
	var d *DeniedError
	return errors.As(err, &d) || statusOf(err) == http.StatusForbidden
}
