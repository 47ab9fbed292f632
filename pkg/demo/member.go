package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"sync"

	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/session"
)

// View is a session as its viewer sees it.
type View = session.View

// member is one developer: a local process and a session that puts it into a
// lane.
type member struct {
	w       *World
	lane    lane.Name
	owner   string
	service string
	local   *process

	ready  chan struct{} // closed when the lane is routable
	gone   chan struct{} // closed when the session has ended
	leave  func()        // ends the session
	status control.Status
	view   View
	proxy  *url.URL
	caller *caller // through the session's proxy
}

func newMember(w *World, l lane.Name, owner, name, says string) *member {
	m := &member{w: w, lane: l, owner: owner, service: name, ready: make(chan struct{}), gone: make(chan struct{})}
	var calls []string
	for _, s := range shopOrder {
		if s.name == name {
			calls = s.calls
		}
	}
	// The local process calls out as any process under `lane run` does.
	m.local = &process{service: &service{name: name, by: string(l), says: says, calls: calls, instance: consul.InstanceID(l, name, m.install()),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: func(*http.Request) (*url.URL, error) {
			select {
			case <-m.ready:
				return m.proxy, nil
			default:
				return nil, errors.New("the session's proxy is not there yet")
			}
		}}}}}
	return m
}

func (m *member) install() string { return "demo-" + m.owner }

// run runs the local process and the session until ctx ends or leave is called.
func (m *member) run(ctx context.Context) error {
	defer close(m.gone)
	if err := m.local.start(); err != nil {
		return err
	}
	life, leave := context.WithCancelCause(ctx)
	m.leave = func() { leave(session.ErrStopped) }
	defer m.leave()
	viewed := make(chan struct{})
	o, err := m.options()
	if err != nil {
		return errors.Join(err, m.local.stop())
	}
	o.View = func(ctx context.Context, v session.View) error {
		m.view = v
		close(viewed)
		<-ctx.Done()
		return nil
	}
	o.Ready = func(st control.Status) {
		<-viewed
		m.status = st
		if m.proxy, err = url.Parse(st.Proxy); err != nil {
			leave(err)
			return
		}
		m.caller = newCaller(&m.w.asked, m.proxy)
		close(m.ready)
	}
	err = session.Run(life, o)
	if m.caller != nil {
		m.caller.close()
	}
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = nil // it was to end
	}
	return errors.Join(err, m.local.stop())
}

func (m *member) options() (session.Options, error) {
	policy := lane.DefaultPolicy()
	policy.InvalidTag = lane.InvalidReject // as `lane up` has it: a developer wants to see a mistake
	dir := filepath.Join(m.w.dir, m.owner) // a process's socket is named by its number alone
	return session.Options{
		Lane: m.lane, Mode: session.ModeShared, Owner: m.owner, Host: m.owner + "-laptop", Bodies: true, Install: m.install(),
		Services:  []session.Service{{Name: m.service, Local: []string{m.local.addr}}},
		Advertise: netip.AddrFrom4([4]byte{127, 0, 0, 1}), Proxy: "127.0.0.1:0", ProxyFixed: true,
		Registry: m.w.registry(), Policy: policy, Carriers: lane.DefaultCarriers(),
		Drain: goodbye, RuntimeDir: dir, Log: m.w.log, Now: m.w.o.Now,
	}, mkdir(dir)
}

// await waits until the lane is routable and every gateway and sidecar knows it.
func (m *member) await(ctx context.Context) error {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := until(ctx, startLimit, fmt.Sprintf("the routers know %s of %s", m.service, m.lane), func() bool {
		return m.w.known(m.service, func(s *lane.Service) bool { return m.healthy(s) && slices.Contains(s.Declared, m.lane) })
	}); err != nil {
		return err
	}
	return m.hears(ctx, lane.KindLaneMatch)
}

func (m *member) healthy(s *lane.Service) bool {
	return slices.ContainsFunc(s.Instances, func(in lane.Instance) bool { return in.MetaLane == string(m.lane) && in.Health == lane.Passing })
}

// forgotten says whether they see neither the instance nor the claim any more: the
// two ends come by two watches.
func (m *member) forgotten() bool {
	return m.w.known(m.service, func(s *lane.Service) bool { return !m.healthy(s) && !slices.Contains(s.Declared, m.lane) })
}

// end ends the session, and waits until it has left the registry and every
// gateway and sidecar has noticed.
func (m *member) end(ctx context.Context) error {
	m.leave()
	select {
	case <-m.gone:
	case <-ctx.Done():
		return ctx.Err()
	}
	return until(ctx, startLimit, fmt.Sprintf("the routers have forgotten %s of %s", m.service, m.lane), m.forgotten)
}

// process is a local process that can be stopped, and started again at the same
// address.
type process struct {
	*service

	mu  sync.Mutex
	end func() error // nil while it is stopped
}

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil {
		return nil
	}
	addr := p.addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln, err := listenAt(addr)
	if err != nil {
		return err
	}
	p.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, ln, p.service) }()
	p.end = func() error {
		cancel()
		return <-ended
	}
	return nil
}

func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil {
		return nil
	}
	err := p.end()
	p.end = nil
	return err
}
