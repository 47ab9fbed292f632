package consul

import (
	"context"
	"math/rand/v2"
	"time"
)

// defaultWait caps a blocking query. Longer would be cheaper, but a query whose
// index is ahead of the registry's (restored, rebuilt) misses every change
// until it ends.
const defaultWait = 45 * time.Second

// pace limits one watch: four requests a second on average, with a burst, so that a
// first answer and a few changes in a row never wait; and after failures an
// exponential pause with full jitter, so that a recovering registry is not met
// by everybody at once. Changes that come faster are heard of together. With one a
// second, a router of a busy environment heard of each a second late, and sent calls
// to who had gone.
type pace struct {
	tokens   float64
	filled   time.Time
	pause    time.Duration
	min, max time.Duration
}

const (
	paceBurst = 10
	paceRate  = 4 // a second
)

func newPace(minPause, maxPause time.Duration) *pace {
	return &pace{tokens: paceBurst, filled: time.Now(), pause: minPause, min: minPause, max: maxPause}
}

// wait returns when a request may be sent, false when ctx ended. A kick ends
// the wait.
func (p *pace) wait(ctx context.Context, kick <-chan struct{}) bool {
	now := time.Now()
	p.tokens = min(paceBurst, p.tokens+paceRate*now.Sub(p.filled).Seconds())
	p.filled = now
	p.tokens--
	if p.tokens >= 0 {
		return ctx.Err() == nil
	}
	return pause(ctx, time.Duration(-p.tokens*float64(time.Second)/paceRate), kick)
}

// failed waits after a failure, false when ctx ended.
func (p *pace) failed(ctx context.Context, kick <-chan struct{}) bool {
	d := rand.N(p.pause) + time.Millisecond
	p.pause = min(2*p.pause, p.max)
	return pause(ctx, d, kick)
}

func (p *pace) succeeded() { p.pause = p.min }

func pause(ctx context.Context, d time.Duration, kick <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-kick:
	}
	return true
}

// nextIndex is the index to wait on after an answer. One that went backwards
// means another registry, or the same one restored: start over. 0 would not
// block.
func nextIndex(prev, last uint64) uint64 {
	if last < prev {
		return 0
	}
	return max(last, 1)
}
