package relay

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"lane/pkg/consul"
	"lane/pkg/relay/facts"
)

const (
	// overlap is how long an instance stands under both of its names: routers have to
	// be told of the second one, ask for it and get it, before the first one goes.
	overlap = 400 * time.Millisecond
	// again is the pause before a step that failed is tried again.
	again = time.Second
)

// watchStrays moves a claim to its isolated name when somebody who does not look at
// lanes has found it under its service's own, as a session does that registers by
// itself.
func (e *served) watchStrays(ctx context.Context) {
	if e.guard == nil || e.want.mode != facts.Auto && e.want.mode != "" || e.place().mode != consul.ModeShared {
		return
	}
	var caller netip.Addr
	select {
	case caller = <-e.stray:
	case <-ctx.Done():
		return
	}
	e.mu.Lock()
	h := e.holder
	e.mu.Unlock()
	next, err := e.r.newPlace(e, h, e.claim, consul.ModeIsolated)
	if e.pinned || err != nil {
		why := "its policy says shared"
		if err != nil {
			why = reason(err)
		}
		e.say(fmt.Sprintf("%s: %s called it without its lane's tag and was sent to the baseline; it stays under its own name: %s", e.key.service, caller, why))
		return
	}
	for {
		err := e.isolate(ctx, next, caller)
		if err == nil || ctx.Err() != nil {
			return
		}
		e.r.o.Logger.Warn("move to the isolated name", "service", e.key.service, "lane", e.key.lane, "error", err)
		select {
		case <-time.After(again):
		case <-ctx.Done():
			return
		}
	}
}

// isolate moves the claim. In this order no request of the lane fails: the claim
// names the new place, so that routers ask for it; the instance stands in both; it
// leaves the old one. It may be called again after an error.
func (e *served) isolate(ctx context.Context, next *place, caller netip.Addr) error {
	r := e.r
	e.change.Lock()
	record := e.record
	record.Mode, record.Registered, record.ID = next.mode, next.reg.Name, next.reg.ID
	err := r.session.Claim(ctx, record)
	if err == nil {
		e.record = record
	}
	e.change.Unlock()
	if err != nil {
		return err
	}
	return e.move(ctx, next, func() {
		p := consul.ServicePolicy{Service: e.key.service, Mode: consul.ModeIsolated, Caller: caller.String(),
			By: record.Owner + " by the relay " + r.o.Name, Since: r.o.Now().Format(time.RFC3339)}
		if _, err := r.client().LearnPolicy(ctx, p); err != nil {
			r.o.Logger.Warn("that it has to be isolated is not remembered", "service", e.key.service, "error", err)
		}
		e.say(fmt.Sprintf("%s is isolated: %s called it without its lane's tag; take that back with: lane policy clear %s", e.key.service, caller, e.key.service))
		r.o.Audit.Warn("isolated", "lane", e.key.lane, "service", e.key.service, "registered", next.reg.Name, "caller", caller.String())
	})
}

// move registers it in another place beside where it is, and then leaves the old one.
// arrived is called in between. It may be called again after an error.
func (e *served) move(ctx context.Context, next *place, arrived func()) error {
	r := e.r
	e.mu.Lock()
	old := e.places[0]
	if !slices.Contains(e.places, next) {
		e.places = append(slices.Clone(e.places), next) // from here on there may be something to remove
	}
	e.mu.Unlock()
	if !next.beats {
		if err := r.register(ctx, e, next); err != nil {
			return err
		}
		e.guard.Moved(next.reg.ID)
		arrived()
	}
	select {
	case <-time.After(overlap):
	case <-ctx.Done(): // the end removes both
		return nil
	}
	old.stop()
	if err := old.hold.Withdraw(ctx); err != nil {
		return err
	}
	e.mu.Lock()
	e.places = slices.DeleteFunc(slices.Clone(e.places), func(p *place) bool { return p == old })
	e.mu.Unlock()
	return nil
}

// say tells the laptop's user something, with where the claim stands now.
func (e *served) say(note string) {
	answer := e.answer()
	answer[facts.Note] = note
	e.r.tunnel.Tell(e.key.lane, e.key.service, e.key.beside, answer)
}
