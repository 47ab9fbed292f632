package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/lane"
)

// noteRefused is for a caller that ended the handshake with us: most often a
// program that does not trust the CA of the certificate that it was shown.
const noteRefused = "TLS was to be opened, and the caller refused: does it trust the CA?"

// handshakeLimit is how long a handshake may take, the caller's and a server's.
const handshakeLimit = 10 * time.Second

// HandshakeError is TLS that did not come about with a server: no byte of the
// request has left.
type HandshakeError struct{ Err error }

func (e *HandshakeError) Error() string { return "TLS: " + e.Err.Error() }
func (e *HandshakeError) Unwrap() error { return e.Err }

// Opens reports whether a list of hosts, *.domain and services names a host, or the
// service that it is a name of.
func Opens(list []string, hostport, service string) bool {
	host, _ := splitHost(hostport)
	for _, g := range list {
		if ok, _ := path.Match(g, host); ok || service != "" && strings.EqualFold(g, service) {
			return true
		}
	}
	return false
}

// secure makes a transport speak TLS, HTTP/2 where the server has it. Servers are
// always verified; nil roots are the system's.
func secure(t *http.Transport, roots *x509.CertPool) *http.Transport {
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	t.TLSHandshakeTimeout = handshakeLimit
	t.ForceAttemptHTTP2 = true // net/http drops it where there is a TLS configuration
	return t
}

// maxSecured bounds the transports that are kept for instances.
const maxSecured = 256

// secured are the ways to instances by TLS, one for each address. A connection is
// verified for the name that was asked, and the pool of a transport goes by that
// name: two instances of one name must not share one.
type secured struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	roots *x509.CertPool

	mu   sync.Mutex
	addr map[string]*http.Transport
}

// to is the way to the instance at an address, whatever name is asked there.
func (s *secured) to(addr string) *ways {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.addr[addr]
	if t == nil {
		for old, o := range s.addr { // any one: it is made again when it is needed
			if len(s.addr) < maxSecured {
				break
			}
			o.CloseIdleConnections()
			delete(s.addr, old)
		}
		t = secure(newHTTP(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return s.dial(ctx, network, addr)
		}), s.roots)
		if s.addr == nil {
			s.addr = map[string]*http.Transport{}
		}
		s.addr[addr] = t
	}
	return &ways{plain: t}
}

func (s *secured) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.addr {
		t.CloseIdleConnections()
	}
}

// serverName is the name that the caller has verified us for, and for which the
// server is verified in turn.
func serverName(r *http.Request, asked string) string {
	if r.TLS != nil && r.TLS.ServerName != "" {
		return r.TLS.ServerName
	}
	host, _ := splitHost(asked)
	return host
}

// toInstance sends a request to an instance of a service: by TLS if it came by
// TLS. A guard of this very process reads HTTP alone, and what is sent to it does
// not leave the machine. HTTP/2 with the caller was an offer of ours; behind such
// a guard only gRPC needs it.
func (c *call) toInstance(req *http.Request, in *lane.Instance) (resp *http.Response, err error) {
	if req.URL.Scheme != "https" {
		err = c.ask(in, func(addr string) error {
			resp, err = c.roundTrip(&c.t.services, req, "http", addr, false)
			return err
		})
		return resp, err
	}
	if at, ours := c.t.ownGuard(in.Addr, c.ex.Service, lane.Name(in.MetaLane)); ours {
		c.h2 = req.ProtoMajor == 2 && c.grpc
		return c.roundTrip(&c.t.services, req, "http", at, false)
	}
	return c.overTLS(c.t.secured.to(in.Addr), req, net.JoinHostPort(serverName(req, c.asked), "443"))
}

// toHost sends a request to a host outside. What was opened is verified against
// the roots for that.
func (c *call) toHost(req *http.Request) (*http.Response, error) {
	t := c.t
	switch {
	case req.URL.Scheme == "http":
		return c.roundTrip(&t.external, req, "http", req.URL.Host, t.upstream.takes(req.URL))
	case req.TLS != nil:
		return c.overTLS(&t.opened, req, req.URL.Host)
	}
	return c.overTLS(&t.external, req, req.URL.Host)
}

// overTLS is roundTrip by TLS; a handshake that fails is told from a server that
// fails later.
func (c *call) overTLS(via *ways, req *http.Request, addr string) (*http.Response, error) {
	c.h2 = true // if the server has it: how the body is read must do for both
	if b := &c.body; req.ProtoMajor < 2 && !b.owned && b.in != nil && b.in != http.NoBody {
		if _, again := b.in.(*detached); !again {
			b.in = detach(b.in)
		}
	}
	var failed atomic.Pointer[HandshakeError]
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err != nil {
				failed.Store(&HandshakeError{err})
			}
		}})
	resp, err := c.roundTrip(via, req.WithContext(ctx), "https", addr, false)
	if h := failed.Load(); err != nil && h != nil && errors.Is(err, h.Err) {
		return nil, h
	}
	return resp, err
}

// untrusted is the problem of a handshake that failed.
func (p *Problem) untrusted(where string, e *HandshakeError, in *lane.Instance) {
	err := e.Err
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) {
		err = bad.Err
	}
	p.Message = "TLS with " + where + " failed: " + cause(err)
	p.Hint = "nothing was sent"
	var authority x509.UnknownAuthorityError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &authority):
		p.Hint += "; if it is a CA of your own environment, name its certificate: mitm_ca_file in lane.yaml"
	case in != nil && in.Local:
		p.Hint += "; an instance of another session stands behind a guard, which reads http:// alone"
	case errors.As(err, &noTLS):
		p.Hint += "; it speaks no TLS there: ask for http://"
	}
}

// open makes TLS with a caller whose connection is to be read, and gives it to the
// inner server.
func (f *Forward) open(c *call, w *writer, h *held, conf *tls.Config) {
	conn := tls.Server(&door{replay(h.Conn, string(h.buf)), c.asked}, conf)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeLimit)
	defer cancel()
	if err := conn.HandshakeContext(ctx); err != nil {
		c.ex.Kind, c.ex.Note = lane.KindError, noteRefused
		c.finish(cause(err))
		return
	}
	w.given = true
	f.srv.handOver(h.Conn)
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		f.inner.doors.give(conn)
		return
	}
	f.serveInside(conn, c.asked, conn)
}

// misdirected says why a request inside TLS is not for the host that CONNECT
// named, or "". The certificate was for the name in the handshake: the two must
// be one, or two names of one service.
func (f *Forward) misdirected(r *http.Request, target string) string {
	if r.TLS == nil || r.TLS.ServerName == "" {
		return ""
	}
	name, _ := splitHost(r.TLS.ServerName)
	host, _ := splitHost(target)
	if name == host {
		return ""
	}
	cat := f.t.registry.Catalog()
	if s := f.t.names.Classify(name, cat).Service; s != "" && s == f.t.names.Classify(target, cat).Service {
		return ""
	}
	return "the TLS inside CONNECT " + target + " is for " + r.TLS.ServerName
}
