// Package facts are the words that the two ends of a claim have for each other, a
// session and a relay, and what both take a broken tunnel for. It decides nothing and
// opens nothing.
package facts

import (
	"errors"
	"net"
	"net/http"

	"lane/pkg/proxy"
	"lane/tunnel"
)

// Facts of a claim: what a laptop says, and what it is answered.
const (
	Mode       = "mode"  // asked: shared, isolated or auto; answered: the first two
	Guard      = "guard" // bounce or reject
	Env        = "env"
	Tenant     = "tenant"
	Zone       = "zone"
	Version    = "version"
	Started    = "started"    // the laptop's own clock, as text
	Registered = "registered" // the name in the registry
	ID         = "id"         // the ID there
	Address    = "address"    // host:port there
	Relay      = "relay"      // who says this
	Datacenter = "datacenter" // of the registry in which it is registered, if that is known
	Announced  = "announced"  // the ID by which the relay itself is registered
	Holder     = "holder"     // whose claim it stands beside
	HolderHost = "holderhost" // and on which machine
	Note       = "note"       // what its user should know
	Instance   = "instance"   // of a call: the ID of the instance that is meant
)

// Auto is shared, until somebody who does not look at lanes calls.
const Auto = "auto"

// Reject is a guard that answers 421 in place of bouncing.
const Reject = "reject"

// Linked is a stream whose errors say so where the tunnel, and not the other end, is
// what failed.
func Linked(s tunnel.Stream) net.Conn { return &linked{s} }

type linked struct{ tunnel.Stream }

func (l *linked) Read(b []byte) (int, error) {
	n, err := l.Stream.Read(b)
	return n, Failure(err)
}

func (l *linked) Write(b []byte) (int, error) {
	n, err := l.Stream.Write(b)
	return n, Failure(err)
}

// Failure is an error as the engine knows it: a *proxy.LinkError where the tunnel
// failed.
func Failure(err error) error {
	switch {
	case errors.Is(err, tunnel.ErrBusy):
		return &proxy.LinkError{Err: err, Busy: true}
	case errors.Is(err, tunnel.ErrLost), errors.Is(err, tunnel.ErrUnknown):
		return &proxy.LinkError{Err: err}
	}
	return err
}

// Unconnected is Failure for a dial through a relay: what that says against it is a
// *proxy.FarError.
func Unconnected(err error) error {
	err = Failure(err)
	var link *proxy.LinkError
	var no *tunnel.Refusal
	if errors.As(err, &link) || !errors.As(err, &no) {
		return err
	}
	far := &proxy.FarError{Text: no.Text, Err: err}
	switch no.Code {
	case http.StatusForbidden:
		far.Hint = "nothing was sent; the relay leads nobody there. Without --via relay this machine connects to it itself"
	case http.StatusNotFound, http.StatusServiceUnavailable, http.StatusTooManyRequests:
		far.Hint = "nothing was sent; ask again"
	}
	return far
}
