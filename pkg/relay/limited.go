package relay

import (
	"sync"
	"time"

	"lane/tunnel"
)

// limitEvery is at least between two lines of the audit log about one user and one
// limit: who runs into a limit does so many times a second.
const limitEvery = 10 * time.Second

// limits counts how often each limit has held somebody up, and says when that is to
// be written down.
type limits struct {
	mu     sync.Mutex
	counts map[tunnel.Limit]uint64
	told   map[limitedUser]*telling
}

type limitedUser struct {
	user string
	what tunnel.Limit
}

type telling struct {
	at    time.Time
	since uint64 // times that nobody was told of
}

// hit counts one time. tell says that it is to be written down now, and times how many
// it is since that was done last.
func (l *limits) hit(user string, what tunnel.Limit, now time.Time) (times uint64, tell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts, l.told = map[tunnel.Limit]uint64{}, map[limitedUser]*telling{}
	}
	l.counts[what]++
	k := limitedUser{user, what}
	t := l.told[k]
	if t == nil {
		if len(l.told) >= 1024 {
			for k, t := range l.told {
				if now.Sub(t.at) >= limitEvery {
					delete(l.told, k)
				}
			}
		}
		t = &telling{}
		l.told[k] = t
	}
	t.since++
	if !t.at.IsZero() && now.Sub(t.at) < limitEvery {
		return 0, false
	}
	times, t.at, t.since = t.since, now, 0
	return times, true
}

// all are the counts, of every limit that there is.
func (l *limits) all() map[string]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]uint64{}
	for _, what := range tunnel.AllLimits() {
		out[string(what)] = l.counts[what]
	}
	return out
}

// limited hears of each time that a limit holds a user up.
func (r *relay) limited(h tunnel.Holder, what tunnel.Limit) {
	times, tell := r.o.Figures.limits.hit(h.Subject, what, r.o.Now())
	if tell {
		r.o.Audit.Warn("limited", "user", h.Subject, "token", h.TokenID, "host", h.Host, "limit", string(what), "times", times)
	}
}
