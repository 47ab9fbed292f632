package tunnel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/time/rate"
)

// Identity is who has connected.
type Identity struct {
	Subject string    // whose limits count
	TokenID string    // what a revocation names
	Shown   string    // what that is, in a word; empty: a token
	Expires time.Time // the link is closed then; zero: never
	Private any       // the Authority's own
}

// Credentials are what somebody who connects shows.
type Credentials struct {
	Token  string            // of "Authorization: Bearer", "" without one
	Peer   *x509.Certificate // the client's, verified as RelayConfig.TLS asks, or nil
	Remote net.Addr
	Renews string // the subject whose tunnel is to go on with this token; "": a new tunnel
}

// Holder is who holds a claim. The same Agent is the same program, the same
// Install the same user of the same machine.
type Holder struct {
	Identity
	Agent, Install string
	Host           string // as it calls itself, for people
	Generation     uint64 // grows with each link of an agent and with each later agent of an install
}

// Authority decides who may come in, and is told what becomes of claims. For one
// claim, Up, State, Lost and Gone are called one after the other by a goroutine
// that carries no data, so they may take their time; ctx ends after ten seconds.
type Authority interface {
	// Authenticate returns who shows these credentials, or a *Refusal with 401 or
	// 403. Any other error is a 503, and tried again.
	Authenticate(ctx context.Context, c Credentials) (Identity, error)

	// Up registers a claim; Dial works from when it is called. The agent gets the
	// facts, or the *Refusal. Up is called again with a higher generation after a
	// reconnect, with another holder after a take-over, with another token when that
	// was renewed, and when the agent claims the same with other facts. Another
	// install's or user's claim on this relay has been refused already. With c.End
	// nothing is to be registered, but what is left of the claim given up; nothing of it
	// stands at this relay in the name of an agent any more.
	Up(ctx context.Context, h Holder, c Claim) (facts map[string]string, err error)

	// State is what the agent says about its process.
	State(ctx context.Context, h Holder, c Claim, s State)

	// Lost says that the link is gone. Up follows within 30 s, or Gone.
	Lost(ctx context.Context, h Holder, c Claim)

	// Gone ends a claim whose Up was called without an error. It has returned before the
	// agent hears that it has released the claim, before a revoked link is closed,
	// and before Serve returns.
	Gone(ctx context.Context, h Holder, c Claim, why Reason)

	// Out dials an instance of a service for an agent, or returns a *Refusal. It
	// is the only way from an agent to a connection that the relay dials.
	Out(ctx context.Context, h Holder, o Out) (net.Conn, error)
}

// Reason is why a claim is gone.
type Reason string

// The reasons.
const (
	Released  Reason = "released"
	Expired   Reason = "expired" // 30 s without a link
	Revoked   Reason = "revoked"
	Stopping  Reason = "stopping" // the relay ends
	TakenOver Reason = "taken over"
)

// RelayConfig is what a Relay is made from.
type RelayConfig struct {
	TLS       *tls.Config
	Authority Authority
	Limits    Limits
	// Limited, if not nil, is told each time that a limit holds somebody up or turns
	// him away. It must not block.
	Limited func(h Holder, what Limit)
	// Admitted, if not nil, is told of each link that is made, and of each new token that
	// one goes on with. It must not block.
	Admitted func(h Holder, remote net.Addr, renewed bool)
	// Denied, if not nil, is told of what the relay itself refuses, after the Authority
	// has let the token in: a link or a new token, or a claim. It returns the id by which
	// it has written that down, which whoever asked is told; empty: it has not. It must
	// not block.
	Denied func(h Holder, remote net.Addr, c *Claim, no *Refusal) (request string)
	// Unproven, if not nil, is told of who shows no client certificate that TLS takes. It
	// must not block.
	Unproven func(remote net.Addr, no *Refusal)
	// Facts, if not nil, are what each agent is told of the relay as its link stands. It
	// must not block.
	Facts func() map[string]string
	// Force, when closed, ends the wait for streams at the end; nil: never.
	Force <-chan struct{}
	Path  string       // where tunnels come, default /tunnel/v1
	Other http.Handler // all other paths; nil: 404
	Log   *slog.Logger // nil: none. It never has a token or a body
}

