package session

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"lane/pkg/ca"
	"lane/pkg/consul"
	"lane/pkg/control"
	"lane/pkg/guardian"
	"lane/pkg/lane"
	"lane/pkg/proxy"
	"lane/pkg/rules"
	"lane/pkg/traffic"
)

// Modes of registration.
const (
	ModeShared   = consul.ModeShared
	ModeIsolated = consul.ModeIsolated
	// ModeAuto is shared until somebody who does not look at lanes calls.
	ModeAuto = "auto"
)

// Service is a local process that serves a service in the lane.
type Service struct {
	Name string
	// Local are the addresses of the local process, host:port, in the order in
	// which they are dialled.
	Local []string
	// Health is a path of the local process that tells its health; empty: it is
	// healthy while its port accepts.
	Health string
}

// Options are the settings of one session.
type Options struct {
	Lane     lane.Name
	Services []Service
	Mode     string
	TakeOver bool // take claims from whoever holds them
	// Join puts a second instance beside the one of whoever holds a claim, where
	// that is another machine; the claim stays theirs.
	Join bool

	Owner, Host, Install string

	// Env, Tenant and Zone are both the instances' and the caller's: empty is
	// unset, and no constraint. Version is the instances'.
	Env, Tenant, Zone, Version string

	// Advertise is the address under which others reach this machine; the zero
	// value is the local address from which it reaches the registry.
	Advertise netip.Addr
	// Proxy is where the coloring proxy listens; unless ProxyFixed, the next
	// free port is taken when it is in use.
	Proxy      string
	ProxyFixed bool
	// ProxyFrom is what asked for that address, for messages: --proxy, lane.yaml:3.
	ProxyFrom string

	// Relay is how the session comes into an environment that cannot reach this
	// machine; nil: it registers by itself.
	Relay *Relay

	Registry consul.Config
	Policy   lane.Policy
	Carriers lane.Carriers
	Sticky   rules.Key         // where a request says who its user is
	Browsers proxy.Browsers    // what answers get for browsers
	Hosts    map[string]string // more names for a service
	Colored  []string          // hosts outside the registry that may see the tag
	Bodies   bool              // keep the beginnings of bodies, for looking at them
	Reject   bool              // the guard answers 421 in place of bouncing
	Probes   []string          // paths that the guard answers itself
	// Opens are the hosts and services whose TLS the coloring proxy opens, with
	// certificates of Authority; Roots verify the servers behind it, nil: the
	// system's.
	Opens     []string
	Authority *ca.Authority
	Roots     *x509.CertPool
	// Upstream is the user's own proxy, for external hosts.
	Upstream proxy.Upstream
	Drain    time.Duration // how long the end waits for requests under way
	ClaimTTL time.Duration // of the session behind the claims; 0 is 10 minutes

	// Command runs with the environment ChildEnv; empty: none.
	Command []string
	// Gate is the program that holds the command back until the guardian knows of it;
	// see child.Spec.
	Gate     []string
	ChildEnv func(control.Status) []string
	In       io.Reader
	Out, Err io.Writer

	// Outgoing tells the connections that the processes of a group have made, and their
	// names, to find a command that bypasses the proxy; nil: nobody looks.
	Outgoing func(group int) (to []netip.AddrPort, names []string)

	// Guardian starts the process that cleans up if this one is killed; nil:
	// none.
	Guardian func() (*guardian.Guardian, error)

	Remarks    []string          // on how it was set up, for its warnings
	Settings   map[string]string // by which its proxy decides, for its status
	RuntimeDir string
	LogPath    string // of a session that begins detached, shown in its status
	Log        *slog.Logger
	Now        func() time.Time

	// Force, when closed, ends the waiting of an end under way.
	Force <-chan struct{}
	// View shows the session while it runs; when it returns, the session ends, unless it
	// has detached it.
	View func(ctx context.Context, v View) error
	// Ready is called once, when everything is routable.
	Ready func(control.Status)
	// Ended, if set, is called once, at the end, with what has asked for it: ErrStopped, an
	// *InterruptedError, or else nothing that anybody need be told.
	Ended func(cause error)
	// At is called before each step of the start; tests interrupt there.
	At func(step string)

	bypass time.Duration // between two judgements of the command's connections; 0 is bypassAfter

	step time.Duration // bounds each step; 0 is stepLimit
	hold consul.HoldOptions
	here func(netip.Addr) bool // what the guards take for this machine
	// detect tells this machine's address; nil: the one from which it reaches the
	// registry. address is between two looks at it; 0 is lookAtAddress.
	detect  func(context.Context) (netip.Addr, error)
	address time.Duration
	link    time.Duration // bounds what waits for the relay; 0 is linkLimit
	pass    time.Duration // bounds the wait for the instance to pass; 0 is passLimit
	tick    time.Duration // between two looks at what others do; 0 is lookAround
}

