package dev

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const resyncEvery = time.Minute

// keepTime is the only place where anything happens by itself.
func (r *Registry) keepTime(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var probes sync.WaitGroup
	defer probes.Wait()
	defer cancel()

	now := r.now()
	reap, resync := now.Add(r.opts.ReapEvery), now.Add(resyncEvery)
	for {
		r.mu.Lock()
		now := r.now()
		r.expire(now)
		for _, ac := range r.dueProbes(now) {
			probes.Go(func() { r.probe(ctx, ac) })
		}
		if !reap.After(now) {
			r.reap(now)
			reap = now.Add(r.opts.ReapEvery)
		}
		if !resync.After(now) {
			r.resync()
			r.store.forget(now)
			resync = now.Add(resyncEvery)
		}
		next := earliest(r.nextTimer(), reap, resync)
		r.mu.Unlock()

		timer := time.NewTimer(next.Sub(r.now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func earliest(times ...time.Time) time.Time {
	times = slices.DeleteFunc(times, time.Time.IsZero)
	return slices.MinFunc(times, time.Time.Compare)
}

// expire does what TTLs, waiting outputs and sessions are due for.
func (r *Registry) expire(now time.Time) {
	for _, ac := range r.agent.checks {
		if due(ac.expires, now) {
			ac.expires = time.Time{}
			output := "TTL expired"
			if ac.lastOutput != "" {
				output = fmt.Sprintf("%s (last output before timeout follows): %s", output, ac.lastOutput)
			}
			r.updateCheck(ac, critical, output)
		}
		if due(ac.writeBack, now) {
			ac.writeBack = time.Time{}
			_ = r.pushCheck(&ac.check)
		}
	}
	for id, at := range r.ends {
		if due(at, now) {
			delete(r.ends, id)
			if r.store.sessions[id] == nil {
				continue // it ended otherwise
			}
			_ = r.writeLocked(func(s *store, idx uint64) error {
				s.deleteSession(idx, now, id)
				return nil
			})
		}
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

func (r *Registry) nextTimer() time.Time {
	next := r.now().Add(time.Hour)
	for _, ac := range r.agent.checks {
		next = earliest(next, ac.expires, ac.writeBack)
		if !ac.probing {
			next = earliest(next, ac.nextProbe)
		}
	}
	for _, at := range r.ends {
		next = earliest(next, at)
	}
	return next
}

// reap removes the services of checks that are critical for too long.
func (r *Registry) reap(now time.Time) {
	gone := map[string]bool{}
	for _, ac := range r.agent.checks {
		if ac.def == nil || ac.since.IsZero() || ac.check.ServiceID == "" {
			continue
		}
		if after := ac.def.reapAfter(); after > 0 && now.Sub(ac.since) > after {
			gone[ac.check.ServiceID] = true
		}
	}
	for id := range gone {
		r.dropService(id)
	}
}

// armSession starts a session's time again: it ends after twice its TTL, as
// Consul gives it that grace.
func (r *Registry) armSession(id string, ttl time.Duration) {
	if ttl == 0 {
		return
	}
	r.ends[id] = r.now().Add(2 * ttl)
	r.poke()
}
