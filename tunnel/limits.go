package tunnel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what others can make a relay hold and do. Zero values are the
// defaults.
type Limits struct {
	Agents   int // of one subject, 3
	Claims   int // of one agent, 10
	Streams  int // of one link in one direction, 256
	HalfOpen int // connections that have not been let in yet, 512; the oldest make place

	// What one subject may in a time, all its links together.
	Links int // new links a minute, 300
	Asks  int // claims asked for a minute, 600
	Opens int // new streams a second, 1000
	Rate  int // bytes a second in each direction, 256 MiB

	// Volume is how many bytes one token moves in all, both directions together.
	// Then it is worth nothing. 0: no bound.
	Volume int64
}

func (l Limits) withDefaults() Limits {
	l.Agents = cmp.Or(l.Agents, 3)
	l.Claims = cmp.Or(l.Claims, 10)
	l.Streams = cmp.Or(l.Streams, 256)
	l.HalfOpen = cmp.Or(l.HalfOpen, 512)
	l.Links = cmp.Or(l.Links, 300)
	l.Asks = cmp.Or(l.Asks, 600)
	l.Opens = cmp.Or(l.Opens, 1000)
	l.Rate = cmp.Or(l.Rate, 256<<20)
	return l
}

// Limit names what holds somebody up, or turns him away.
type Limit string

// The limits.
const (
	LimitAgents  Limit = "tunnels"     // at once
	LimitLinks   Limit = "tunnel_rate" // made anew
	LimitClaims  Limit = "claims"      // at once
	LimitAsks    Limit = "claim_rate"
	LimitStreams Limit = "streams" // at once
	LimitOpens   Limit = "stream_rate"
	LimitRate    Limit = "byte_rate" // nobody is turned away, it goes slower
	LimitVolume  Limit = "bytes"     // of a token in all
)

// AllLimits are all that there are.
func AllLimits() []Limit {
	return []Limit{LimitAgents, LimitLinks, LimitClaims, LimitAsks, LimitStreams, LimitOpens, LimitRate, LimitVolume}
}

// busyError is an ErrBusy with another reason than the number of streams.
type busyError struct{ text string }

func (e *busyError) Error() string        { return "tunnel: " + e.text }
func (e *busyError) Is(target error) bool { return target == ErrBusy }

// quota is what all links of one subject share. It outlives them: who comes back
// has not got anew what was used up.
type quota struct {
	links, asks, opens *rate.Limiter
	in, out            *rate.Limiter
}

func newQuota(l Limits) *quota {
	minute := func(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), n) }
	bytes := func() *rate.Limiter { return rate.NewLimiter(rate.Limit(l.Rate), max(l.Rate/4, 8*chunk)) }
	return &quota{links: minute(l.Links), asks: minute(l.Asks), opens: rate.NewLimiter(rate.Limit(l.Opens), 2*l.Opens), in: bytes(), out: bytes()}
}

// full says that nothing of it is used: a new one would be the same.
func (q *quota) full() bool {
	for _, l := range []*rate.Limiter{q.links, q.asks, q.opens, q.in, q.out} {
		if l.Tokens() < float64(l.Burst()) {
			return false
		}
	}
	return true
}

// spent is what a token has moved.
type spent struct {
	bytes   atomic.Int64
	expires time.Time
	told    atomic.Bool
}

// Traffic is what one laptop has moved through a relay since that began.
type Traffic struct {
	Subject, Host string
	In, Out       uint64 // bytes from and to the laptop
}

// maxLaptops bounds how many laptops' traffic is kept apart: a host's name is what
// the laptop says. All others together are one, whose names are OtherLaptops.
const maxLaptops = 200

// OtherLaptops is the subject and the host of all laptops beyond the first 200.
const OtherLaptops = "other"

type laptop struct{ subject, host string }

type moved struct{ in, out atomic.Uint64 }

// ledger keeps what is used of a relay's limits, and by whom.
type ledger struct {
	limits Limits

	mu      sync.Mutex
	quotas  map[string]*quota
	tokens  map[string]*spent
	laptops map[laptop]*moved
}

func newLedger(l Limits) *ledger {
	return &ledger{limits: l, quotas: map[string]*quota{}, tokens: map[string]*spent{}, laptops: map[laptop]*moved{}}
}

// pruneAt is how many subjects or tokens there are before those of no use go.
const pruneAt = 256

func (g *ledger) quota(subject string) *quota {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.quotas[subject]
	if q == nil {
		if len(g.quotas) >= pruneAt {
			for name, q := range g.quotas {
				if q.full() {
					delete(g.quotas, name)
				}
			}
		}
		q = newQuota(g.limits)
		g.quotas[subject] = q
	}
	return q
}

// spent is what a token has moved; nil where that is not bounded.
func (g *ledger) spent(id Identity) *spent {
	if g.limits.Volume <= 0 || id.TokenID == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.tokens[id.TokenID]
	if s == nil {
		if len(g.tokens) >= pruneAt {
			for name, s := range g.tokens {
				if !s.expires.IsZero() && time.Now().After(s.expires) {
					delete(g.tokens, name)
				}
			}
		}
		s = &spent{expires: id.Expires}
		g.tokens[id.TokenID] = s
	}
	return s
}

