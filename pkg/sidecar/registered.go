package sidecar

import (
	"context"
	"errors"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"lane/pkg/consul"
)

const (
	// lookEvery is between two looks at the application's port.
	lookEvery = time.Second
	lookLimit = time.Second
	// idleEvery is between two looks whether requests are under way, at the end.
	idleEvery = 20 * time.Millisecond

	defaultDrain = 30 * time.Second

	noteOpen   = "the application accepts connections"
	noteClosed = "the application's port is closed"
)

// held is the application's entry in the registry; nil is none.
type held struct {
	hold  *consul.Hold
	app   []string
	drain time.Duration
	force <-chan struct{}
}

func (o *Options) enter() *held {
	if o.Register == nil {
		return nil
	}
	times := o.Hold
	times.Log = o.Logger
	h := &held{hold: o.Client.NewHold(*o.Register, times), app: o.App, drain: o.Drain, force: o.Force}
	if h.drain <= 0 {
		h.drain = defaultDrain
	}
	return h
}

// shown is closed when the registry has shown the entry, at once without one.
func (h *held) shown() <-chan struct{} {
	if h == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return h.hold.Shown()
}

// keep puts the application in, and keeps it there until life ends.
func (h *held) keep(life context.Context) error {
	h.look(life)
	parts, life := errgroup.WithContext(life)
	parts.Go(func() error { return h.hold.Keep(life) })
	parts.Go(func() error {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				h.look(life)
			case <-life.Done():
				return nil
			}
		}
	})
	return parts.Wait()
}

// look tells the registry whether the application's port accepts.
func (h *held) look(ctx context.Context) {
	d := net.Dialer{Timeout: lookLimit}
	for _, addr := range h.app {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			conn.Close()
			h.hold.SetApp(true, noteOpen)
			return
		}
	}
	h.hold.SetApp(false, noteClosed)
}

// leave takes the application out: marked as draining, then, when no request is
// under way, gone. It does so whatever has ended the sidecar.
func (h *held) leave(life context.Context, inFlight func() int) error {
	if h == nil {
		return nil
	}
	life = context.WithoutCancel(life)
	err := h.hold.Drain(life)
	end := time.NewTimer(h.drain)
	defer end.Stop()
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	for waiting := err == nil && inFlight() > 0; waiting; {
		select {
		case <-end.C:
			waiting = false
		case <-h.force:
			waiting = false
		case <-tick.C:
			waiting = inFlight() > 0
		}
	}
	return errors.Join(err, h.hold.Deregister(life))
}
