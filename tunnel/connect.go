package tunnel

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// CertificateError says that the relay's certificate is not trusted. Who issued it
// tells whether a proxy stands between that opens TLS.
type CertificateError struct {
	Host                         string
	Subject, Issuer, Fingerprint string
	Pinned                       bool // another certificate was wanted, by its fingerprint
	Err                          error
}

func (e *CertificateError) Error() string {
	if e.Pinned {
		return fmt.Sprintf("%s shows another certificate than the pinned one: %s, issued by %s, fingerprint %s. "+
			"If the relay has no new certificate, something between opens TLS", e.Host, e.Subject, e.Issuer, e.Fingerprint)
	}
	switch {
	case e.OtherName() != "":
		return fmt.Sprintf("the certificate that %s shows is another name's: %s, issued by %s, for %s", e.Host, e.Subject, e.Issuer, e.OtherName())
	case e.NotNow() != "":
		return fmt.Sprintf("the certificate that %s shows is not valid now: %s, issued by %s: %s", e.Host, e.Subject, e.Issuer, e.NotNow())
	}
	return fmt.Sprintf("the certificate that %s shows is not trusted: %s, issued by %s: %v. "+
		"If %s is your company's proxy, it opens TLS: have %s excepted, or trust that issuer",
		e.Host, e.Subject, e.Issuer, e.Err, e.Issuer, e.Host)
}

func (e *CertificateError) Unwrap() error { return e.Err }

// OtherName is for which names it is, if it is not for the one by which the relay is
// called; else "". One for no name at all can only be pinned: that is no question of names.
func (e *CertificateError) OtherName() string {
	var name x509.HostnameError
	if e.Pinned || !errors.As(e.Err, &name) {
		return ""
	}
	all := slices.Clone(name.Certificate.DNSNames)
	for _, ip := range name.Certificate.IPAddresses {
		all = append(all, ip.String())
	}
	return strings.Join(all, ", ")
}

// NotNow is why it is not valid at this time, if that is the reason; else "".
func (e *CertificateError) NotNow() string {
	var unfit x509.CertificateInvalidError
	if e.Pinned || !errors.As(e.Err, &unfit) || unfit.Reason != x509.Expired {
		return ""
	}
	return unfit.Detail
}

// ClientCertificateError says that the relay asks for a certificate of the laptop's,
// and got none, or one that it does not take.
type ClientCertificateError struct {
	Host  string
	Shown bool // there was one
	Err   error
}

func (e *ClientCertificateError) Error() string {
	if e.Shown {
		return fmt.Sprintf("the relay at %s does not take this machine's certificate: %s", e.Host, e.alert())
	}
	return fmt.Sprintf("the relay at %s asks for a certificate of this machine, and there is none", e.Host)
}

func (e *ClientCertificateError) Unwrap() error { return e.Err }

// alert is what the relay says against the certificate, without the names of all that
// has passed it on.
func (e *ClientCertificateError) alert() string {
	var op *net.OpError
	if errors.As(e.Err, &op) && op.Err != nil {
		return "it says: " + strings.TrimPrefix(op.Err.Error(), "tls: ")
	}
	return e.Err.Error()
}

// aboutClient reports whether a peer's alert is about our certificate. The alerts have
// no exported type outside QUIC: their text is all that there is.
func aboutClient(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return false
	}
	switch op.Err.Error() {
	case "tls: certificate required", "tls: bad certificate", "tls: unsupported certificate", "tls: revoked certificate",
		"tls: expired certificate", "tls: unknown certificate", "tls: unknown certificate authority":
		return true
	}
	return false
}

// ProxyError says that the CONNECT proxy did not let the connection through.
type ProxyError struct {
	Proxy  string // without its password
	Status string
}

func (e *ProxyError) Error() string {
	return fmt.Sprintf("the proxy %s does not connect to the relay: %s", e.Proxy, e.Status)
}

// agentLink is the agent's end of its two connections.
type agentLink struct {
	agent         *Agent
	generation    uint64
	remote        string
	control, bulk *mux
	streams       [2]rawStream // of the messages
	rtt           atomic.Int64
	facts         map[string]string // what the relay says of itself
	certificate   *x509.Certificate // the relay's own
	clock         time.Time         // the relay's, when it let the first connection in; zero: it did not say
	upgraded      time.Time         // this machine's then
	away          chan struct{}     // closed when the relay is about to end
	done          chan struct{}     // closed when the link has ended
	ctx           context.Context   //nolint:containedctx // the link's own life, which handlers get
	cancel        context.CancelFunc

	mu    sync.Mutex
	why   error
	gone  bool   // away is closed
	token string // that was shown last
}

