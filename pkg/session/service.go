package session

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/proxy"
)

// How often the local process is looked at: a restart is a matter of a moment,
// and a port that is open stays so.
const (
	lookOpen   = time.Second
	lookClosed = 100 * time.Millisecond
	lookLimit  = 2 * time.Second
)

// service is one service of a session: its guard, its claim and its place in
// the registry.
type service struct {
	o       Service
	log     *slog.Logger
	addr    netip.AddrPort // the guard's, as registered
	guard   *proxy.Guard
	reg     consul.Registration
	hold    *consul.Hold
	record  lane.Claim
	started time.Time

	touched  atomic.Bool // something may stand in the registry
	stopBeat func()
	inherits bool // the instance of the claim's former holder bears our ID
	heir     bool // another session registers under our ID by now

	mu   sync.Mutex
	open bool   // the local process is healthy
	why  string // it is not
	lost string // the claim is gone
}

// prove connects to the guard at the address that callers will use.
func (v *service) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", v.addr.String())
	if err != nil {
		return &UnreachableError{Addr: v.addr.String(), Err: err}
	}
	return c.Close()
}

// probe looks at the local process once and tells the registration when its
// health has changed.
func (v *service) probe(ctx context.Context) bool {
	err := v.look(ctx)
	if ctx.Err() != nil {
		return false
	}
	ok, why := err == nil, ""
	if err != nil {
		why = err.Error()
	}
	v.mu.Lock()
	changed := v.open != ok || v.why != why
	v.open, v.why = ok, why
	v.mu.Unlock()
	if changed {
		v.hold.SetApp(ok, why)
		v.log.Info("local process", "service", v.o.Name, "healthy", ok, "note", why)
	}
	return ok
}

func (v *service) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	if v.o.Health != "" {
		return v.lookAtHealth(ctx)
	}
	var d net.Dialer
	for _, addr := range v.o.Local {
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return c.Close()
		}
	}
	return fmt.Errorf("nothing listens on %s", strings.Join(v.o.Local, " or "))
}

// lookAtHealth asks the health path. Nothing else is ever asked of the user's
// process.
func (v *service) lookAtHealth(ctx context.Context) error {
	t := &http.Transport{Proxy: nil, DisableKeepAlives: true}
	var last error
	for _, addr := range v.o.Local {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+v.o.Health, nil)
		if err != nil {
			return fmt.Errorf("health path %q: %w", v.o.Health, err)
		}
		res, err := t.RoundTrip(req)
		if err != nil {
			last = fmt.Errorf("%s%s does not answer", addr, v.o.Health)
			continue
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode >= 400 {
			return fmt.Errorf("%s%s answers %s", addr, v.o.Health, res.Status)
		}
		return nil
	}
	return last
}

// follow looks at the local process until ctx ends.
func (v *service) follow(ctx context.Context) error {
	wait := time.NewTimer(lookClosed)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
		case <-ctx.Done():
			return nil
		}
		if v.probe(ctx) {
			wait.Reset(lookOpen)
		} else {
			wait.Reset(lookClosed)
		}
	}
}

// confirmed says whether the registry has shown the registration.
func (v *service) confirmed() bool {
	ok, _ := v.hold.State()
	return ok
}

// endBeat ends the beats and waits for their end.
func (v *service) endBeat() {
	if v.stopBeat != nil {
		v.stopBeat()
	}
}

func (v *service) setLost(why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = why
}

func (v *service) status(session, mode string) control.Service {
	confirmed, err := v.hold.State()
	v.mu.Lock()
	defer v.mu.Unlock()
	st := control.Service{Name: v.o.Name, Registered: v.reg.Name, ID: v.reg.ID, Mode: mode,
		Guard: v.addr.String(), Local: v.o.Local[0], State: control.StateUp}
	switch {
	case v.lost != "":
		st.State, st.Note = control.StateClaimLost, v.lost
	case session == control.SessionDraining:
		st.State = control.StateDraining
	case !v.touched.Load():
		st.State = control.StateStarting
	case !confirmed:
		st.State = control.StateUnconfirmed
		if err != nil {
			st.Note = err.Error()
		}
	case !v.open:
		st.State, st.Note = control.StateLocalClosed, v.why
	}
	return st
}
