package consul

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/consul/api"
)

// HoldOptions are the times of a registration; zero values are the defaults.
type HoldOptions struct {
	TTL             time.Duration // liveness: critical without a beat for so long; 15 s
	Beat            time.Duration // between two beats; 5 s
	DeregisterAfter time.Duration // critical for so long, removed; 1 m, the least that Consul takes
	ReadBack        time.Duration // between two looks at what the catalog shows; 30 s
	Late            time.Duration // after its removal, what was cut off is waited for; 2 s
	App             bool          // the application check's first state
	AppNote         string        // why, in words that do not change from beat to beat
	Log             *slog.Logger  // where Keep tells what it tries again; nil: nowhere
}

func (o HoldOptions) withDefaults() HoldOptions {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.TTL, 15*time.Second)
	def(&o.Beat, o.TTL/3)
	def(&o.DeregisterAfter, time.Minute)
	def(&o.ReadBack, 30*time.Second)
	def(&o.Late, lateFor)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Missed is how long after the last beat an instance is critical, at most.
func (o HoldOptions) Missed() time.Duration { return o.withDefaults().TTL }

// Gone is how long the registry shows an instance after the death of who kept it, at
// most.
func (o HoldOptions) Gone() time.Duration {
	o = o.withDefaults()
	return o.TTL + max(o.DeregisterAfter, time.Minute) + reapEvery
}

// reapEvery is how often Consul looks for instances to remove.
const reapEvery = 30 * time.Second

const (
	liveName = "lane liveness"
	appNotes = "critical while the process behind does not accept connections"
)

// Output of the liveness check. It never changes: every change is written to
// the catalog and wakes every watch of the service.
const aliveNote = "lane is running"

// Hold is one registration that is kept alive. It has two checks: liveness,
// which alone removes the instance when beats stop, and application, which is
// critical while the local process does not accept, and never removes anything:
// a breakpoint is not a death.
//
// Register first, then Run, or Keep for both; Drain and Deregister may come at any time, from any
// goroutine. After a failed Register something may have been registered:
// Deregister all the same.
type Hold struct {
	c        *Client
	o        HoldOptions
	id, name string

	app  atomic.Pointer[appState]
	push chan struct{} // a new application state; never blocks the sender

	first  chan struct{} // closed when the catalog has shown it
	tried  chan struct{} // closed when Keep's first try is over, and more will follow if it failed
	settle sync.Once     // of tried

	gone atomic.Bool   // deregistered, never registered again
	turn chan struct{} // holds one token: one change of the registration at a time
	reg  Registration  // guarded by turn
	told bool          // guarded by turn: the agent may know the registration
	// lost is how many registrations were sent of which nobody knows what became, and
	// lostAt when the last one was. Guarded by turn.
	lost   int
	lostAt time.Time

	mu       sync.Mutex // guards the rest, what State shows
	shown    bool       // the catalog has shown it as told
	lastBeat time.Time
	err      error
}

type appState struct {
	ok   bool
	note string
}

// NewHold makes a hold; nothing is validated or sent before Register.
func (c *Client) NewHold(reg Registration, o HoldOptions) *Hold {
	h := &Hold{c: c, o: o.withDefaults(), id: reg.ID, name: reg.Name, reg: reg, push: make(chan struct{}, 1), first: make(chan struct{}), tried: make(chan struct{}), turn: make(chan struct{}, 1)}
	h.app.Store(&appState{ok: o.App, note: o.AppNote})
	return h
}

// take waits for the turn to change the registration.
func (h *Hold) take(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hold) release() { <-h.turn }

