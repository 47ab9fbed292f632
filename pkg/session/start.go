package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"lane/pkg/child"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/lane"
	"lane/pkg/proxy"

	"golang.org/x/sync/errgroup"
)

// start brings everything up: listen, prove the way in, claim, register, run
// the command. When it fails, tearDown removes what there is.
func (s *session) start(ctx, life context.Context, parts *parts) error {
	if err := s.at(ctx, "registry"); err != nil {
		return err
	}
	if err := s.within(ctx, s.client.Ping); err != nil {
		return err
	}
	router, err := lane.NewRouter(s.o.Policy)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.watcher = consul.NewWatcher(s.client, consul.WatchOptions{Now: s.o.Now, Log: s.o.Log})
	s.mu.Unlock()
	parts.run(life, s.watcher.Run)
	parts.run(life, func(ctx context.Context) error { return s.watchConsulToken(ctx, consulTokenLook) })

	if err := s.at(ctx, "listen"); err != nil {
		return err
	}
	front, err := s.listenProxy()
	if err != nil {
		return err
	}
	if s.o.Relay != nil {
		if err := s.prepareLink(); err != nil {
			return errors.Join(err, front.Close())
		}
	}
	transport, err := s.transport(ctx, router)
	if err != nil {
		return errors.Join(err, front.Close())
	}
	s.mu.Lock()
	s.engine = transport
	s.mu.Unlock()
	if s.forward, err = s.forwardFor(transport); err != nil {
		return errors.Join(err, front.Close())
	}
	s.endFronts = append(s.endFronts, parts.until(life, func(ctx context.Context) error { return s.forward.Serve(ctx, front) }))
	if err := s.listenGuards(ctx, life, parts, transport); err != nil {
		return err
	}
	if err := s.at(ctx, "prove"); err != nil {
		return err
	}
	for _, v := range s.services {
		if err := v.prove(ctx); err != nil {
			return err
		}
	}
	if err := s.post(ctx, life, parts); err != nil {
		return err
	}
	if err := s.relayedTwin(ctx); err != nil {
		return err
	}
	if err := s.connect(ctx, life, parts); err != nil {
		return err
	}
	if err := s.claim(ctx, life, parts); err != nil {
		return err
	}
	if err := s.register(ctx, life, parts); err != nil {
		return err
	}
	if err := s.at(ctx, "command"); err != nil {
		return err
	}
	if err := s.runCommand(ctx); err != nil {
		return err
	}
	if s.child != nil && s.o.Outgoing != nil {
		parts.run(life, s.watchBypass)
	}
	s.setState(control.SessionUp)
	if s.o.Ready != nil {
		s.o.Ready(s.Status(ctx))
	}
	return nil
}

func (s *session) within(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.step)
	defer cancel()
	return f(ctx)
}

// surely is within for a write: an interruption must not cut it off, because
// nobody would know then whether it was made, and what to remove.
func (s *session) surely(ctx context.Context, f func(context.Context) error) error {
	return s.within(context.WithoutCancel(ctx), f)
}

// listenProxy opens the coloring proxy's listener: on the address that was
// asked for, or on the next free port.
func (s *session) listenProxy() (net.Listener, error) {
	host, port, err := net.SplitHostPort(s.o.Proxy)
	if err != nil {
		return nil, &PortError{What: "the coloring proxy", Addr: s.o.Proxy, From: s.o.ProxyFrom, Err: err}
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, &PortError{What: "the coloring proxy", Addr: s.o.Proxy, From: s.o.ProxyFrom, Err: err}
	}
	const tries = 100
	for i := 0; ; i++ {
		ln, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n)))
		if err == nil {
			s.mu.Lock()
			s.proxyURL = "http://" + ln.Addr().String()
			s.mu.Unlock()
			return ln, nil
		}
		if n == 0 || s.o.ProxyFixed || i == tries || !inUse(err) {
			return nil, &PortError{What: "the coloring proxy", Addr: s.o.Proxy, From: s.o.ProxyFrom, Err: err}
		}
		n++
	}
}

