package consul

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"

	"lane/pkg/lane"
)

// watch follows one thing in the registry with blocking queries and sends what
// changed to the watcher's loop, which alone keeps state.
type watch struct {
	key   string
	index *newest // of all watches
	*starts
}

// answer is what a query said; the zero of the others with err set.
type answer struct {
	instances []lane.Instance
	claims    []lane.Claim
	switches  lane.Switches
	unread    UnreadableSwitchErrors // beside them
	filtered  bool                   // cut by the registry's access control
	contact   time.Duration          // how long ago the answering server heard of its leader
}

func (a answer) same(b answer) bool {
	return a.filtered == b.filtered && slices.Equal(a.instances, b.instances) && slices.Equal(a.claims, b.claims) &&
		sameSwitches(a.switches, b.switches) && sameUnread(a.unread, b.unread)
}

// event is what a watch tells the loop.
type event struct {
	w       *watch
	answer  answer
	changed bool   // false: as before, but it answers (again)
	rebuilt bool   // its index went backwards: another registry, or the same one made anew
	start   uint64 // of the watch, that the query belongs to
	err     error
}

type ask func(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error)

// run asks until ctx ends. It reports every failure, every change, and the
// first answer after a failure or a new start.
func (w *watch) run(ctx context.Context, o WatchOptions, f ask, out chan<- event) {
	var index, start uint64
	var last answer
	p := newPace(o.MinPause, o.MaxPause)
	report := true // the next answer, changed or not
	first := true
	for p.wait(ctx, w.kick) {
		qctx, cancel, now := w.begin(ctx)
		if now != start {
			start, index, report = now, 0, true
			p.succeeded() // the pauses of an outage are no measure of what follows
		}
		limit := callTimeout
		if index > 0 { // it waits for a change, and the registry adds up to a 16th
			limit = o.Wait + o.Wait/16 + 2*callTimeout
		}
		qctx, expire := context.WithTimeout(qctx, limit)
		got, meta, err := f(qctx, following(qctx, index, o.Wait))
		expire()
		cancel()
		if ctx.Err() != nil {
			return
		}
		if w.over(start) {
			continue // cut off, or what it says was so before the new start
		}
		if err != nil {
			index, report = 0, true
			if !send(ctx, out, event{w: w, start: start, err: err}) || !p.failed(ctx, w.kick) {
				return
			}
			continue
		}
		p.succeeded()
		rebuilt := meta.LastIndex < index
		if rebuilt {
			w.index.Store(meta.LastIndex)
		}
		w.index.tell(meta.LastIndex)
		index = nextIndex(index, meta.LastIndex)
		got.contact, got.filtered = meta.LastContact, meta.ResultsFilteredByACLs
		changed := first || !got.same(last)
		if changed || report || rebuilt || got.contact > staleContact || last.contact > staleContact {
			if !send(ctx, out, event{w: w, answer: got, start: start, changed: changed, rebuilt: rebuilt}) {
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
	pairs, meta, err := c.list(ctx, declaredPrefix, o)
	return answer{claims: decodeClaims(pairs)}, meta,
		c.explain(ctx, "watch the claims", `key:read on the prefix "lane/declared/"`, err)
}

func (c *Client) askSwitches(ctx context.Context, o *api.QueryOptions) (answer, *api.QueryMeta, error) {
	pairs, meta, err := c.list(ctx, switchesPrefix, o)
	sw, bad := decodeSwitches(pairs)
	return answer{switches: sw, unread: bad}, meta,
		c.explain(ctx, "watch the switches", `key:read on the prefix "lane/switches/"`, err)
}

// list reads a prefix. Consul leaves out the keys that a token must not read:
// a prefix that is denied looks like an empty one, and to a caller without a
// token nothing marks it. A read of the prefix as a key is refused, though.
func (c *Client) list(ctx context.Context, prefix string, o *api.QueryOptions) (api.KVPairs, *api.QueryMeta, error) {
	pairs, meta, err := c.api.KV().List(prefix, o)
	if err == nil && len(pairs) == 0 {
		_, _, err = c.api.KV().Get(prefix, local(ctx)) // it is asked for the right alone
	}
	return pairs, meta, err
}

func isDenied(err error) bool {
	var d *DeniedError
	return errors.As(err, &d) || statusOf(err) == http.StatusForbidden
}
