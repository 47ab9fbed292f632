package tui

import (
	"time"

	"lane/pkg/traffic"
)

// rate counts requests over a sliding window.
type rate struct {
	since   time.Time // when the counting began
	last    time.Time
	samples []sample
}

type sample struct {
	at time.Time
	n  uint64
}

func (r rate) add(at time.Time, n uint64) rate {
	r = r.at(at)
	r.samples = append(r.samples, sample{at, n})
	return r
}

// at forgets what is older than the window.
func (r rate) at(now time.Time) rate {
	old := 0
	for old < len(r.samples) && now.Sub(r.samples[old].at) >= rateWindow {
		old++
	}
	r.samples = append([]sample(nil), r.samples[old:]...)
	r.last = now
	return r
}

func (r rate) perSecond() float64 {
	var n uint64
	for _, s := range r.samples {
		n += s.n
	}
	over := max(min(r.last.Sub(r.since), rateWindow), time.Second)
	return float64(n) / over.Seconds()
}

// recent is how many rows ended within the window: the first batch of a session
// that has run for long brings its history, which is no traffic of now.
func recent(rows []traffic.Exchange, now time.Time) uint64 {
	n := uint64(0)
	for i := range rows {
		if now.Sub(rows[i].Start.Add(rows[i].Took)) < rateWindow {
			n++
		}
	}
	return n
}