func (g *ledger) moved(subject, host string) *moved {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := laptop{subject, host}
	m := g.laptops[k]
	if m == nil {
		if len(g.laptops) >= maxLaptops {
			k = laptop{OtherLaptops, OtherLaptops}
			if m = g.laptops[k]; m != nil {
				return m
			}
		}
		m = &moved{}
		g.laptops[k] = m
	}
	return m
}

// Traffic is what each laptop has moved, the first 200 of them and all others as
// one.
func (r *Relay) Traffic() []Traffic {
	g := r.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Traffic, 0, len(g.laptops))
	for k, m := range g.laptops {
		out = append(out, Traffic{Subject: k.subject, Host: k.host, In: m.in.Load(), Out: m.out.Load()})
	}
	return out
}

// limited tells who watches that a limit holds a holder up. The caller holds no lock.
func (r *Relay) limited(h Holder, what Limit) {
	if r.conf.Limited != nil {
		r.conf.Limited(h, what)
	}
}

// toll is what the bytes of a link's connections pass at a relay: they are counted,
// and wait where too many have passed.
type toll struct {
	quota   *quota
	moved   *moved
	limited func(Limit)
	spend   func(n int) // of the token; nil: that is not bounded
}

// came counts what was read from the laptop; went what was written to it.
func (t *toll) came(n int) { t.count(n, t.quota.in, &t.moved.in) }
func (t *toll) went(n int) { t.count(n, t.quota.out, &t.moved.out) }

func (t *toll) count(n int, l *rate.Limiter, of *atomic.Uint64) {
	of.Add(uint64(n))
	if t.spend != nil {
		t.spend(n)
	}
	for now := time.Now(); n > 0; {
		part := min(n, l.Burst())
		l.ReserveN(now, part) // a debt, that whoever comes next waits for
		n -= part
	}
}

// patienceOfToll bounds one wait at a toll: then deadlines are looked at.
const patienceOfToll = 50 * time.Millisecond

// wait waits until what has passed before is no more than the rate allows, or the
// stream ends, or its deadline passes, which the call behind it tells.
func (t *toll) wait(s *stream, l *rate.Limiter, deadline *atomic.Int64) {
	for told := false; ; told = true {
		debt := -l.Tokens()
		if debt <= 0 {
			return
		}
		if late(deadline) {
			return
		}
		if !told {
			t.limited(LimitRate)
		}
		d := time.Duration(math.Ceil(debt / float64(l.Limit()) * 1e9))
		timer := time.NewTimer(min(d, patienceOfToll))
		select {
		case <-timer.C:
			continue
		case <-s.shut:
		case <-s.cut:
		case <-s.mux.sess.Done():
		}
		timer.Stop()
		return
	}
}

// turnToOpen waits until a subject may open one more stream; most bounds the wait.
func (l *link) turnToOpen(ctx context.Context, most time.Duration) error {
	v := l.quota.opens.Reserve()
	d := v.Delay()
	if d <= 0 {
		return nil
	}
	l.relay.limited(l.who(), LimitOpens)
	busy := &busyError{fmt.Sprintf("%s opens more than %d streams a second, which is the limit", l.who().Subject, l.relay.conf.Limits.Opens)}
	if d > most {
		v.Cancel()
		return busy
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.quit:
		return ErrLost
	case <-ctx.Done():
		v.Cancel()
		return busy
	}
}

// toll is what the link's bytes pass.
func (l *link) toll() *toll {
	t := &toll{quota: l.quota, moved: l.relay.ledger.moved(l.who().Subject, l.who().Host), limited: func(what Limit) { l.relay.limited(l.who(), what) }}
	if l.relay.conf.Limits.Volume > 0 {
		t.spend = l.spend
	}
	return t
}

// spend counts what a token moves, and makes it worthless when that is too much.
func (l *link) spend(n int) {
	h := l.who()
	s := l.relay.ledger.spent(h.Identity)
	if s == nil || s.bytes.Add(int64(n)) <= l.relay.conf.Limits.Volume || s.told.Swap(true) {
		return
	}
	l.relay.limited(h, LimitVolume)
	// Not here: the bytes of this stream wait for what it waits for.
	l.relay.wg.Go(func() {
		l.relay.Revoke(context.Background(), func(o Holder) bool { return o.TokenID == h.TokenID }, l.relay.usedUp(h))
	})
}

// shown is what the identity has shown, in a word.
func (i *Identity) shown() string { return cmp.Or(i.Shown, "token") }

// usedUp says that a token has moved all that it may.
func (r *Relay) usedUp(h Holder) string {
	return fmt.Sprintf("the %s of %s has moved %d bytes, which is all that one may here", h.shown(), h.Subject, r.conf.Limits.Volume)
}
