package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"lane/pkg/lane"
	"lane/pkg/relay/facts"
	"lane/tunnel"
)

// handle leads a stream of the relay's to the guard of what it claims. The stream
// has no say in where that is.
func (l *link) handle(ctx context.Context, c tunnel.Claim, _ tunnel.Header, st tunnel.Stream) {
	l.mu.Lock()
	f := l.far[c.ID]
	l.mu.Unlock()
	if f == nil {
		st.Abort(404, "no such claim here")
		return
	}
	var d net.Dialer
	dctx, cancel := context.WithTimeout(ctx, lookLimit)
	conn, err := d.DialContext(dctx, "tcp", f.v.at().String())
	cancel()
	if err != nil {
		st.Abort(502, "the guard takes no connection")
		return
	}
	defer conn.Close()
	caller := conn.LocalAddr().String()
	l.cuts.fresh(caller)
	_ = tunnel.JoinTelling(ctx, conn, st, func(why error) {
		if errors.Is(why, tunnel.ErrLost) || errors.Is(context.Cause(ctx), tunnel.ErrLost) {
			l.cuts.add(caller, l.s.o.Now())
		}
	})
}

// severed is how a guard asks whether a caller was cut off by the loss of the tunnel: nil,
// there is none.
func (s *session) severed() func(caller string, began time.Time) bool {
	if s.link == nil {
		return nil
	}
	return s.link.cuts.has
}

// via is how the engine connects to instances: nil, by the network.
func (s *session) via() func(context.Context, string) (net.Conn, error) {
	l := s.link
	if l == nil || !l.o.Outgoing {
		return nil
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		service, in := instanceAt(s.watcher.Catalog(), addr)
		if in == nil {
			return nil, fmt.Errorf("the registry does not show %s any more", addr)
		}
		out := tunnel.Out{Service: service, Facts: map[string]string{facts.Instance: in.ID}}
		if in.Registered != service {
			out.Lane = in.MetaLane
		}
		st, err := l.agent.DialOut(ctx, out)
		if err != nil {
			return nil, facts.Unconnected(err)
		}
		return facts.Linked(st), nil
	}
}

// relayAway is whether the tunnel is lost, by which the session's own services are asked
// otherwise; nil: there is none. The registry shows a relay that has died for a while.
func (s *session) relayAway() func() bool {
	if s.link == nil {
		return nil
	}
	return func() bool { return s.link.up() != nil }
}

// instanceAt is the instance that the catalog shows at an address.
func instanceAt(cat *lane.Catalog, addr string) (string, *lane.Instance) {
	name, ok := cat.ServiceAt(addr)
	if !ok {
		return "", nil
	}
	svc := cat.Service(name)
	for i := range svc.Instances {
		if svc.Instances[i].Addr == addr {
			return name, &svc.Instances[i]
		}
	}
	return "", nil
}
