package whitelist

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"
)

var (
	errLate   = errors.New("no answer within " + waited.String())
	errClosed = errors.New("closed")
)

// answer is what is known of a key. A failure is an answer too: not known.
type answer[V any] struct {
	value V
	known bool
}

// memo remembers what a slow source said, and asks it for one key once at a time.
type memo[V any] struct {
	load     func(ctx context.Context, route, id string) (V, error)
	cache    *ttlcache.Cache[string, answer[V]]
	flights  singleflight.Group
	breaker  breaker
	troubles troubles
	count    *counts

	mu      sync.Mutex // begins and ends look-ups
	closed  atomic.Bool
	running sync.WaitGroup
}

func newMemo[V any](size uint64, count *counts, log *slog.Logger, load func(ctx context.Context, route, id string) (V, error)) *memo[V] {
	return &memo[V]{
		load: load,
		// Not started: the cache's own goroutine only removes what has expired, and
		// the size is bounded without it.
		cache: ttlcache.New(
			ttlcache.WithCapacity[string, answer[V]](size),
			// A hit must not prolong an answer: who was removed would stay in for as
			// long as he keeps calling.
			ttlcache.WithDisableTouchOnHit[string, answer[V]](),
		),
		troubles: troubles{log: log, open: map[string]*trouble{}},
		count:    count,
	}
}

// get returns what is known of key, and loads it if need be.
func (m *memo[V]) get(ctx context.Context, key, route, id string) answer[V] {
	if m.closed.Load() {
		return answer[V]{}
	}
	if item := m.cache.Get(key); item != nil {
		return item.Value()
	}
	if !m.breaker.allow() {
		return answer[V]{}
	}
	flight := m.flights.DoChan(key, func() (any, error) { return m.fetch(key, route, id), nil })
	limit := time.NewTimer(waited)
	defer limit.Stop()
	select {
	case r := <-flight:
		a, _ := r.Val.(answer[V])
		return a
	case <-limit.C:
		// At the same moment as the flight's own end, or before it: the request's next
		// list must not cost it another wait.
		m.breaker.failed()
	case <-ctx.Done():
	}
	return answer[V]{}
}

// fetch asks the source, for all who wait for the key. Who gave up waiting does
// not end it: the others still want to know.
func (m *memo[V]) fetch(key, route, id string) answer[V] {
	// An earlier flight may have landed between the look at the cache and this one.
	if item := m.cache.Get(key); item != nil {
		m.breaker.unasked()
		return item.Value()
	}
	// An answer's age counts from the question: the list may change as soon as the
	// source has looked.
	asked := time.Now()
	value, err := m.ask(route, id)
	switch {
	case errors.Is(err, errClosed):
		m.breaker.unasked()
		return answer[V]{}
	case err != nil:
		m.failed(route, err, asked)
		m.keep(key, answer[V]{}, retried, asked)
		return answer[V]{}
	}
	m.breaker.answered(asked)
	m.troubles.answered("")
	m.troubles.answered(route)
	a := answer[V]{value: value, known: true}
	m.keep(key, a, remembered, asked)
	return a
}

// ask waits for the source no longer than a request may. The look-up itself goes
// on for a while: so a connection that takes longer to make than that is there
// for the next one.
func (m *memo[V]) ask(route, id string) (V, error) {
	type loaded struct {
		value V
		err   error
	}
	var none V
	if !m.begin() {
		return none, errClosed
	}
	m.count.lookups.Add(1)
	result := make(chan loaded, 1)
	go func() {
		defer m.running.Done()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		value, err := m.load(ctx, route, id)
		result <- loaded{value, err}
	}()
	limit := time.NewTimer(waited)
	defer limit.Stop()
	select {
	case r := <-result:
		return r.value, r.err
	case <-limit.C:
		return none, errLate
	}
}

// begin keeps close from waiting before the last look-up has begun.
func (m *memo[V]) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed.Load() {
		return false
	}
	m.running.Add(1)
	return true
}

func (m *memo[V]) failed(route string, err error, asked time.Time) {
	m.count.errors[kindOf(err)].Add(1)
	var own *LookupError
	if errors.As(err, &own) && own.Route {
		m.breaker.answered(asked)
		m.troubles.answered("")
		m.troubles.failed(route, err)
		return
	}
	m.breaker.failed()
	m.troubles.failed("", err)
}

// keep remembers a. An entry is gone at the very end of its time, not just after
// it: that is the one nanosecond.
func (m *memo[V]) keep(key string, a answer[V], age time.Duration, asked time.Time) {
	if left := age - time.Since(asked) - 1; left > 0 {
		m.cache.Set(key, a, left)
	}
}

// close refuses further look-ups and says whether it is the first to do so.
func (m *memo[V]) close() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.closed.Swap(true)
}

// wait returns when the look-ups in flight have ended.
func (m *memo[V]) wait() { m.running.Wait() }