// View is a session as its viewer sees it.
type View interface {
	Status(ctx context.Context) (control.Status, error)
	// Next returns the exchanges newer than after, waiting for the first one,
	// and how many of them are lost for good.
	Next(ctx context.Context, after uint64) ([]traffic.Exchange, uint64, error)
	// Batch is the same for a screen, as traffic's Log.Batch is: of more than most, the
	// newest, and the figures of the rest.
	Batch(ctx context.Context, after uint64, most int) (traffic.Batch, error)
	// Whole is one exchange, with its bodies and its secrets, if it is still kept.
	Whole(ctx context.Context, seq uint64) (traffic.Exchange, error)
	// Messages are those of one exchange's gRPC bodies.
	Messages(ctx context.Context, seq uint64) (traffic.Messages, error)
	// Reconnect has the session try again at once what it waits to try again.
	Reconnect(ctx context.Context) error
	// Detach has the session go on when its viewer returns without an error, with its log
	// at this path. It reports whether it does: only one that is up can be left alone.
	Detach(log string) bool
}

// BusyError says that this machine's own running session serves a service already.
type BusyError struct {
	Lane    lane.Name
	Service string
	PID     int
	Joined  bool // it stands beside another's claim
}

func (e *BusyError) Error() string {
	how := "is held by"
	if e.Joined {
		how = "has been joined by"
	}
	return fmt.Sprintf("%s in lane %s %s another session on this machine (process %d)", e.Service, e.Lane, how, e.PID)
}

// UnreachableError says that the guard cannot be reached at the address that
// would be registered.
type UnreachableError struct {
	Addr string
	Err  error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the advertised address %s does not lead to this machine: %v", e.Addr, e.Err)
}
func (e *UnreachableError) Unwrap() error { return e.Err }

// NotOursError says that the address that is to be advertised is none of this machine's.
type NotOursError struct {
	Addr netip.Addr
	Ours []netip.Addr
}

func (e *NotOursError) Error() string {
	all := make([]string, len(e.Ours))
	for i, a := range e.Ours {
		all[i] = a.String()
	}
	return fmt.Sprintf("advertise (--advertise) is %s, which is none of this machine's addresses: %s", e.Addr, strings.Join(all, ", "))
}

// PortError says that a listener could not be opened.
type PortError struct {
	What, Addr string
	From       string // the flag, or what else says so; empty: nothing has
	Err        error
}

func (e *PortError) Error() string {
	from := ""
	if e.From != "" {
		from = " (" + e.From + ")"
	}
	return fmt.Sprintf("%s cannot listen on %s%s: %v", e.What, e.Addr, from, e.Err)
}
func (e *PortError) Unwrap() error { return e.Err }

// ClaimsLeftError says that the claims of a lane may still stand.
type ClaimsLeftError struct {
	Lane   lane.Name
	Within time.Duration // the registry's own removal, at most
	Err    error
}

func (e *ClaimsLeftError) Error() string {
	return fmt.Sprintf("the claims of lane %s may still stand; Consul removes them by itself within %s: %v", e.Lane, e.Within, e.Err)
}
func (e *ClaimsLeftError) Unwrap() error { return e.Err }

// LeftBehindError says what a session could not clean up at its end.
type LeftBehindError struct {
	What []error
}

func (e *LeftBehindError) Error() string {
	msg := "not everything could be removed from the registry:"
	for _, w := range e.What {
		msg += "\n  " + w.Error()
	}
	return msg
}
func (e *LeftBehindError) Unwrap() []error { return e.What }
