package session

import (
	"context"
	"errors"
	"strings"
	"sync"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// far is a registration that the relay keeps.
type far struct {
	l     *link
	v     *service
	claim tunnel.Claim
	p     *place
	lost  chan struct{} // closed when the claim is another's

	mu    sync.Mutex
	facts map[string]string // what the relay has answered; nil: nothing yet
	ok    bool
	note  string
	drain bool
	why   error // of lost
}

var _ standing = (*far)(nil)

// claim makes the registration of a place; nothing is sent.
func (l *link) claim(s *session, v *service, p *place) *far {
	f := &far{l: l, v: v, p: p, lost: make(chan struct{})}
	f.claim = tunnel.Claim{ID: "http." + v.o.Name, Lane: string(s.o.Lane), Service: v.o.Name, Kind: tunnel.HTTP, Takeover: s.o.TakeOver, Join: s.o.Join && !s.o.TakeOver,
		Facts: map[string]string{facts.Mode: s.o.Mode, facts.Started: s.started.Format(timeForm)}}
	for k, val := range map[string]string{facts.Env: s.o.Env, facts.Tenant: s.o.Tenant, facts.Zone: s.o.Zone, facts.Version: s.o.Version} {
		if val != "" {
			f.claim.Facts[k] = val
		}
	}
	if s.o.Reject {
		f.claim.Facts[facts.Guard] = facts.Reject
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.far[f.claim.ID] = f
	return f
}

// Register implements standing: it returns when the relay has registered it.
func (f *far) Register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.l.s.o.link)
	defer cancel()
	f.report()
	got, err := f.l.agent.Claim(ctx, f.claim)
	if err != nil {
		err = f.l.explain(err)
		var no *RelayRefusedError
		if errors.As(err, &no) {
			no.TakeOver, no.Lane, no.Service = f.claim.Takeover, lane.Name(f.claim.Lane), f.claim.Service
		}
		return err
	}
	f.learn(got)
	f.l.mu.Lock()
	f.l.called(got)
	f.l.mu.Unlock()
	f.v.holds(f.l.s.o.Now().Format(timeForm), "")
	f.report()
	return nil
}

func (f *far) learn(got map[string]string) {
	if got == nil {
		return
	}
	var holder lane.Claim
	if owner, ok := got[facts.Holder]; ok {
		holder = lane.Claim{Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, Owner: owner, Host: got[facts.HolderHost], Session: "the holder's"}
	}
	f.v.joins(holder)
	f.v.guard.Far(got[facts.Address])
	f.mu.Lock()
	defer f.mu.Unlock()
	f.facts = got
}

// Run implements standing: the tunnel keeps it, and this waits for its loss.
func (f *far) Run(ctx context.Context) error {
	select {
	case <-f.lost:
		f.mu.Lock()
		why := f.why
		f.mu.Unlock()
		text := why.Error()
		if no := (*tunnel.Refusal)(nil); errors.As(why, &no) {
			text = no.Text // its number says nothing here
		}
		text = strings.TrimPrefix(text, "claim lost: ")
		f.v.setLost(text)
		return &consul.ClaimLostError{Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, Text: text}
	case <-ctx.Done():
		return nil
	}
}

func (f *far) lose(why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why != nil {
		return
	}
	if f.why = why; why == nil {
		f.why = errors.New("the relay does not say why")
	}
	close(f.lost)
}

// State implements standing.
func (f *far) State() (bool, error) {
	if err := f.l.up(); err != nil {
		return false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.facts != nil && f.why == nil, f.why
}

func (f *far) where() (name, id, mode, addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.facts == nil {
		return f.p.reg.Name, f.p.reg.ID, f.p.mode, ""
	}
	return f.facts[facts.Registered], f.facts[facts.ID], f.facts[facts.Mode], f.facts[facts.Address]
}

// SetApp implements standing.
func (f *far) SetApp(ok bool, note string) {
	f.mu.Lock()
	f.ok, f.note = ok, note
	f.mu.Unlock()
	f.report()
}

func (f *far) report() {
	f.mu.Lock()
	st := tunnel.State{Ready: f.ok, Note: cut(f.note, 200), Draining: f.drain}
	f.mu.Unlock()
	f.l.agent.Report(f.claim.ID, st)
}

// Beat and Doubt implement standing: the tunnel's own pings are the beats.
func (f *far) Beat() {}

func (f *far) Doubt() {}

// Drain implements standing.
func (f *far) Drain(context.Context) error {
	f.mu.Lock()
	f.drain = true
	f.mu.Unlock()
	f.report()
	return nil
}

// Deregister implements standing: it returns when the relay has removed it.
func (f *far) Deregister(ctx context.Context) error {
	if !f.l.met() {
		return nil
	}
	name, id, _, _ := f.where()
	err := f.l.agent.Release(ctx, f.claim.ID)
	if err == nil || f.isLost() {
		return nil
	}
	return &FarLeftoverError{Relay: f.l.o.URL, Lane: lane.Name(f.claim.Lane), Service: f.claim.Service, ID: id, Name: name, Err: err}
}

func (f *far) isLost() bool {
	select {
	case <-f.lost:
		return true
	default:
		return false
	}
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
