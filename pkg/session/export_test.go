package session

import (
	"context"
	"net/netip"
	"time"

	"lane/pkg/consul"
)

// Quicken returns o with short times: a step's limit, 0 for the usual one, and
// those of the beats.
func Quicken(o Options, step time.Duration, hold consul.HoldOptions) Options {
	o.step, o.hold = step, hold
	return o
}

// Strangers returns o with guards that take every caller for one on another
// machine: tests stay on this one.
func Strangers(o Options) Options {
	o.here = func(netip.Addr) bool { return false }
	return o
}

// Impatient returns o with so long a wait for the relay.
func Impatient(o Options, link time.Duration) Options {
	o.link = link
	return o
}

// Passing returns o with so long a wait for the instance to pass.
func Passing(o Options, limit time.Duration) Options {
	o.pass = limit
	return o
}

// LookForBypass has a command's connections looked at that often.
func LookForBypass(o Options, every time.Duration) Options {
	o.bypass = every
	return o
}

// Moving returns o for a machine whose address f tells, looked at that often.
func Moving(o Options, every time.Duration, f func(context.Context) (netip.Addr, error)) Options {
	o.Advertise, o.address, o.detect = netip.Addr{}, every, f
	return o
}

// Moves is how a new address is told from a moment's.
type Moves struct{ moves }

func NewMoves(known netip.Addr) *Moves { return &Moves{moves{known: known}} }

func (m *Moves) Take(ip netip.Addr, err error) bool { return m.take(ip, err) }
