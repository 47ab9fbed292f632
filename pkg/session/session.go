package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"lane/pkg/child"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/describe"
	"lane/pkg/guardian"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/traffic"
)

// rows is how many exchanges a session keeps for its viewers.
const rows = 5000

// stepLimit bounds each step of the start and of the end.
const stepLimit = 5 * time.Second

// ErrStopped is the cause of an end that was asked for through the control API.
var ErrStopped = errors.New("ended by lane down")

// errLeft is the cause of an end at which the session's own viewer has left.
var errLeft = errors.New("ended by its owner at its own terminal")

// InterruptedError is the cause of an end that a key or a signal asked for, and that nobody
// was asked about: How it came says to those who look on who has ended the session.
type InterruptedError struct{ How string }

func (*InterruptedError) Error() string { return "interrupted" }

// Is takes all of them for one: how it came is only told.
func (*InterruptedError) Is(target error) bool { _, ok := target.(*InterruptedError); return ok }

// session is the state of one Run. Fields are set before their readers start,
// but for what mu guards; Run's own goroutine, which alone writes those, may
// read them without it.
type session struct {
	o       Options
	started time.Time
	log     *traffic.Log
	cancel  context.CancelCauseFunc
	forced  chan struct{} // closed by a forced Stop
	force   sync.Once
	done    chan struct{} // closed when everything is gone
	result  error         // valid once done is closed

	socket string // of the control API
	mark   string // of what it registers

	client *consul.Client
	// sessionName is that of the registry's session, and of no other one; "" before
	// one may have been opened. Guarded by mu.
	sessionName string
	link        *link // to the relay; nil without one
	watcher     *consul.Watcher
	engine      *proxy.Transport
	forward     *proxy.Forward
	counts      traffic.Counts
	messages    *describe.Reader

	glanced   netip.Addr    // this machine's address at the first glance, before it was detected
	over      chan struct{} // closed when no front waits for requests any more
	endFronts []func()      // each ends a front, and waits for it
	endGuard  func()        // ends the watch over the guardian, and waits for it
	endWrites func()        // ends what writes to the registry beside the services' own parts, and waits for it

	mu       sync.Mutex
	state    string
	waiting  string // what the end waits for
	proxyURL string
	services []*service
	claims   *claims
	guardian *guardian.Guardian // nil for a moment, when one has died
	child    *child.Child
	history  []control.Event
	// consulTokenEnds is when the registry stops taking the token; zero: never, as far as is
	// known.
	consulTokenEnds time.Time
	steps           []control.Step // of the start
	logPath         string         // of a detached session
	parted          bool           // its viewer may leave, and it goes on
}

// Run runs a session until ctx ends, its command ends, somebody stops it, its
// viewer leaves or a part of it fails; then it takes everything down again. Its
// error is the cause: ctx's own, nil after a stop, the command's
// *child.ExitError, or what failed; a *LeftBehindError is joined to it when the
// registry could not be cleaned.
func Run(ctx context.Context, o Options) error {
	if o.step == 0 {
		o.step = stepLimit
	}
	if o.link == 0 {
		o.link = linkLimit
	}
	if o.pass == 0 {
		o.pass = passLimit
	}
	if o.tick == 0 {
		o.tick = lookAround
	}
	if o.ClaimTTL == 0 {
		o.ClaimTTL = 10 * time.Minute
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{o: o, started: o.Now(), mark: rand.Text(), logPath: o.LogPath, log: traffic.NewLog(rows), messages: describe.NewReader(o.Now), state: control.SessionStarting,
		cancel: cancel, forced: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{})}
	ctl, err := control.Listen(o.RuntimeDir)
	if err != nil {
		return err
	}
	s.socket = ctl.Socket()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	served := make(chan error, 1)
	go func() {
		err := ctl.Serve(serving, s, s.log)
		s.cancel(errPart) // a session that cannot be reached must not go on
		served <- err
	}()
	s.result = s.run(ctx, inner)
	s.farewell(context.Cause(inner), s.result)
	if o.Ended != nil {
		o.Ended(context.Cause(inner))
	}
	end() // before anybody hears of the end: who looks then finds no session
	close(s.done)
	return errors.Join(s.result, <-served)
}

