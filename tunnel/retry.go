package tunnel

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is how long to wait after so many failures in a row: anything between
// nothing and a bound that doubles, so that a relay's clients do not all come back
// at the same moment.
func backoff(failures int, least, most time.Duration) time.Duration {
	return time.Duration(rand.Float64() * float64(bound(failures, least, most)))
}

func bound(failures int, least, most time.Duration) time.Duration {
	for range failures {
		if least >= most {
			break
		}
		least *= 2
	}
	return min(least, most)
}

// slept reports whether a machine has slept between two looks at its clocks: the
// time of day has gone on and the other one has not. Two beats of difference are
// more than any correction of the time of day.
func slept(wall, mono, beat time.Duration) bool { return wall-mono > 2*beat }

// watchSleep tells the loop when the machine has slept. The relay has given the
// old connections up then, but nothing tells the laptop, whose own pings start to
// wait only now.
func (a *Agent) watchSleep(ctx context.Context) {
	t := time.NewTicker(a.timing.tick)
	defer t.Stop()
	wall, mono := a.wall(), a.mono()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		w, m := a.wall(), a.mono()
		if d := w.Sub(wall); slept(d, m-mono, a.timing.beat) {
			select {
			case a.woken <- d - (m - mono):
			default:
			}
		}
		wall, mono = w, m
	}
}
