package consul

import (
	"context"
	"sync"
)

// starts lets somebody else make a loop of blocking queries start over. After
// the registry was away an old index can be ahead of the new one, and a query in
// flight can hang on a connection that nobody answers any more. Every query
// belongs to a start: the answer to one of an earlier start is an old one,
// whenever it comes.
type starts struct {
	kick chan struct{} // ends a pause

	mu     sync.Mutex
	n      uint64
	cancel context.CancelFunc // of the query in flight
}

func newStarts() *starts { return &starts{kick: make(chan struct{}, 1)} }

// again makes the loop start over now, and returns the number of that start.
func (s *starts) again() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	select {
	case s.kick <- struct{}{}:
	default:
	}
	if s.cancel != nil {
		s.cancel()
	}
	return s.n
}

// begin returns the context of the next query and the start that it belongs to.
func (s *starts) begin(ctx context.Context) (context.Context, context.CancelFunc, uint64) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = cancel
	select {
	case <-s.kick: // this is the start that it asked for
	default:
	}
	return ctx, cancel, s.n
}

// over reports whether a query of start n is an old one.
func (s *starts) over(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n != n
}