// connect makes a link: both connections, and the relay's word that it stands.
func (a *Agent) connect(ctx context.Context, generation uint64) (*agentLink, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*a.timing.handshake)
	defer cancel()
	token := ""
	if a.conf.Token != nil {
		var err error
		if token, err = a.conf.Token(ctx); err != nil {
			return nil, fmt.Errorf("the token: %w", err)
		}
	}
	l := &agentLink{agent: a, generation: generation, token: token, away: make(chan struct{}), done: make(chan struct{})}
	live, cancelLive := context.WithCancelCause(context.WithoutCancel(ctx))
	l.ctx, l.cancel = live, func() { cancelLive(ErrLost) }
	var err error
	if l.control, l.streams[0], err = a.dial(ctx, l, partControl, token); err != nil {
		l.cancel()
		return nil, err
	}
	if l.bulk, l.streams[1], err = a.dial(ctx, l, partBulk, token); err != nil {
		_ = l.control.sess.Close()
		l.cancel()
		return nil, err
	}
	// The relay's word is read here, not by the link: until it has come there is
	// none.
	stop := context.AfterFunc(ctx, func() { _ = l.control.sess.Close() })
	var msg message
	err = readOpen(l.streams[0], maxMessage, &msg)
	stop()
	if err == nil && msg.Type != msgReady {
		err = fmt.Errorf("%q instead of %q", msg.Type, msgReady)
	}
	if err != nil {
		_ = l.control.sess.Close()
		_ = l.bulk.sess.Close()
		l.cancel()
		if why := l.control.wire.why(); why != nil {
			return nil, why
		}
		return nil, fmt.Errorf("the relay's first word: %w", first(context.Cause(ctx), err))
	}
	l.facts = msg.Facts
	return l, nil
}

// dial makes one of the two connections.
func (a *Agent) dial(ctx context.Context, l *agentLink, which, token string) (*mux, rawStream, error) {
	hi, err := json.Marshal(hello{version, which, a.id, a.conf.Install, a.conf.Host, l.generation})
	if err != nil {
		return nil, nil, err
	}
	head := http.Header{helloField: {string(hi)}}
	if token != "" {
		head.Set("Authorization", "Bearer "+token)
	}
	var raw *batch
	transport := &http.Transport{
		// The environment's proxy could be lane itself: only the one that was given.
		Proxy:           http.ProxyURL(a.conf.Proxy),
		TLSClientConfig: a.tls(),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			d := net.Dialer{Timeout: a.timing.handshake}
			c, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			shortQueue(c)
			raw = &batch{Conn: c}
			return raw, nil
		},
		OnProxyConnectResponse: func(_ context.Context, proxy *url.URL, _ *http.Request, r *http.Response) error {
			if r.StatusCode != http.StatusOK {
				return &ProxyError{proxy.Redacted(), r.Status}
			}
			return nil
		},
		TLSHandshakeTimeout:    a.timing.handshake,
		ResponseHeaderTimeout:  2 * a.timing.handshake,
		MaxResponseHeaderBytes: maxUpgrade,
		DisableKeepAlives:      true,
		DisableCompression:     true,
	}
	client := &http.Client{
		Transport: transport,
		// A token goes to the relay that was named and to nobody else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, cancel := context.WithTimeout(ctx, 2*a.timing.handshake)
	defer cancel()
	ws, resp, err := websocket.Dial(ctx, a.url.String(), &websocket.DialOptions{
		HTTPClient: client, HTTPHeader: head, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		return nil, nil, a.failed(err, resp)
	}
	if l.upgraded.IsZero() {
		l.upgraded = a.wall()
		l.clock, _ = http.ParseTime(resp.Header.Get("Date"))
		if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
			l.certificate = resp.TLS.PeerCertificates[0]
		}
	}
	window := uint32(controlWindow)
	if which == partBulk {
		window = bulkWindow
	}
	l.remote = raw.RemoteAddr().String()
	m, err := newMux(newWire(ws, raw), true, window, "relay", 256, a.timing, a.log)
	if err != nil {
		_ = ws.CloseNow()
		return nil, nil, err
	}
	m.accepted = func(s *stream) { l.serve(s) }
	m.told = l.told
	control, err := m.sess.Open()
	if err != nil {
		_ = m.sess.Close()
		return nil, nil, err
	}
	return m, control, nil
}