// Relay is the tunnel's end in the shared environment.
type Relay struct {
	conf   RelayConfig
	timing timing
	log    *slog.Logger
	gate   *gate
	ledger *ledger
	knocks *rate.Limiter // of words about those who were not let in

	mu     sync.Mutex
	links  map[string]*link // by agent: the newest
	all    map[*link]bool   // with those that drain or wait for their second connection
	claims map[key]*claim
	wg     sync.WaitGroup // links and claims
	ends   bool           // Serve is about to return: no more links
}

// key is what one agent at a time holds: a service in a lane, or the place beside its
// holder that each install may have.
type key struct{ lane, service, beside string }

// keyOf is what a claim of a holder is about.
func keyOf(h Holder, c Claim) key {
	k := key{lane: c.Lane, service: c.Service}
	if c.Join {
		k.beside = h.Install
	}
	return k
}

// NewRelay checks c. Nothing runs before Serve.
func NewRelay(c RelayConfig) (*Relay, error) { return newRelay(c, defaults) }

func newRelay(c RelayConfig, t timing) (*Relay, error) {
	switch {
	case c.TLS == nil || len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil:
		return nil, errors.New("tunnel: a relay needs a certificate")
	case c.Authority == nil:
		return nil, errors.New("tunnel: a relay needs an authority")
	}
	c.Limits = c.Limits.withDefaults()
	c.Path = cmp.Or(c.Path, "/tunnel/v1")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Other == nil {
		c.Other = http.NotFoundHandler()
	}
	c.TLS = c.TLS.Clone()
	c.TLS.MinVersion = max(c.TLS.MinVersion, tls.VersionTLS12)
	c.TLS.NextProtos = []string{"http/1.1"} // what can be upgraded
	return &Relay{
		conf: c, timing: t, log: c.Log, gate: newGate(c.Limits.HalfOpen), ledger: newLedger(c.Limits), knocks: rate.NewLimiter(1, 60),
		links: map[string]*link{}, all: map[*link]bool{}, claims: map[key]*claim{},
	}, nil
}

// Fingerprint is what names a certificate: "sha256:" and the hex digest of its DER
// bytes.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Serve takes tunnels on l until ctx ends. Then it takes no more, gives all claims
// up, sends the agents away, lets the streams end for 10 s, and closes everything.
// It is called once.
func (r *Relay) Serve(ctx context.Context, l net.Listener) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           r,
		TLSConfig:         r.conf.TLS.Clone(),                                       // the server writes into it
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2: it has no upgrade
		ReadHeaderTimeout: r.timing.handshake,
		ReadTimeout:       r.timing.handshake,
		WriteTimeout:      r.timing.handshake,
		MaxHeaderBytes:    maxUpgrade,
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnState:         r.unproven,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	server.SetKeepAlivesEnabled(false)
	failed := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { failed <- server.ServeTLS(r.gate.listen(l), "", "") })
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	_ = l.Close()
	r.stop()
	cancel()
	_ = server.Close()
	wg.Wait()
	r.wg.Wait()
	return err
}

// unproven hears of each connection, and tells of who has ended for its client
// certificate: TLS has refused that, and no request was read.
func (r *Relay) unproven(c net.Conn, state http.ConnState) {
	t, ok := c.(*tls.Conn)
	if !ok || state != http.StateClosed || r.conf.Unproven == nil || r.conf.TLS.ClientAuth == tls.NoClientCert || t.ConnectionState().HandshakeComplete {
		return
	}
	err := t.HandshakeContext(context.Background()) // it is closed: this is what its handshake has ended with
	var bad *tls.CertificateVerificationError
	switch {
	case errors.As(err, &bad) && len(bad.UnverifiedCertificates) > 0:
		r.conf.Unproven(c.RemoteAddr(), refuse(401, "the client certificate of %s is not taken: %v", clip(fmt.Sprintf("%q", bad.UnverifiedCertificates[0].Subject.CommonName), maxName), bad.Err))
	case err != nil && err.Error() == "tls: client didn't provide a certificate": // it has no type
		r.conf.Unproven(c.RemoteAddr(), refuse(401, "there is no client certificate"))
	}
}

// maxUpgrade bounds an upgrade's head, in bytes.
const maxUpgrade = 64 << 10

type connKey struct{}

// hello is what an agent says of itself, in one field of the upgrade.
type hello struct {
	Version    int    `json:"v"`
	Part       string `json:"part"` // control, then bulk
	Agent      string `json:"agent"`
	Install    string `json:"install"`
	Host       string `json:"host"`
	Generation uint64 `json:"generation"`
}

