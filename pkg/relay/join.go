package relay

import (
	"context"
	"errors"
	"time"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/tunnel"
)

// lookAround is between two looks at who holds a claim.
const lookAround = 200 * time.Millisecond

// join has a claim stand beside the instance of whoever holds it, under the same name:
// callers look for the lane where the claim says. It is what a session does that
// registers by itself.
func (r *relay) join(e *served, h tunnel.Holder, c tunnel.Claim, holder lane.Claim) (*place, error) {
	p, err := r.newPlace(e, h, c, modeOf(holder))
	if err != nil {
		return nil, err
	}
	e.guard.Moved(p.reg.ID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places, e.beside = []*place{p}, holder
	return p, nil
}

// modeOf is the mode that a claim names.
func modeOf(c lane.Claim) string {
	if c.Registered != c.Service {
		return consul.ModeIsolated
	}
	return consul.ModeShared
}

// joined is whose claim it stands beside.
func (e *served) joined() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.beside.Session != ""
}

// joins notes who holds the claim, and reports whether that is another than before.
func (e *served) joins(holder lane.Claim) (news bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	news = e.beside.Owner != holder.Owner || e.beside.Host != holder.Host || (e.beside.Session == "") != (holder.Session == "")
	e.beside = holder
	return news
}

// watch follows the holder while it stands beside one, and then its own callers.
func (e *served) watch(ctx context.Context) {
	if e.joined() && !e.followHolder(ctx) {
		return
	}
	e.watchStrays(ctx)
}

// followHolder follows the holder of the claim: to another name, and into its place when
// it has gone. Then it is true; false says that ctx has ended.
func (e *served) followHolder(ctx context.Context) bool {
	tick := time.NewTicker(lookAround)
	defer tick.Stop()
	var next *place // of a move that is not done yet
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
		cat := e.r.o.Watcher.Catalog()
		if cat.Trust.State != lane.Fresh || cat.ClaimsUnknown {
			continue // nothing is concluded from what may be old
		}
		now, held := standing(cat, e.key)
		held = held && !(now.Session == e.r.session.ID() && now.ID == e.place().reg.ID) // a claim of ours whose answer was lost
		var err error
		switch {
		case !held:
			if err = e.succeed(ctx); err == nil {
				return true
			}
		case next != nil || modeOf(now) != e.place().mode:
			if next == nil {
				e.mu.Lock()
				h := e.holder
				e.mu.Unlock()
				if next, err = e.r.newPlace(e, h, e.claim, modeOf(now)); err != nil {
					break
				}
			}
			if err = e.move(ctx, next, func() {}); err == nil {
				next = nil
				e.joins(now)
				e.tellPlace()
			}
		case e.joins(now):
			e.tellPlace()
		}
		var first *consul.ClaimHeldError
		if err != nil && ctx.Err() == nil && !errors.As(err, &first) {
			e.r.o.Logger.Warn("stand beside another instance", "service", e.key.service, "lane", e.key.lane, "error", err)
		}
	}
}

// standing is the claim on a service in a lane that somebody holds.
func standing(cat *lane.Catalog, k key) (lane.Claim, bool) {
	for _, c := range cat.Claims {
		if string(c.Lane) == k.lane && c.Service == k.service && c.Session != "" {
			return c, true
		}
	}
	return lane.Claim{}, false
}

// succeed takes the claim that its holder has given up.
func (e *served) succeed(ctx context.Context) error {
	e.mu.Lock()
	h := e.holder
	e.mu.Unlock()
	e.change.Lock()
	e.record = e.r.record(ctx, e, e.place(), h)
	err := e.r.claim(ctx, e, h, false)
	e.change.Unlock()
	if err != nil {
		return err
	}
	e.joins(lane.Claim{})
	e.tellPlace()
	e.r.o.Audit.Info("succeeded", "user", h.Subject, "token", h.TokenID, "lane", e.key.lane, "service", e.key.service, "host", h.Host)
	return nil
}

// tellPlace tells the laptop where it stands, and beside whom.
func (e *served) tellPlace() {
	e.r.tunnel.Tell(e.key.lane, e.key.service, e.key.beside, e.answer())
}
