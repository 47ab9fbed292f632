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
		lost uint64          // gone before they were asked for
		left []traffic.Tally // too many to be rows
		more uint64          // too many to be told apart
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

	// hurry ends a wait of each of the two before it asks the session again.
	hurry [2]chan struct{}
}

// asks ends the waits.
func (f *feed) asks() {
	for _, c := range f.hurry {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// A screen takes as many rows as a list of rows can be read at all, and saves up for
// a rush: rowsEach for each turn, up to the whole list at once. When more come, it
// takes a hundred each time and the figures of the rest, until they are fewer again:
// to bring rows to a screen on which no row stays must not cost the session more
// than to serve their requests.
const rowsEach = 400

// allowance is how many rows the next batch may have.
type allowance struct {
	rows int
	at   time.Time // when that was so
}

// grown is the allowance at a later time.
func (a allowance) grown(at time.Time, every time.Duration) allowance {
	turns := int(min(at.Sub(a.at)/every, ringSize/rowsEach+1))
	return allowance{min(a.rows+max(turns, 1)*rowsEach, ringSize), at}
}

// spent is what a batch leaves of it: nothing, if more came than were allowed.
func (a allowance) spent(b *traffic.Batch) allowance {
	a.rows -= len(b.Rows)
	if len(b.Left) > 0 || a.rows < 0 {
		a.rows = 0
	}
	return a
}

// lastWord is how long a session that is gone may have told its end already.
const lastWord = 100 * time.Millisecond

// rateWindow is what the rate of requests is counted over.
const rateWindow = 5 * time.Second

// exchanges sends batches until ctx ends or the session does.
func (f *feed) exchanges(ctx context.Context) {
	var (
		after   uint64
		started time.Time // of the session that after belongs to
		retry   time.Duration
		seen    bool
		may     = allowance{rows: ringSize}
	)
	for {
		most := 0 // what there is already: all of it
		if seen {
			may = may.grown(f.now(), f.every)
			most = may.rows
		}
		b, err := f.src.Batch(ctx, after, most)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return // status tells the end
		case err != nil:
			retry = min(max(2*retry, 250*time.Millisecond), 4*time.Second)
			if !sleep(ctx, retry, f.hurry[0]) {
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
		if len(b.Rows) > 0 {
			after = b.Newest(after)
			at := f.now()
			if !seen {
				// What the session forgot before we looked is no loss of ours.
				seen, b.Lost, may.at = true, 0, at
			} else {
				may = may.spent(&b)
			}
			f.moved.Store(at.UnixNano())
			f.send(batchMsg{at: at, rows: b.Rows, lost: b.Lost, left: b.Left, more: b.More})
		}
		if !sleep(ctx, f.every, nil) {
			return
		}
	}
}

// status sends the session's state when it changes, and each second while
// something on the screen has an age: a registry that is not fresh, a tunnel, a
// session that is gone, a rate.
func (f *feed) status(ctx context.Context) {
	var (
		last    control.Status
		lastErr error
		first   = true
		parted  bool
	)
	for {
		s, err := f.src.Status(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, io.EOF) && s.Schema == "" && !parted {
			// How it was at last may be under way, to the other half of this feed.
			parted = true
			if !sleep(ctx, lastWord, nil) {
				return
			}
			continue
		}
		at := f.now()
		if err != nil && s.Schema == "" {
			s = last
		}
		aging := err != nil || ages(&s) ||
			at.UnixNano()-f.moved.Load() < int64(rateWindow+2*statusEvery)
		if first || aging || (err == nil) != (lastErr == nil) || !sameStatus(s, last) {
			f.send(statusMsg{at: at, status: s, err: err})
		}
		first, last, lastErr = false, s, err
		if errors.Is(err, io.EOF) {
			return
		}
		next := statusEvery
		if err == nil && begins(&s) {
			next = stepEvery
		}
		if !sleep(ctx, next, f.hurry[1]) {
			return
		}
	}
}

// ages says that a status shows something by its age.
func ages(s *control.Status) bool {
	return s.Registry.State != registryFresh || begins(s) || s.Relay != nil
}

// sameStatus compares what is shown: not the counts, which change with every
// row, nor when the registry last answered, which matters only if it is not
// fresh.
func sameStatus(a, b control.Status) bool {
	a.Counts, b.Counts = control.Counts{}, control.Counts{}
	a.Registry.Since, b.Registry.Since = time.Time{}, time.Time{}
	return reflect.DeepEqual(a, b)
}

// sleep waits for d, or until somebody is in a hurry, and reports whether ctx goes on.
func sleep(ctx context.Context, d time.Duration, hurry <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-hurry:
		return true
	case <-ctx.Done():
		return false
	}
}
