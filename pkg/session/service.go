package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
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
	guard   *proxy.Guard
	door    *door
	started time.Time

	pinned bool            // an operator's policy is to stay under the own name
	stray  chan netip.Addr // holds the first caller that does not look at lanes
	secret string          // path at which its guard answers this session alone
	stop   func()          // ends what follows the local process and the callers

	turn   sync.Mutex   // one change of where it stands at a time
	astray bool         // guarded by turn: it listens where it is not registered yet
	ln     net.Listener // guarded by turn: the newest of its door

	mu       sync.Mutex
	addr     netip.AddrPort // the guard's, as registered
	former   netip.Addr     // the address before that one
	places   []*place       // the newest last; more than one only while it moves
	open     bool           // the local process is healthy
	why      string         // it is not
	lost     string         // the claim is gone
	proved   time.Time      // the last proof that callers reach it
	unproven string         // why there was none since
	seen     bool           // the registry has shown it once
	foreign  *ForeignError  // the relay has registered it in another registry
	holder   lane.Claim     // who holds the claim, if that is not this session
	since    string         // the claim is this session's, by its own clock; empty: it is not
	from     string         // whom it was taken over from
	notes    []string       // what its user should know of it
	because  string         // the policy that has isolated it, in words; "" for none
	meant    string         // the service that its name is most likely a slip of, if it has no baseline
}

func newService(o Service, log *slog.Logger, now time.Time) *service {
	return &service{o: o, log: log, started: now, stray: make(chan netip.Addr, 1)}
}

// place is where the service stands: the newest of its places.
func (v *service) place() *place {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.places[len(v.places)-1]
}

// first is the oldest of its places, which it leaves while it moves.
func (v *service) first() *place {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.places[0]
}

func (v *service) all() []*place {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.places)
}

func (v *service) add(p *place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.places = append(v.places, p)
}

func (v *service) drop(p *place) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.places = slices.DeleteFunc(slices.Clone(v.places), func(q *place) bool { return p == q })
}

// warn says something that the user of the service should know, once.
func (v *service) warn(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.notes, text) {
		v.notes = append(v.notes, text)
	}
}

// told is what its user should know of it.
func (v *service) told() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := slices.Clone(v.notes)
	if v.because != "" {
		out = append(out, v.because)
	}
	return out
}

// isolatedBy says by which policy it is isolated, or that there is none any more.
func (v *service) isolatedBy(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.because = text
}

// policed says whether a policy has isolated it.
func (v *service) policed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.because != ""
}

// health is the local process's, as last seen.
func (v *service) health() (ok bool, why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open, v.why
}

// prove connects to the guard at the address that callers will use.
func (v *service) prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	var d net.Dialer
	at := v.at().String()
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return &UnreachableError{Addr: at, Err: err}
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
		for _, p := range v.all() {
			p.hold.SetApp(ok, why)
		}
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

// end ends what follows the service, and waits for it: no place is added or left
// any more.
func (v *service) end() {
	if v.stop != nil {
		v.stop()
	}
}

func (v *service) setLost(why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lost = why
}

func (v *service) status(session string) control.Service {
	p := v.place()
	confirmed, err := p.hold.State()
	name, id, mode, addr := p.where(v.at().String())
	v.mu.Lock()
	defer v.mu.Unlock()
	proved, why := v.proofAge()
	st := control.Service{Name: v.o.Name, Registered: name, ID: id, Mode: mode,
		Guard: addr, Local: v.o.Local[0], State: control.StateUp}
	switch {
	case v.lost != "":
		st.State, st.Note = control.StateClaimLost, v.lost
	case session == control.SessionEnded:
		st.State = control.StateEnded
	case session == control.SessionDraining:
		st.State = control.StateDraining
	case !p.touched.Load():
		st.State = control.StateStarting
	case !v.open: // above all that the registry says of it: whoever looks can mend this
		st.State, st.Note = control.StateLocalClosed, v.why
	case !confirmed:
		st.State = control.StateUnconfirmed
		if err != nil {
			st.Note = plainly(err)
		}
	case !proved:
		st.State, st.Note = control.StateUnproved, why
	case v.holder.Session != "":
		st.Note = fmt.Sprintf("beside the instance of %s on %s, who holds the claim", orSomebody(v.holder.Owner), v.holder.Host)
	}
	st.Claim = v.claimed()
	return st
}

// plainly is an error of a registry that has answered before: where that is was no
// mistake.
func plainly(err error) string {
	var away *consul.UnreachableError
	if errors.As(err, &away) {
		return away.Fact()
	}
	return err.Error()
}

// claimed is the state of its claim, nil before there is one. The caller holds mu.
func (v *service) claimed() *control.Claim {
	switch {
	case v.lost != "":
		return &control.Claim{State: control.ClaimLost}
	case v.holder.Session != "":
		return &control.Claim{State: control.ClaimJoined, Holder: lane.Holder(orSomebody(v.holder.Owner), v.holder.Host), Since: v.holder.Since}
	case v.since != "":
		return &control.Claim{State: control.ClaimHeld, Since: v.since, From: v.from}
	}
	return nil
}

// holds notes that the claim is this session's from now on, and whom it had before.
func (v *service) holds(since, from string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.since, v.from = since, from
}