const (
	helloField  = "X-Lane-Tunnel"
	partControl = "control"
	partBulk    = "bulk"
)

func (h *hello) check() error {
	switch {
	case h.Version != version:
		return fmt.Errorf("%s of version %d, this relay speaks %d", helloField, h.Version, version)
	case h.Part != partControl && h.Part != partBulk:
		return fmt.Errorf("%s: %q is no part of a link", helloField, h.Part)
	case !name(h.Agent) || !name(h.Install):
		return fmt.Errorf("%s: no agent or no install", helloField)
	case !text(h.Host, maxName):
		return fmt.Errorf("%s: %q is no host name", helloField, h.Host)
	}
	return nil
}

// ServeHTTP upgrades an agent's connection. The server that calls it is Serve's.
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.URL.Path != r.conf.Path {
		r.conf.Other.ServeHTTP(w, req)
		return
	}
	if err := r.upgrade(w, req); err != nil {
		no := asRefusal(err, 503)
		level := slog.LevelWarn
		if !r.knocks.Allow() { // anybody can knock, and a disk is not endless
			level = slog.LevelDebug
		}
		r.log.Log(req.Context(), level, "tunnel refused", "remote", req.RemoteAddr, "status", no.Code, "text", no.Text, "request", no.Request)
		if no.Request != "" {
			w.Header().Set(requestField, no.Request)
		}
		http.Error(w, clip(no.Text, 900), no.Code)
	}
}

func (r *Relay) upgrade(w http.ResponseWriter, req *http.Request) error {
	// A page in a browser must not reach a relay with what the browser knows, not
	// even one of the same name.
	if len(req.Header["Origin"]) > 0 {
		return refuse(403, "a tunnel does not come from a browser: the upgrade has an Origin")
	}
	conn, err := r.gate.of(req)
	if err != nil {
		return err
	}
	if req.Header.Get(helloField) == "" { // a browser, or curl
		return refuse(400, "a tunnel needs a WebSocket upgrade, as `lane up --relay` makes it")
	}
	var hi hello
	if err := strict([]byte(req.Header.Get(helloField)), &hi); err != nil {
		return refuse(400, "%s: %v", helloField, err)
	}
	if err := hi.check(); err != nil {
		return refuse(400, "%v", err)
	}
	cred := Credentials{Remote: conn.RemoteAddr()}
	if scheme, token, _ := strings.Cut(req.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		cred.Token = token
	}
	if req.TLS != nil && len(req.TLS.VerifiedChains) > 0 {
		cred.Peer = req.TLS.PeerCertificates[0]
	}
	ctx, cancel := context.WithTimeout(req.Context(), r.timing.call)
	defer cancel()
	id, err := r.conf.Authority.Authenticate(ctx, cred)
	if err != nil {
		return err
	}
	h := Holder{Identity: id, Agent: hi.Agent, Install: hi.Install, Host: hi.Host, Generation: hi.Generation}
	l, err := r.link(h, hi.Part, conn.RemoteAddr(), cred.Peer)
	if err != nil {
		no := asRefusal(err, 503)
		r.denied(h, conn.RemoteAddr(), nil, no)
		return no
	}
	ws, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		l.end(fmt.Errorf("upgrade: %w", err))
		return nil // Accept has answered
	}
	if hi.Part == partControl {
		r.admitted(h, conn.RemoteAddr(), false)
	}
	r.gate.letIn(conn)
	l.attach(hi.Part, newWire(ws, conn.batch))
	return nil
}

func (r *Relay) admitted(h Holder, remote net.Addr, renewed bool) {
	if r.conf.Admitted != nil {
		r.conf.Admitted(h, remote, renewed)
	}
}

func (r *Relay) denied(h Holder, remote net.Addr, c *Claim, no *Refusal) {
	if r.conf.Denied != nil {
		no.Request = r.conf.Denied(h, remote, c, no)
	}
}

// itself is what the relay says of itself.
func (r *Relay) itself() map[string]string {
	if r.conf.Facts == nil {
		return nil
	}
	facts := r.conf.Facts()
	if err := checkFacts(facts); err != nil {
		r.log.Warn("what this relay says of itself", "err", err)
		return nil
	}
	return facts
}
