package session

import (
	"context"
	"crypto/rand"
	"sync/atomic"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/pkg/proxy"
)

// place is where a service stands in the registry: one registration, under the
// service's own name or under its isolated one, and the claim that names it.
type place struct {
	mode   string              // ModeShared or ModeIsolated
	reg    consul.Registration // as it began: the address may be another one by now
	hold   standing
	record lane.Claim
	far    *far         // the same as hold where a relay registers; else nil
	near   *consul.Hold // the same as hold where this session registers; else nil

	touched  atomic.Bool // something may stand in the registry
	stopBeat func()
	inherits bool // the instance of the claim's former holder bears our ID
	heir     bool // another session registers under our ID by now
}

// standing is a registration that is kept alive: by this session itself, in Consul,
// or by a relay.
type standing interface {
	Register(ctx context.Context) error
	Run(ctx context.Context) error
	State() (confirmed bool, err error)
	SetApp(ok bool, note string)
	Beat()
	Doubt()
	Drain(ctx context.Context) error
	Deregister(ctx context.Context) error
}

var _ standing = (*consul.Hold)(nil)

// newPlace makes a place; nothing is sent.
func (s *session) newPlace(v *service, mode string) (*place, error) {
	name, id := v.o.Name, consul.InstanceID(s.o.Lane, v.o.Name, s.o.Install)
	if mode == ModeIsolated {
		name, id = consul.IsolatedName(s.o.Lane, v.o.Name), consul.IsolatedID(s.o.Lane, v.o.Name, s.o.Install)
	}
	at := v.at()
	p := &place{mode: mode, reg: consul.Registration{
		ID: id, Name: name, Service: v.o.Name, Lane: s.o.Lane,
		Address: at.Addr().String(), Port: int(at.Port()), Owner: s.o.Owner, StartedAt: s.started.Format(timeForm), Session: s.mark,
		Env: s.o.Env, Tenant: s.o.Tenant, Zone: s.o.Zone, Version: s.o.Version,
	}}
	if err := p.reg.Validate(); err != nil {
		return nil, err
	}
	if s.link != nil {
		p.far = s.link.claim(s, v, p)
		p.hold = p.far
	} else {
		p.near = s.client.NewHold(p.reg, s.o.hold)
		p.hold = p.near
	}
	return p, nil
}

// prepare makes a service's guard and its first place; nothing is sent but the
// question for its policy.
func (s *session) prepare(ctx context.Context, v *service, t *proxy.Transport) error {
	p, err := s.newPlace(v, s.firstMode(ctx, v))
	if err != nil {
		return err
	}
	v.places, v.secret = []*place{p}, "/.lane/proof/"+rand.Text()
	here := s.o.here
	if here == nil {
		here = v.ownAddr
	}
	v.guard, err = proxy.NewGuard(t, proxy.GuardConfig{
		Lane: s.o.Lane, Service: v.o.Name, InstanceID: p.reg.ID, Local: v.o.Local, Advertised: v.at().String(),
		Probes: s.o.Probes, Reject: s.o.Reject || s.link != nil, Inner: s.link != nil, Drain: s.longestDrain(), Force: s.over, Strayed: v.strayed, Here: here, Proof: v.secret, Severed: s.severed(),
	})
	return err
}

// where is what stands in the registry: the name, the ID, the mode and the address.
func (p *place) where(guard string) (name, id, mode, addr string) {
	if p.far != nil {
		return p.far.where()
	}
	return p.reg.Name, p.reg.ID, p.mode, guard
}

// confirmed says whether the registry has shown the registration.
func (p *place) confirmed() bool {
	ok, _ := p.hold.State()
	return ok
}

// endBeat ends the beats and waits for their end.
func (p *place) endBeat() {
	if p.stopBeat != nil {
		p.stopBeat()
	}
}
