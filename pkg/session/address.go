package session

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// lookAtAddress is between two looks at this machine's address.
	lookAtAddress = time.Second
	// lingers is how long a guard listens at its former address too: every router has
	// to hear of the new one.
	lingers = 3 * time.Second
)

// detect is this machine's address as the environment sees it.
func (s *session) detect(ctx context.Context) (netip.Addr, error) {
	if s.o.detect != nil {
		return s.o.detect(ctx)
	}
	return s.client.LocalIP(ctx)
}

// glance is what detect would say, as far as that can be told for nothing.
func (s *session) glance(ctx context.Context) (netip.Addr, error) {
	if s.o.detect != nil {
		return s.o.detect(ctx)
	}
	return s.client.RouteIP(ctx)
}

// moves tells a new address from a look at it now and then.
type moves struct{ known, seen netip.Addr }

// take takes a look, and says whether it is a new address. None, as in the moment
// between two networks, is no news; and what is seen once may be that moment's.
func (m *moves) take(ip netip.Addr, err error) bool {
	switch {
	case err != nil, ip == m.known:
		m.seen = netip.Addr{}
		return false
	case ip != m.seen:
		m.seen = ip
		return false
	}
	return true
}

// watchAddress has the services stand at this machine's new address when it has another
// one, as with a VPN that comes or goes. An address that the user has given stays, and
// so does one at which a relay's agent alone calls.
func (s *session) watchAddress(ctx context.Context) error {
	if s.o.Advertise.IsValid() || s.link != nil {
		return nil
	}
	every := s.o.address
	if every == 0 {
		every = lookAtAddress
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	m, said := moves{known: s.glanced}, ""
	from := s.services[0].at().Addr()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		ip, err := s.glance(ctx)
		if !m.take(ip, err) {
			continue
		}
		var to netip.Addr // the one by which a connection was made is the one that counts
		if err := s.within(ctx, func(ctx context.Context) (err error) {
			to, err = s.detect(ctx)
			return err
		}); err != nil {
			continue
		}
		switch err := s.readdress(ctx, to); {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			if said != err.Error() {
				said = err.Error()
				s.o.Log.Warn("this machine's address has changed, and it is not registered there yet", "from", from, "to", to, "error", err)
			}
			continue
		}
		m, said = moves{known: ip}, ""
		if from != to {
			s.event("address changed %s -> %s, registered again", from, to)
			s.o.Log.Warn("this machine's address has changed: registered again", "from", from, "to", to)
		}
		from = to
		select {
		case <-time.After(lingers):
		case <-ctx.Done():
			return nil
		}
		for _, v := range s.services {
			v.turn.Lock()
			v.door.shut(v.ln)
			v.turn.Unlock()
		}
	}
}

// readdress has every service stand at an address. It may be called again after an
// error.
func (s *session) readdress(ctx context.Context, ip netip.Addr) error {
	var all errgroup.Group
	for _, v := range s.services {
		all.Go(func() error { return s.readdressOne(ctx, v, ip) })
	}
	return all.Wait()
}

// readdressOne has a service stand at an address. In this order no request is lost that
// the network still carries: the guard listens at both, and then callers are told of the
// new one.
func (s *session) readdressOne(ctx context.Context, v *service, ip netip.Addr) error {
	v.turn.Lock()
	defer v.turn.Unlock()
	if old := v.at(); old.Addr() != ip {
		ln, at, err := listenLike(ctx, ip, old.Port())
		if err != nil {
			return &PortError{What: "the guard of " + v.o.Name, Addr: ip.String(), Err: err}
		}
		v.door.open(ln)
		v.astray, v.ln = true, ln
		v.moveTo(at)
		v.guard.Readdressed(at.String())
	}
	if !v.astray {
		return nil
	}
	if err := v.prove(ctx); err != nil {
		return err
	}
	at := v.at()
	for _, p := range v.all() {
		if err := s.surely(ctx, func(ctx context.Context) error {
			return p.near.Readdress(ctx, at.Addr().String(), int(at.Port()))
		}); err != nil {
			return err
		}
	}
	v.astray = false
	return nil
}

// listenLike opens a listener on an address, on the same port as before if that is free.
func listenLike(ctx context.Context, ip netip.Addr, port uint16) (ln net.Listener, at netip.AddrPort, err error) {
	var lc net.ListenConfig
	for _, p := range []uint16{port, 0} {
		if ln, err = lc.Listen(ctx, "tcp", netip.AddrPortFrom(ip, p).String()); err == nil {
			break
		}
	}
	if err != nil {
		return nil, at, err
	}
	got, err := netip.ParseAddrPort(ln.Addr().String())
	if err != nil {
		return nil, at, errors.Join(err, ln.Close())
	}
	return ln, netip.AddrPortFrom(got.Addr().Unmap(), got.Port()), nil
}

// ownAddr says that a caller's address is this machine's: it is no stranger.
func (v *service) ownAddr(a netip.Addr) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return a.IsLoopback() || a == v.addr.Addr() || a == v.former
}

// at is where the guard listens for callers.
func (v *service) at() netip.AddrPort {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.addr
}

func (v *service) moveTo(at netip.AddrPort) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.former, v.addr = v.addr.Addr(), at
}
