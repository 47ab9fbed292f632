package whitelist

import (
	"context"
	"log/slog"
	"strings"
	"time"
)

// The promises of docs/whitelists.md.
const (
	remembered = 10 * time.Second      // how long an answer holds
	retried    = time.Second           // how long a failure holds
	waited     = 50 * time.Millisecond // what a request waits, at most
	patience   = time.Second           // what a look-up may take when nobody waits any more
	capacity   = 10_000                // answers
	longestID  = 512                   // bytes: 10,000 ids must stay small
)

// Whitelist answers for all routes of one source. Its methods may be called from
// several goroutines.
type Whitelist struct {
	ask   func(ctx context.Context, route, id string) (member, known bool)
	close func() error
	count *counts
}

// Stats counts since the start.
type Stats struct {
	Lookups uint64 // questions to the source
	Errors  uint64 // of these, without an answer within 50 ms; Failures has them by kind
	Unknown uint64 // requests that went to the baseline because nothing was known
}

// Member says whether id is on route's list. A blank id is on none, and is not
// looked up; so is one that is longer than 512 bytes.
func (w *Whitelist) Member(ctx context.Context, route, id string) bool {
	member, _ := w.Ask(ctx, route, id)
	return member
}

// Ask is Member for a caller that wants to say so when nothing is known. Whoever
// is not known is not a member.
func (w *Whitelist) Ask(ctx context.Context, route, id string) (member, known bool) {
	if len(id) > longestID || strings.TrimSpace(id) == "" {
		return false, true
	}
	member, known = w.ask(ctx, route, id)
	if !known && ctx.Err() == nil {
		w.count.unknown.Add(1)
	}
	return member && known, known
}

// Stats returns what was counted so far.
func (w *Whitelist) Stats() Stats {
	s := Stats{Lookups: w.count.lookups.Load(), Unknown: w.count.unknown.Load()}
	for k := range w.count.errors {
		s.Errors += w.count.errors[k].Load()
	}
	return s
}

// Close ends the connections and waits for the look-ups in flight, a second at
// most. After it nobody is a member.
func (w *Whitelist) Close() error { return w.close() }

func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}
