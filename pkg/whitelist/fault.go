package whitelist

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
)

// Kind says how a look-up failed.
type Kind uint8

// The kinds of failures.
const (
	Late        Kind = iota // no answer in time
	Unreachable             // nothing answers there
	Denied                  // the source does not let us read
	Broken                  // what stands there is no list
	Unclear                 // anything else
	nKinds
)

func (k Kind) String() string {
	return [...]string{"late", "unreachable", "denied", "broken", "unclear"}[k]
}

// LookupError is a failure whose kind is known.
type LookupError struct {
	Kind Kind
	// Route is set for the trouble of one route's list at a source that answers:
	// it is no reason to leave the others alone.
	Route bool
	Err   error
}

func (f *LookupError) Error() string { return f.Err.Error() }
func (f *LookupError) Unwrap() error { return f.Err }

// kindOf is the kind of any failure.
func kindOf(err error) Kind {
	var fault *LookupError
	var network net.Error
	switch {
	case errors.As(err, &fault):
		return fault.Kind
	case errors.Is(err, errLate), errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return Late
	case network != nil:
		return Unreachable
	}
	return Unclear
}

// counts are since the start.
type counts struct {
	lookups, unknown atomic.Uint64
	errors           [nKinds]atomic.Uint64
}

// Failures are how many look-ups failed so far, by kind: those that there were.
func (w *Whitelist) Failures() map[string]uint64 {
	out := map[string]uint64{}
	for k := range w.count.errors {
		if n := w.count.errors[k].Load(); n > 0 {
			out[Kind(k).String()] = n
		}
	}
	return out
}