// Register validates, registers, beats both checks once and reads the own ID
// back from the catalog, in the states that were told. Without a deadline of
// its own, ctx gets one of 5 s. A *NotShownError means that the agent took the
// registration and the catalog does not show it.
func (h *Hold) Register(ctx context.Context) error {
	if err := h.take(ctx); err != nil {
		return err
	}
	defer h.release()
	if err := h.reg.Validate(); err != nil {
		return err
	}
	if h.gone.Load() {
		return fmt.Errorf("register %s: it has been deregistered", h.reg.ID)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	return h.note(h.establish(ctx))
}

// establish registers, beats and reads back. The caller has the turn.
func (h *Hold) establish(ctx context.Context) error {
	h.told = true
	if err := h.put(ctx); err != nil {
		return err
	}
	told, err := h.beatOnce(ctx)
	if err != nil {
		return err
	}
	return h.readBack(ctx, told)
}

// liveID is the ID of the check that says whether a session stands behind an instance.
func liveID(id string) string { return id + ":live" }

func (h *Hold) liveID() string { return liveID(h.reg.ID) }
func (h *Hold) appID() string  { return h.reg.ID + ":app" }

// Displaced reports whether another process has removed what Register put under the ID,
// or has put its own there, by the error of Register and by what the agent knows now:
// then to register once more is of use. Two that have the same ID one after the other
// may meet there.
func (h *Hold) Displaced(ctx context.Context, err error) bool {
	var hidden *NotShownError
	switch {
	case statusOf(err) == http.StatusNotFound: // a beat found no check
		return true
	case !errors.As(err, &hidden):
		return false
	}
	var svc *api.AgentService
	err = h.c.do(ctx, "read "+h.id, fmt.Sprintf("service:read on %q", h.name), func(ctx context.Context) (err error) {
		svc, _, err = h.c.api.Agent().Service(h.id, local(ctx))
		return err
	})
	if statusOf(err) == http.StatusNotFound {
		return true
	}
	return err == nil && (svc.Address != h.reg.Address || svc.Port != h.reg.Port)
}

// put sends the registration as it is. A check that the agent already has
// keeps its status.
func (h *Hold) put(ctx context.Context) error {
	app := h.app.Load()
	r := &api.AgentServiceRegistration{
		ID: h.reg.ID, Name: h.reg.Name, Address: h.reg.Address, Port: h.reg.Port, Meta: h.reg.metadata(),
		Checks: api.AgentServiceChecks{
			// Whoever registers lives: in Consul's own first state, critical, callers
			// would find a claim whose instance is sick until the first beat.
			{CheckID: h.liveID(), Name: liveName, Status: api.HealthPassing, TTL: h.o.TTL.String(),
				DeregisterCriticalServiceAfter: h.o.DeregisterAfter.String()},
			// The longer TTL leaves the liveness check to speak when beats stop.
			// The notes speak for it in a catalog that puts off an output whose
			// status has not changed, as Consul's does for five minutes.
			{CheckID: h.appID(), Name: "lane application", Status: status(app.ok), TTL: (2 * h.o.TTL).String(),
				Notes: appNotes},
		},
	}
	err := h.c.commit(ctx, "register "+h.reg.Name, fmt.Sprintf(`service:write on %q`, h.reg.Name), func(ctx context.Context) error {
		return h.c.api.Agent().ServiceRegisterOpts(r, api.ServiceRegisterOpts{ReplaceExistingChecks: true}.WithContext(ctx))
	})
	if isUnsure(err) {
		h.lost, h.lostAt = h.lost+1, time.Now()
	}
	return err
}

// beatOnce tells both checks their state, and returns what it told of the
// application, which may change at any time.
func (h *Hold) beatOnce(ctx context.Context) (told appState, err error) {
	told = *h.app.Load()
	if err := h.tell(ctx, h.liveID(), aliveNote, true); err != nil {
		return told, err
	}
	if err := h.tell(ctx, h.appID(), told.note, told.ok); err != nil {
		return told, err
	}
	h.mu.Lock()
	h.lastBeat = time.Now()
	h.mu.Unlock()
	return told, nil
}

func status(ok bool) string {
	if ok {
		return api.HealthPassing
	}
	return api.HealthCritical
}

func (h *Hold) tell(ctx context.Context, check, note string, ok bool) error {
	return h.c.do(ctx, "keep "+h.reg.Name+" registered", fmt.Sprintf(`service:write on %q`, h.reg.Name), func(ctx context.Context) error {
		return h.c.api.Agent().UpdateTTLOpts(check, note, status(ok), local(ctx))
	})
}

// readBack waits until the catalog shows the own ID as told: its address, which
// another process may have registered under the same ID, and both checks.
func (h *Hold) readBack(ctx context.Context, told appState) error {
	seen := "nothing"
	var filtered bool
	err := h.c.await(ctx, h.reg.Name, h.reg.ID, func(entries []*api.ServiceEntry, meta *api.QueryMeta) bool {
		filtered = meta.ResultsFilteredByACLs
		if len(entries) == 0 {
			seen = "nothing"
			return false
		}
		if at := entries[0].Service; at.Address != h.reg.Address || at.Port != h.reg.Port {
			seen = fmt.Sprintf("the address %s, not %s", hostPort(at.Address, at.Port), hostPort(h.reg.Address, h.reg.Port))
			return false
		}
		live, app := "missing", "missing"
		for _, c := range entries[0].Checks {
			switch c.CheckID {
			case h.liveID():
				live = c.Status
			case h.appID():
				app = c.Status
			}
		}
		seen = fmt.Sprintf("liveness %s, application %s", live, app)
		return live == api.HealthPassing && app == status(told.ok)
	})
	switch {
	case err == nil:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.shown = true
		select {
		case <-h.first:
		default:
			close(h.first)
		}
		return nil
	case filtered:
		return &DeniedError{What: "read " + h.reg.ID + " back from the catalog",
			Need: fmt.Sprintf(`service:read on %q and node:read on every node (node_prefix "")`, h.reg.Name)}
	case errors.Is(err, context.DeadlineExceeded) && !isUnreachable(err):
		return &NotShownError{ID: h.reg.ID, Name: h.reg.Name, Address: h.c.Address(), Seen: seen, Err: err}
	}
	return err
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

func isUnreachable(err error) bool {
	var u *UnreachableError
	return errors.As(err, &u)
}

// note keeps err for State and returns it.
func (h *Hold) note(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
	if err != nil {
		h.shown = false
	}
	return err
}

// SetApp sets the application check's state, for the next beat and at once. It
// never blocks. note must stay the same while the state does.
func (h *Hold) SetApp(ok bool, note string) {
	next := &appState{ok: ok, note: note}
	if prev := h.app.Swap(next); *prev == *next {
		return
	}
	h.Beat() // it will read the newest state
}

// Beat has Run beat at once, and not only when it is time. It never blocks.
func (h *Hold) Beat() {
	select {
	case h.push <- struct{}{}:
	default: // one is waiting
	}
}

// Doubt has Run look at once whether the catalog shows the registration as told.
// It never blocks.
func (h *Hold) Doubt() {
	h.mu.Lock()
	h.shown = false
	h.mu.Unlock()
	h.Beat()
}

// Keep registers and then runs until ctx ends, and then returns nil: for whoever
// serves all the same while the registry does not know him, a gateway or a sidecar.
// What another try may mend (a registry that is away, breaks the call off, has no
// leader or does not show the registration yet) is told to the log, once, and tried
// again with each beat. What only somebody else can mend, a missing right or a value
// that cannot be used, is the error. After it, as after Register, something may have
// been registered.
func (h *Hold) Keep(ctx context.Context) error {
	beat := time.NewTicker(h.o.Beat)
	defer beat.Stop()
	for failed := false; ; failed = true {
		err := h.Register(ctx)
		switch {
		case err == nil:
			if failed {
				h.o.Log.Warn("it is in the registry now", "id", h.id)
			}
			h.settle.Do(func() { close(h.tried) })
			return h.Run(ctx)
		case ctx.Err() != nil:
			return nil
		case !passing(err):
			return err
		case !failed:
			h.o.Log.Warn("it is not in the registry yet, which is tried again and again", "id", h.id, "error", err)
			h.settle.Do(func() { close(h.tried) })
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// passing reports whether another try may end otherwise, with nobody's help.
func passing(err error) bool {
	var hidden *NotShownError
	var leaderless *NoLeaderError
	var answer *AnswerError
	switch {
	case isUnreachable(err), errors.As(err, &hidden), errors.As(err, &leaderless):
		return true
	case errors.As(err, &answer): // 404: the agent was restarted in between, and the checks are gone
		return answer.Status >= 500 || answer.Status == 404 || answer.Status == 429
	}
	return false
}

// Tried is closed when Keep has registered, or has failed once, has told that, and goes
// on: for whoever says that he is ready. It takes no longer than a call may. What ends
// Keep does not close it.
func (h *Hold) Tried() <-chan struct{} { return h.tried }

// Shown is closed when the catalog has shown the registration for the first time.
func (h *Hold) Shown() <-chan struct{} { return h.first }

// Run beats until ctx ends, and then returns nil. An agent that no longer knows
// the checks (restarted, or it removed the instance while this machine slept)
// is registered with again. Other failures are tried again with the next beat;
// State tells them.
func (h *Hold) Run(ctx context.Context) error {
	beat := time.NewTicker(h.o.Beat)
	defer beat.Stop()
	// After a failure, sooner: until a beat arrives, the instance may count as dead.
	pause := nextRetry(0, 0, nil)
	retry := time.NewTimer(h.o.Beat)
	defer retry.Stop()
	retry.Stop()
	nextLook := time.Now().Add(h.o.ReadBack)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.push:
		case <-beat.C:
		case <-retry.C:
		}
		if h.take(ctx) != nil {
			return nil
		}
		if h.gone.Load() || !h.told {
			h.release()
			continue
		}
		told, err := h.beatOnce(ctx)
		if statusOf(err) == 404 {
			err = h.again(ctx)
		} else if err == nil && (!h.confirmed() || time.Now().After(nextLook)) {
			nextLook = time.Now().Add(h.o.ReadBack)
			err = h.look(ctx, told)
			var astray *NotShownError
			if errors.As(err, &astray) {
				// Something else stands under the ID, or the agent has not passed it on:
				// to say it again costs nothing, and the next beat looks.
				err = errors.Join(err, h.put(ctx))
			}
		}
		if ctx.Err() == nil {
			_ = h.note(err)
		}
		h.release()
		if pause = nextRetry(pause, h.o.Beat, err); err != nil {
			retry.Reset(pause)
		}
	}
}

// firstRetry is how soon after a failed beat the next one is tried; then it takes
// twice as long each time, up to maxRetry.
const firstRetry = 250 * time.Millisecond

// nextRetry is the pause after a beat that had this error; for one that arrived, the
// one to begin with.
func nextRetry(pause, beat time.Duration, err error) time.Duration {
	if err == nil {
		return firstRetry / 2
	}
	return min(2*pause, beat, maxRetry)
}

// maxRetry bounds that pause: a registry that is back must not wait for long to hear
// who lives.
const maxRetry = time.Second

// again registers anew, and waits for the catalog as long as a call may take.
func (h *Hold) again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return h.establish(ctx)
}

// look reads the own ID back, briefly: the beats must go on.
func (h *Hold) look(ctx context.Context, told appState) error {
	ctx, cancel := context.WithTimeout(ctx, min(h.o.Beat, callTimeout))
	defer cancel()
	return h.readBack(ctx, told)
}

func (h *Hold) confirmed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown
}

// State reports whether the catalog has shown the registration as told and the
// beats since then have arrived, and the last error otherwise.
func (h *Hold) State() (confirmed bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.shown && h.err == nil && time.Since(h.lastBeat) < h.o.TTL, h.err
}

// Drain marks the instance as draining: lane-aware callers send it no new
// requests, and it stays healthy. Nothing happens when it is not registered.
func (h *Hold) Drain(ctx context.Context) error {
	if err := h.take(ctx); err != nil {
		return err
	}
	defer h.release()
	if h.gone.Load() || !h.told {
		return nil
	}
	h.reg.Draining = true
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := h.put(ctx); err != nil {
		return err
	}
	_, err := h.beatOnce(ctx)
	return err
}

// Readdress has the registration stand at another address, under the same ID, and
// returns when the catalog shows it there. Until then State says that it does not. A
// failure leaves it to Run, and may be answered by another try.
func (h *Hold) Readdress(ctx context.Context, address string, port int) error {
	if err := h.take(ctx); err != nil {
		return err
	}
	defer h.release()
	h.reg.Address, h.reg.Port = address, port
	if h.gone.Load() || !h.told {
		return nil
	}
	_ = h.note(fmt.Errorf("it moves to %s", hostPort(address, port)))
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return h.note(h.establish(ctx))
}

// Deregister removes the registration and returns when the catalog no longer
// shows it, or after 5 s with a *LeftoverError. An agent that does not know the
// ID is a success. Nothing is registered again afterwards. The context must
// outlive the one that ended the session.
func (h *Hold) Deregister(ctx context.Context) error {
	return h.leave(ctx, func(ctx context.Context) bool {
		newer, err := h.c.bearsAnother(ctx, h.id, h.reg.Session)
		return err != nil || !newer // what cannot be read is said by the removal
	})
}

// Withdraw is Deregister where another process may have registered under the same ID
// meanwhile: what stands at another address is not removed.
func (h *Hold) Withdraw(ctx context.Context) error {
	return h.leave(ctx, func(ctx context.Context) bool { return h.c.mayStand(ctx, h.id, h.reg.Address, h.reg.Port) })
}

// leave removes the registration wherever ours says that it is.
func (h *Hold) leave(ctx context.Context, ours func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h.gone.Store(true)
	within := h.o.Gone()
	if err := h.take(ctx); err != nil { // a call of Run's hangs
		return &LeftoverError{ID: h.id, Name: h.name, Address: h.c.Address(), Within: within, Err: err}
	}
	defer h.release()
	if !h.told {
		return nil
	}
	h.mu.Lock()
	h.shown = false
	h.mu.Unlock()
	if ours(ctx) {
		late, err := h.c.removeTwice(ctx, h.id, within, h.name)
		if err != nil {
			return err
		}
		if late {
			h.lost--
		}
	}
	if err := h.removeLate(ctx, ours); err != nil {
		return err
	}
	h.told = false
	return nil
}

// removeLate removes what comes in after its removal: a registration that was cut off
// on its way to the agent. The caller has the turn.
func (h *Hold) removeLate(ctx context.Context, ours func(context.Context) bool) error {
	if time.Since(h.lostAt) > astrayFor {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.o.Late)
	defer cancel()
	for ; h.lost > 0; h.lost-- {
		err := h.c.await(ctx, h.name, h.id, func(entries []*api.ServiceEntry, _ *api.QueryMeta) bool {
			return slices.ContainsFunc(entries, func(e *api.ServiceEntry) bool {
				return e.Service.Address == h.reg.Address && e.Service.Port == h.reg.Port
			})
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return &LeftoverError{ID: h.id, Name: h.name, Address: h.c.Address(), Within: h.o.Gone(), Err: err}
		}
		if !ours(ctx) {
			return nil
		}
		if err := h.c.remove(context.WithoutCancel(ctx), h.id, h.o.Gone(), h.name); err != nil {
			return err
		}
	}
	return nil
}