func (a *Agent) tls() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.conf.Roots, NextProtos: []string{"http/1.1"}}
	if a.conf.Client != nil {
		c.Certificates = []tls.Certificate{*a.conf.Client}
	}
	if a.conf.Pin != "" {
		host := a.url.Host
		c.InsecureSkipVerify = true // by its own eyes, below
		c.VerifyConnection = func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if !strings.EqualFold(Fingerprint(leaf.Raw), a.conf.Pin) {
				return certificateError(host, leaf, true, errors.New("the fingerprint differs"))
			}
			return nil
		}
	}
	return c
}

func certificateError(host string, c *x509.Certificate, pinned bool, err error) *CertificateError {
	return &CertificateError{
		Host: host, Subject: c.Subject.String(), Issuer: c.Issuer.String(), Fingerprint: Fingerprint(c.Raw), Pinned: pinned, Err: err,
	}
}

// failed says why there was no upgrade.
func (a *Agent) failed(err error, resp *http.Response) error {
	var cert *tls.CertificateVerificationError
	var ours *CertificateError
	var proxy *ProxyError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &cert) && len(cert.UnverifiedCertificates) > 0:
		return certificateError(a.url.Host, cert.UnverifiedCertificates[0], false, cert.Err)
	case errors.As(err, &proxy):
		return proxy
	case aboutClient(err):
		return &ClientCertificateError{a.url.Host, a.conf.Client != nil, err}
	case resp == nil:
		return &DialError{err}
	}
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 1024))
	_ = resp.Body.Close()
	said := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.TrimSpace(strings.ToValidUTF8(string(b), "?")))
	if said == "" || strings.HasPrefix(said, "<") { // a page of something between
		said = "no relay answers there, but something that says " + resp.Status
	}
	return &Refusal{Code: resp.StatusCode, Text: said, Request: requestID(resp.Header.Get(requestField))}
}

// run serves the link until it ends.
func (l *agentLink) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.cancel)
	defer stop()
	defer l.cancel()
	var wg sync.WaitGroup
	wg.Go(func() { l.control.run(l.ctx, l.streams[0]) })
	wg.Go(func() { l.bulk.run(l.ctx, l.streams[1]) })
	wg.Go(l.measure)
	away := l.away
	var late <-chan time.Time
	for ended := false; !ended; {
		select {
		case <-l.control.sess.Done():
			ended = true
		case <-l.bulk.sess.Done():
			ended = true
		case <-l.ctx.Done():
			ended = true
		case <-away: // the relay closes when the streams have ended, or soon
			away, late = nil, time.After(2*l.agent.timing.drain)
		case <-late:
			ended = true
		}
	}
	l.lose(first(l.control.wire.why(), l.bulk.wire.why(), ErrLost))
	close(l.done)
	wg.Wait()
}

// measure keeps the round trip.
func (l *agentLink) measure() {
	t := time.NewTicker(l.agent.timing.beat)
	defer t.Stop()
	for {
		if p, ok := l.control.sess.(interface{ Ping() (time.Duration, error) }); ok {
			if d, err := p.Ping(); err == nil {
				l.rtt.Store(int64(d))
			}
		}
		select {
		case <-l.ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (l *agentLink) told(msg message) {
	if msg.Type != msgGoAway {
		l.agent.told(l, msg)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone {
		l.gone = true
		close(l.away)
	}
}

// lose ends the link without a word.
func (l *agentLink) lose(why error) {
	l.mu.Lock()
	if l.why == nil {
		l.why = why
	}
	l.mu.Unlock()
	l.cancel()
}

// close ends the link in peace.
func (l *agentLink) close() {
	var wg sync.WaitGroup
	for _, m := range []*mux{l.control, l.bulk} {
		wg.Go(func() { m.wire.say(int(websocket.StatusNormalClosure), "") })
	}
	wg.Wait()
	l.lose(ErrLost)
}

func (l *agentLink) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// serve reads a stream's header and hands it on, if the claim is one of ours.
func (l *agentLink) serve(s *stream) {
	_ = s.SetReadDeadline(time.Now().Add(l.agent.timing.handshake))
	var h Header
	err := readFrame(s, maxHeader, &h)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		s.Abort(400, "stream header: "+err.Error())
		return
	}
	_ = s.SetReadDeadline(time.Time{})
	c, ok := l.agent.claimed(h.Claim)
	if !ok || c.Kind != h.Kind {
		s.Abort(404, "this laptop has no such claim")
		return
	}
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-s.cut:
			cancel(s.failed())
		case <-stop:
		}
	}()
	l.agent.conf.Handle(ctx, c, h, s)
	close(stop)
	<-watched
}
