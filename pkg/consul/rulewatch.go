package consul

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/consul/api"
)

// AppliedRules is one revision and what the caller has made of its document, as
// one value: whoever has loaded it sees no other revision until it loads again.
type AppliedRules[T any] struct {
	Revision RuleRevision
	Rules    T
}

// RuleState is what there is to say about a RuleWatch.
type RuleState struct {
	Applied int // the revision that holds here; 0 is none
	// Refused is the active revision that does not hold here, 0 if none, and Why
	// the reason: what held before goes on.
	Refused int
	Why     error
	// Refusals is how many were refused so far.
	Refusals uint64
	// Err is the last failure of the registry, nil while it answers.
	Err error
}

// RuleWatch keeps the newest good revision of the rules. One loop (Run) writes;
// readers load one pointer.
//
//	lane/rules/active/current --blocking query--> revision --parse--> atomic pointer
//	                                                   |
//	                                                   +--refused--> State
type RuleWatch[T any] struct {
	c     *Client
	o     WatchOptions
	parse func(RuleRevision) (T, error)
	told  func(RuleState)

	applied atomic.Pointer[AppliedRules[T]]
	state   atomic.Pointer[RuleState]
	settled chan struct{} // closed at the first outcome
}

// NewRuleWatch makes a watch; it asks nothing before Run. parse makes of a
// revision what the caller reads, or says why it cannot: then the revision does
// not come to hold. told, which may be nil, is called by Run once for each revision
// that is refused, with why, and for each that comes to hold after the first
// outcome. Of o the watch takes the times of a query and of its pauses.
func NewRuleWatch[T any](c *Client, o WatchOptions, parse func(RuleRevision) (T, error), told func(RuleState)) *RuleWatch[T] {
	if told == nil {
		told = func(RuleState) {}
	}
	w := &RuleWatch[T]{c: c, o: o.withDefaults(), parse: parse, told: told, settled: make(chan struct{})}
	w.state.Store(&RuleState{})
	return w
}

// Applied returns the newest good revision, nil before there is one.
func (w *RuleWatch[T]) Applied() *AppliedRules[T] { return w.applied.Load() }

// State returns which revision holds, which was refused and why.
func (w *RuleWatch[T]) State() RuleState { return *w.state.Load() }

// Settled is closed when the registry has answered for the first time, with
// rules, with none or with an error.
func (w *RuleWatch[T]) Settled() <-chan struct{} { return w.settled }

// errRulesGone is why a router goes on with a revision that is not named any more.
var errRulesGone = errors.New("the registry names no active rules any more; push a document without rules to have none")

// Run watches until ctx ends, and then returns nil. It may be called once.
func (w *RuleWatch[T]) Run(ctx context.Context) error {
	var index uint64
	p := newPace(w.o.MinPause, w.o.MaxPause)
	for p.wait(ctx, nil) {
		pair, last, err := w.ask(ctx, index)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = w.take(ctx, pair)
		}
		if ctx.Err() != nil {
			return nil
		}
		w.settle(err)
		if err != nil {
			index = 0
			if !p.failed(ctx, nil) {
				return nil
			}
			continue
		}
		p.succeeded()
		index = nextIndex(index, last)
	}
	return nil
}

// ask waits for the pointer to change.
func (w *RuleWatch[T]) ask(ctx context.Context, index uint64) (*api.KVPair, uint64, error) {
	limit := callTimeout
	if index > 0 { // it waits for a change, and the registry adds up to a 16th
		limit = w.o.Wait + w.o.Wait/16 + 2*callTimeout
	}
	qctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	pair, meta, err := w.c.api.KV().Get(currentKey, following(qctx, index, w.o.Wait))
	if err != nil {
		return nil, 0, w.c.explain(ctx, "watch the rules", needRulesReads, err)
	}
	return pair, meta.LastIndex, nil
}

// take lets the revision that the pointer names come to hold, or notes why it
// does not. An error is one of the registry: it is asked again.
func (w *RuleWatch[T]) take(ctx context.Context, pair *api.KVPair) error {
	refused, why, err := w.look(ctx, pair)
	if err != nil {
		return err
	}
	before := w.State()
	s := RuleState{Refused: refused, Why: why, Refusals: before.Refusals}
	if a := w.Applied(); a != nil {
		s.Applied = a.Revision.Revision
	}
	// The registry answers again and again: what is refused still is no news.
	news := why != nil && (before.Why == nil || before.Refused != refused || before.Why.Error() != why.Error())
	if news {
		s.Refusals++
	}
	w.state.Store(&s)
	if news || why == nil && s.Applied != before.Applied && w.hasSettled() {
		w.told(s)
	}
	return nil
}

func (w *RuleWatch[T]) hasSettled() bool {
	select {
	case <-w.settled:
		return true
	default:
		return false
	}
}

// look returns what is refused and why; nothing, when what the pointer names holds.
func (w *RuleWatch[T]) look(ctx context.Context, pair *api.KVPair) (refused int, why, err error) {
	held := w.Applied()
	at, err := decodePointer(pair)
	switch {
	case err != nil:
		return at.Revision, err, nil
	case at.index == 0 && held != nil:
		return 0, errRulesGone, nil
	case at.index == 0:
		return 0, nil, nil
	case held != nil && held.Revision.Revision == at.Revision && held.Revision.SHA256 == at.SHA256:
		return 0, nil, nil
	}
	r, err := w.c.pinned(ctx, at)
	var broken *BrokenRevisionError
	var none *NoRevisionError
	switch {
	case errors.As(err, &broken), errors.As(err, &none):
		return at.Revision, err, nil
	case err != nil:
		return 0, nil, err
	}
	rules, err := w.parse(r)
	if err != nil {
		return at.Revision, fmt.Errorf("revision %d of the rules: %w", at.Revision, err), nil
	}
	w.applied.Store(&AppliedRules[T]{Revision: r, Rules: rules})
	return 0, nil, nil
}

// settle notes what the registry's failure was, and lets those who wait go on.
func (w *RuleWatch[T]) settle(err error) {
	s := w.State()
	s.Err = err
	w.state.Store(&s)
	select {
	case <-w.settled:
	default:
		close(w.settled)
	}
}