// listenGuards opens a guard for each service on the advertised address.
func (s *session) listenGuards(ctx, life context.Context, parts *parts, t *proxy.Transport) error {
	if len(s.o.Services) == 0 {
		return nil
	}
	ip := s.o.Advertise
	if s.link != nil {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1}) // the tunnel alone leads here
	}
	if !ip.IsValid() {
		err := s.within(ctx, func(ctx context.Context) (err error) {
			// Before: what changes in between is seen by the next look. Without a route
			// there is nothing to compare with, and the next look asks.
			s.glanced, _ = s.glance(ctx)
			ip, err = s.detect(ctx)
			return err
		})
		if err != nil {
			return fmt.Errorf("find this machine's address: %w", err)
		}
	}
	for _, o := range s.o.Services {
		v := newService(o, s.o.Log, s.o.Now())
		ln, err := net.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
		if err != nil {
			if others, e := ownAddresses(); e == nil && s.o.Advertise.IsValid() && s.link == nil && !slices.Contains(others, ip) {
				return &NotOursError{Addr: ip, Ours: others}
			}
			return &PortError{What: "the guard of " + o.Name, Addr: ip.String(), Err: err}
		}
		addr, err := netip.ParseAddrPort(ln.Addr().String())
		if err != nil {
			return errors.Join(err, ln.Close())
		}
		v.moveTo(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
		if err := s.prepare(ctx, v, t); err != nil {
			return errors.Join(err, ln.Close())
		}
		s.mu.Lock()
		s.services = append(s.services, v)
		s.mu.Unlock()
		v.door, v.ln = newDoor(ln), ln
		s.endFronts = append(s.endFronts, parts.until(life, func(ctx context.Context) error { return v.guard.Serve(ctx, v.door) }))
	}
	return nil
}

// ownAddresses are the addresses of this machine's interfaces.
func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("this machine's addresses: %w", err)
	}
	var out []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, nil
}

// register puts every service into the registry, all at once, and keeps it
// there.
func (s *session) register(ctx, life context.Context, parts *parts) error {
	if err := s.at(ctx, "register"); err != nil {
		return err
	}
	var all errgroup.Group
	for _, v := range s.services {
		all.Go(func() error {
			if v.probe(ctx); ctx.Err() != nil {
				return ctx.Err()
			}
			p := v.place()
			p.touched.Store(true) // from here on there may be something to remove
			return s.enroll(ctx, p)
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, v := range s.services {
		p := v.place()
		p.stopBeat = parts.until(life, p.hold.Run)
		follow := []func(context.Context) error{v.follow}
		if s.link != nil {
			// Who calls without looking at lanes is seen by the relay.
		} else if _, ok := v.joined(); ok {
			follow = append(follow, s.beside(life, parts, v))
		} else {
			follow = append(follow, s.watchStrays(life, parts, v), s.watchPolicy(v))
		}
		v.stop = parts.until(life, follow...)
	}
	if len(s.services) > 0 && s.link == nil {
		s.endWrites = parts.until(life, s.active, s.watchAddress)
	}
	if err := s.warmUp(ctx); err != nil {
		return err
	}
	s.firstProof(ctx)
	parts.run(life, s.keepProving)
	parts.run(life, s.watchSleep)
	parts.run(life, s.keepWatched)
	return nil
}

// enroll puts a place into the registry. The guardian of a session that has just died
// may remove the same ID in that moment: then it is done once more.
func (s *session) enroll(ctx context.Context, p *place) error {
	err := s.surely(ctx, p.hold.Register)
	if err != nil && ctx.Err() == nil && p.near != nil && p.near.Displaced(ctx, err) {
		s.o.Log.Info("what a session before this one had left was removed in the same moment: registered once more", "error", err)
		err = s.surely(ctx, p.hold.Register)
	}
	return err
}

// keepWatched has the session's own services watched for as long as it serves them: what
// is not the lane's goes to their baseline, also while the registry cannot be asked, and
// after an hour in which nobody has asked.
func (s *session) keepWatched(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	over, cancel := context.WithCancel(ctx)
	cancel() // nothing is waited for
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		for _, v := range s.services {
			_ = s.watcher.Need(over, v.o.Name)
		}
	}
}

// warmUp has the first answer for the session's own services in before anybody
// asks.
func (s *session) warmUp(ctx context.Context) error {
	for _, v := range s.services {
		if err := s.within(ctx, func(c context.Context) error { return s.watcher.Need(c, v.o.Name) }); err != nil {
			return fmt.Errorf("watch %s: %w", v.o.Name, err)
		}
	}
	s.learnMeant(ctx)
	return nil
}

func (s *session) runCommand(ctx context.Context) error {
	if len(s.o.Command) == 0 {
		return nil
	}
	c, err := child.Start(child.Spec{Args: s.o.Command, Env: s.o.ChildEnv(s.Status(ctx)), In: s.o.In, Out: s.o.Out, Err: s.o.Err,
		Gate: s.o.Gate, Grace: 5 * time.Second})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.child = c
	s.mu.Unlock()
	if err := s.tell(); err != nil {
		return err
	}
	return c.Go() // not before: killed in between, nobody would end it
}
