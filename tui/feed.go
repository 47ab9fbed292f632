package tui

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync/atomic"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"lane/pkg/control"
	"lane/pkg/traffic"
)

// What the feed tells the model. Every message costs one drawing, so there is
// one only if something on the screen changes.
type (
	// batchMsg is what happened since the last batch.
	batchMsg struct {
		at   time.Time
		rows []traffic.Exchange
		lost uint64
	}
	// statusMsg is the session's state, and the clock of what is shown by age.
	statusMsg struct {
		at     time.Time
		status control.Status
		err    error // the session does not answer; status is then the last one
	}
	// restartMsg says that another session answers now: its rows count from 1.
	restartMsg struct{}
)

// feed reads the source and sends messages: the only I/O of the package.
type feed struct {
	src   Source
	send  func(tea.Msg)
	now   func() time.Time
	every time.Duration // least time between two batches

	// moved is when the last batch was sent, in Unix nanoseconds: a rate on the
	// screen has to fall afterwards.
	moved atomic.Int64
}

// rateWindow is what the rate of requests is counted over.
const rateWindow = 5 * time.Second

// exchanges sends batches until ctx ends or the session does.
func (f *feed) exchanges(ctx context.Context) {
	var (
		after   uint64
		started time.Time // of the session that after belongs to
		retry   time.Duration
		seen    bool
	)
	for {
		rows, lost, err := f.src.Next(ctx, after)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return // status tells the end
		case err != nil:
			retry = min(max(2*retry, 250*time.Millisecond), 4*time.Second)
			if !sleep(ctx, retry) {
				return
			}
			// The session may be another one when it answers again; the old
			// number would then wait for a row that is far away.
			if s, err := f.src.Status(ctx); err == nil && !s.Started.Equal(started) {
				if !started.IsZero() {
					f.send(restartMsg{})
					after, seen = 0, false
				}
				started = s.Started
			}
			continue
		}
		retry = 0
		if started.IsZero() {
			if s, err := f.src.Status(ctx); err == nil {
				started = s.Started
			}
		}
		if len(rows) > 0 {
			after = rows[len(rows)-1].Seq
			if !seen {
				// What the session forgot before we looked is no loss of ours.
				seen, lost = true, 0
			}
			at := f.now()
			f.moved.Store(at.UnixNano())
			f.send(batchMsg{at: at, rows: rows, lost: lost})
		}
		if !sleep(ctx, f.every) {
			return
		}
	}
}

// status sends the session's state when it changes, and each second while
// something on the screen has an age: a registry that is not fresh, a session
// that is gone, a rate.
func (f *feed) status(ctx context.Context) {
	var (
		last    control.Status
		lastErr error
		first   = true
	)
	for {
		s, err := f.src.Status(ctx)
		if ctx.Err() != nil {
			return
		}
		at := f.now()
		if err != nil {
			s = last
		}
		aging := err != nil || s.Registry.State != registryFresh ||
			at.UnixNano()-f.moved.Load() < int64(rateWindow+2*statusEvery)
		if first || aging || (err == nil) != (lastErr == nil) || !sameStatus(s, last) {
			f.send(statusMsg{at: at, status: s, err: err})
		}
		first, last, lastErr = false, s, err
		if errors.Is(err, io.EOF) {
			return
		}
		if !sleep(ctx, statusEvery) {
			return
		}
	}
}

// sameStatus compares what is shown: not the counts, which change with every
// row, nor when the registry last answered, which matters only if it is not
// fresh.
func sameStatus(a, b control.Status) bool {
	a.Counts, b.Counts = control.Counts{}, control.Counts{}
	a.Registry.Since, b.Registry.Since = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// sleep waits for d and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