// farewell notes how the session has ended: the last that its viewers hear of it.
func (s *session) farewell(cause, err error) {
	var left *LeftBehindError
	var exit *child.ExitError
	var by *InterruptedError
	how := "ended"
	if errors.As(err, &by) && by.How != "" {
		how += " " + by.How
	}
	switch {
	case errors.As(err, &left):
		s.warn("%s, and not all was removed: %v", how, left)
	case errors.As(err, &exit):
		s.warn("ended: its command has ended: %v", exit)
	case by != nil:
		s.event("%s", how)
	case err != nil:
		s.warn("ended: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	case errors.Is(cause, ErrStopped):
		s.event("%v", ErrStopped)
	case errors.Is(cause, errLeft):
		s.event("%v", errLeft)
	default:
		s.event("ended")
	}
	s.setState(control.SessionEnded)
}

// Stop implements control.Session.
func (s *session) Stop(ctx context.Context, force bool) error {
	s.cancel(ErrStopped)
	if force {
		s.endWaiting()
	}
	select {
	case <-s.done:
		var left *LeftBehindError
		if errors.As(s.result, &left) {
			return left
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run is the session between its control socket's opening and closing. ctx is
// outer, which a signal ends, or ends when the session does for other reasons.
func (s *session) run(outer, ctx context.Context) (err error) {
	client, err := consul.Open(s.o.Registry)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.client = client
	s.mu.Unlock()
	// The parts live until the end has been cleaned up, not only until it was
	// asked for.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	parts := &parts{fail: func() { s.cancel(errPart) }}
	viewed := s.show(ctx)
	defer func() {
		s.cancel(nil)
		end()
		e := errors.Join(parts.wait(), viewed())
		if s.engine != nil {
			s.engine.Close()
		}
		s.client.Close()
		err = errors.Join(e, err)
	}()

	defer func() { err = errors.Join(err, s.dismiss(err)) }()
	if err = s.start(ctx, life, parts); err == nil {
		err = s.wait(ctx)
	}
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = asked(cause)
	}
	return errors.Join(err, s.tearDown(outer))
}

var errPart = errors.New("a part of the session failed")

// asked is the error of an end that had this cause: an end that was asked for
// is none.
func asked(cause error) error {
	if errors.Is(cause, ErrStopped) || errors.Is(cause, errLeft) || errors.Is(cause, errPart) {
		return nil // a part's own error comes from its group
	}
	return cause
}

// wait waits for the end of the session and returns its cause.
func (s *session) wait(ctx context.Context) error {
	var ended <-chan struct{}
	if s.child != nil {
		ended = s.child.Done()
	}
	select {
	case <-ended:
		return s.child.Wait()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// at marks a step of the start: it fails when the end was asked for meanwhile.
func (s *session) at(ctx context.Context, name string) error {
	if s.o.At != nil {
		s.o.At(name)
	}
	s.step(name)
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// step notes that a step of the start begins, and with it that the one before is over.
// "" is the end of the last one.
func (s *session) step(name string) {
	now := s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.steps); n > 0 {
		last := &s.steps[n-1]
		if last.Name == name {
			return // a claim for each service
		}
		if last.Took == 0 {
			last.Took = max(now.Sub(last.Began).Seconds(), 1e-6)
		}
	}
	if name != "" {
		s.steps = append(s.steps, control.Step{Name: name, Began: now})
	}
}

// Reconnect implements control.Session.
func (s *session) Reconnect() {
	s.mu.Lock()
	link, held, services := s.link, s.claims, slices.Clone(s.services)
	s.mu.Unlock()
	if link != nil {
		link.agent.Retry()
	}
	if held != nil {
		held.session.Check()
	}
	for _, v := range services {
		for _, p := range v.all() {
			p.hold.Beat()
		}
	}
}

// Status implements control.Session.
func (s *session) Status(ctx context.Context) control.Status {
	s.mu.Lock()
	link := s.link
	s.mu.Unlock()
	ending := ""
	if link != nil { // it reads a file: without the lock
		ending, _ = link.ending(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := control.Status{Schema: control.StatusSchema, Lane: s.o.Lane, Owner: s.o.Owner, Host: s.o.Host, Env: s.o.Env,
		PID: pid(), Started: s.started, Proxy: s.proxyURL, Bodies: s.o.Bodies, Log: s.logPath, State: s.state, Waiting: s.waiting,
		Services: []control.Service{}, Counts: s.totals(), History: slices.Clone(s.history), Warnings: slices.Clone(s.o.Remarks), Settings: s.o.Settings}
	if len(s.o.Opens) > 0 {
		st.Mitm, st.CA = s.o.Opens, s.o.Authority.Path
	}
	if s.child != nil {
		st.Child = fmt.Sprintf("%s (process %d)", s.o.Command[0], s.child.PID())
	}
	if s.state == control.SessionStarting {
		st.Steps = slices.Clone(s.steps)
	}
	if s.link != nil {
		st.Relay, st.Owner = s.link.status(), s.link.owner(s.o.Owner)
	}
	if s.client != nil {
		st.Registry.Address = s.client.Address()
	}
	st.Registry.State = "unknown"
	if s.watcher != nil {
		cat, trust := s.watcher.Catalog(), s.watcher.Shown()
		if e := s.abroad(); e != nil {
			st.Warnings = []string{e.wayOut()} // of its neighbours this registry tells nothing
		} else {
			st.Warnings = append(st.Warnings, warnings(cat, s.names(), s.meant())...)
			for _, v := range s.services {
				st.Warnings = append(st.Warnings, company(cat, s.o.Lane, v)...)
			}
		}
		st.Killed = killed(&cat.Switches, s.o.Lane)
		st.Registry.State, st.Registry.Since = stateWord(trust.State), trust.Since
		st.Registry.Index = s.watcher.Index()
		if err := s.watcher.Err(); err != nil {
			if st.Registry.Error = plainly(err); trust.Since.IsZero() { // it has never answered
				st.Registry.Error = err.Error()
			}
		}
		if trust.State == lane.Unreachable && !trust.Since.IsZero() && s.link == nil && len(s.services) > 0 {
			st.Registry.Critical, st.Registry.Removed = trust.Since.Add(s.o.hold.Missed()), trust.Since.Add(s.o.hold.Gone())
		}
	}
	for _, v := range s.services {
		one := v.status(s.state)
		if one.Claim != nil && s.link != nil {
			one.Claim.Relay = s.link.o.URL
		}
		st.Services = append(st.Services, one)
		st.Warnings = append(st.Warnings, v.told()...)
	}
	if s.state == control.SessionStarting { // those that are still to come: who ends the session is told of all
		for _, o := range s.o.Services {
			if !slices.ContainsFunc(st.Services, func(v control.Service) bool { return v.Name == o.Name }) {
				st.Services = append(st.Services, control.Service{Name: o.Name, Local: o.Local[0], State: control.StateStarting})
			}
		}
	}
	for _, ending := range []string{ending, s.consulTokenEnding()} {
		if ending != "" {
			st.Warnings = append(st.Warnings, ending)
		}
	}
	return st
}

// Messages implements control.Session. The server is asked where the request went. To
// a process of this session that is past its guard, which would take the question for
// a request of the lane's.
func (s *session) Messages(ctx context.Context, e *traffic.Exchange) traffic.Messages {
	s.mu.Lock()
	engine, services := s.engine, slices.Clone(s.services)
	s.mu.Unlock()
	revisit := engine.Revisit
	for _, v := range services {
		own := slices.ContainsFunc(v.all(), func(p *place) bool {
			_, id, _, _ := p.where("")
			return id == e.Instance
		})
		if e.Guard == traffic.GuardPassed && v.o.Name == e.Service || e.Instance != "" && own {
			revisit = v.guard.Revisit
		}
	}
	return s.messages.Read(ctx, e, func(req *http.Request) (*http.Response, error) { return revisit(req, e) })
}

// totals are the counts that a status shows.
func (s *session) totals() control.Counts {
	return control.Counts{Exchanges: s.counts.Total(traffic.CountRequests), Matched: s.counts.Total(traffic.CountMatched),
		Fallbacks: s.counts.By(traffic.CountFallback), Errors: s.counts.By(traffic.CountErrors),
		Guard: s.counts.By(traffic.CountGuard), External: s.counts.Total(traffic.CountExternal),
		Killed: s.counts.Total(lane.MetricKillSwitch)}
}

func (s *session) setState(state string) {
	s.step("")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

// waits says what the end waits for, in words; "" for nothing.
func (s *session) waits(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = what
}

// view is the session as its own viewer sees it.
type view struct{ s *session }

func (v view) Status(ctx context.Context) (control.Status, error) { return v.s.Status(ctx), nil }

func (v view) Next(ctx context.Context, after uint64) ([]traffic.Exchange, uint64, error) {
	return v.s.log.Next(ctx, after, rows)
}

func (v view) Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error) {
	return v.s.log.Batch(ctx, after, most)
}

func (v view) Detach(log string) bool { return v.s.detach(log) }

func (v view) Reconnect(context.Context) error {
	v.s.Reconnect()
	return nil
}

func (v view) Messages(ctx context.Context, seq uint64) (traffic.Messages, error) {
	e, err := v.Whole(ctx, seq)
	if err != nil {
		return traffic.Messages{}, err
	}
	return v.s.Messages(ctx, &e), nil
}

func (v view) Whole(_ context.Context, seq uint64) (traffic.Exchange, error) {
	e, ok := v.s.log.Get(seq)
	if !ok {
		return e, fmt.Errorf("exchange %d is not kept any more", seq)
	}
	return e, nil
}

// killed is by what the lane is killed, if it is.
func killed(sw *lane.Switches, l lane.Name) string {
	switch {
	case slices.Contains(sw.KilledLanes, l):
		return control.KilledLane // an unkill of all would not be enough
	case sw.KillAll:
		return control.KilledAll
	}
	return ""
}

// stateWord is a trust in one word.
func stateWord(t lane.RegistryState) string {
	switch t {
	case lane.Fresh:
		return "fresh"
	case lane.Stale:
		return "stale"
	}
	return "unreachable"
}

// names are the services of the session. The caller holds mu.
func (s *session) names() []string {
	out := make([]string, len(s.services))
	for i, v := range s.services {
		out[i] = v.o.Name
	}
	return out
}
