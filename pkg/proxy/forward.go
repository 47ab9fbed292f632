package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/elazarl/goproxy"

	"lane/pkg/http1"
	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// Forward is the developer's proxy: what HTTP_PROXY names. Requests in absolute
// form go through goproxy's chain to our Transport; CONNECT and upgrades never
// reach goproxy. A request in origin form, which is what a web page in a browser
// could send, is never sent on.
type Forward struct {
	t     *Transport
	srv   *server
	inner *server // reads what comes inside CONNECT
	tls   func(host, service string) *tls.Config
	chain *goproxy.ProxyHttpServer
}

// ForwardConfig configures a Forward; the zero value will do.
type ForwardConfig struct {
	// Drain is how long the end waits for requests; 0 is 30 s. When Force is closed
	// it waits no longer.
	Drain time.Duration
	Force <-chan struct{}
	// TLS is how TLS to a host inside CONNECT is opened, a service's if it names
	// one; nil, and a nil answer, leave it closed.
	TLS func(host, service string) *tls.Config
}

// NewForward makes the front.
func NewForward(t *Transport, cfg ForwardConfig) *Forward {
	f := &Forward{t: t, tls: cfg.TLS}
	if f.tls == nil {
		f.tls = func(_, _ string) *tls.Config { return nil }
	}
	f.inner = newServer(t, traffic.FrontForward, f.lineInside, f.inside, true, cfg.Drain)
	f.srv = newServer(t, traffic.FrontForward, f.line, f.handle, false, cfg.Drain)
	f.inner.force, f.srv.force = cfg.Force, cfg.Force
	f.chain = goproxy.NewProxyHttpServer()
	// goproxy's defaults honour HTTP_PROXY, which is ourselves, and print to
	// stderr, which is the TUI's.
	f.chain.Tr = t.external.plain
	f.chain.ConnectDial = nil
	f.chain.Logger = chainLog{t.logger}
	f.chain.KeepAcceptEncoding = true
	f.chain.NonproxyHandler = http.HandlerFunc(f.page)
	f.chain.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		ctx.RoundTripper = r.Body.(*reqBody).c
		return r, nil
	})
	return f
}

var _ goproxy.RoundTripper = (*call)(nil)

// RoundTrip sends the request that goproxy's chain has let through.
func (c *call) RoundTrip(req *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	return c.forward(req)
}

// chainLog sends goproxy's warnings to our log.
type chainLog struct{ l *slog.Logger }

func (c chainLog) Printf(format string, v ...any) { c.l.Debug(fmt.Sprintf(format, v...)) }

// Serve serves until ctx ends, then drains and returns when nothing of it runs.
func (f *Forward) Serve(ctx context.Context, ln net.Listener) error {
	f.t.self.add(ln.Addr().String())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	inner := make(chan error, 1)
	go func() { inner <- f.inner.run(ctx, nil) }()
	err := f.srv.run(ctx, ln)
	cancel()
	return errors.Join(err, <-inner)
}

// InFlight counts the requests that are being served, tunnels and upgraded
// connections apart.
func (f *Forward) InFlight() int { return f.srv.inFlight() + f.inner.inFlight() }

// Mark has the requests that are under way now told apart from those that are still to
// come: an end waits for them, and not for somebody who goes on asking.
func (f *Forward) Mark() {
	f.srv.mark()
	f.inner.mark()
}

// Marked counts the requests of InFlight that were under way when Mark was called.
func (f *Forward) Marked() int { return f.srv.markedLeft() + f.inner.markedLeft() }

// line serves a request that came to the proxy's port as HTTP/1: plain HTTP by our
// own engine, everything else as net/http's handlers do.
func (f *Forward) line(l *line) {
	if l.req.Method == http.MethodConnect && !l.up.Ended() {
		l.malformed(&http1.Error{Status: http.StatusBadRequest, Why: "CONNECT has no body"})
		return
	}
	scheme, host, tgt, ok := cutTarget(l.req.Target, l.req.Method)
	if !ok || l.req.Method == http.MethodConnect || !plain(scheme) || f.t.self.has("http", host) {
		l.handle(f.handle, "")
		return
	}
	f.send(l, host, host, withoutUser(l.req.Target, scheme, host), tgt, func() { l.handle(f.handle, "") })
}

// withoutUser is a target in absolute form as it is recorded: without the name and
// the password that may stand before its host.
func withoutUser(uri, scheme, host string) string {
	rest := uri[len(scheme)+len("://"):]
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	if rest == host {
		return uri
	}
	return scheme + "://" + host + uri[len(scheme)+len("://")+len(rest):]
}

// plain reports whether a URL's scheme is plain HTTP.
func plain(scheme string) bool {
	over, _ := Scheme(scheme)
	return over == "http"
}

// Scheme is what a URL of a scheme is sent over, http or https; false if the proxy takes
// none of it.
func Scheme(scheme string) (over string, ok bool) {
	switch {
	case strings.EqualFold(scheme, "http"), strings.EqualFold(scheme, "ws"):
		return "http", true
	case strings.EqualFold(scheme, "https"), strings.EqualFold(scheme, "wss"):
		return "https", true
	}
	return "", false
}

// send sends a line's request on by our own engine. other does it for a host that
// only an inherited proxy leads to.
func (f *Forward) send(l *line, asked, host, url string, tgt target, other func()) {
	t := f.t
	service, cat, prob := t.look(l.ctx, asked)
	if service == "" && prob == nil && t.upstream.find != nil && t.upstream.takes(tgt.url("http", asked, asked, false)) {
		other()
		return
	}
	c := l.open(asked, host, url, tgt)
	if prob != nil {
		l.refuse(c, prob, nil)
		return
	}
	dec := decisions.Get().(*lane.Decision)
	defer decisions.Put(dec)
	ask := c.decide(service, cat, dec)
	if service == "" {
		c.colorOut(l.way.k.h, ask.Tag)
		if err := l.send(&t.outside, hostPort("http", asked)); err != nil {
			l.fail(err, "", nil)
			return
		}
		l.respond(&t.outside, said{decision: dec.Header(nil)})
		return
	}
	if dec.Kind == lane.KindError {
		l.refuse(c, t.problem(l.ctx, cat, &ask, dec), dec)
		return
	}
	c.colorIn(l.way.k.h, dec)
	l.sendService(&t.nearby, cat, &ask, dec, said{})
}

func (f *Forward) handle(w *writer, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		f.connect(w, r)
		return
	case !r.URL.IsAbs():
		f.page(w, r)
		return
	}
	over, ok := Scheme(r.URL.Scheme)
	if !ok {
		badTarget(w, "cannot proxy the scheme "+r.URL.Scheme)
		return
	}
	r.URL.Scheme = over
	if r.URL.Host == "" {
		badTarget(w, "the request target has no host")
		return
	}
	if f.t.self.has(r.URL.Scheme, r.URL.Host) {
		f.page(w, r)
		return
	}
	f.proxy(w, r, f.t.newCall(traffic.FrontForward, r))
}

// proxy sends one request of the developer's on and its response back.
func (f *Forward) proxy(w *writer, r *http.Request, c *call) {
	defer c.checkBroken(w)
	defer c.early.over()
	c.w, c.early.w = w, w.hints(r)
	if c.upgrade != "" {
		if resp, err := c.forward(r); err == nil {
			c.relay(w, resp)
		}
		return
	}
	r.Body = &c.body
	f.chain.ServeHTTP(w, r)
}

// page says what this is, to whoever opens the proxy's address in a browser.
func (f *Forward) page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if (r.Method != http.MethodGet && r.Method != http.MethodHead) || r.URL.Path != "/" && r.URL.Path != "" {
		h[lane.HeaderError] = []string{string(CodeBadTarget)}
		h[lane.HeaderDecision] = []string{refused(CodeBadTarget)}
		w.WriteHeader(http.StatusBadRequest)
	}
	_, _ = io.WriteString(w, pageText)
}

const pageText = `This is the HTTP proxy of a lane session. It is no web server.

Use it as a proxy:  lane curl URL,  lane run -- COMMAND,  eval "$(lane env)"
See what it does:   lane status
`

// refused is the decision of what was refused before anything was looked up.
func refused(code lane.Code) string {
	d := lane.Decision{Kind: lane.KindError, Code: code}
	return d.Header(nil)
}

func badTarget(w http.ResponseWriter, why string) {
	refuseTarget(w, why, "http:// and https:// targets work")
}

func refuseTarget(w http.ResponseWriter, why, hint string) {
	p := &Problem{Code: CodeBadTarget, Message: why, Hint: hint, status: http.StatusBadRequest}
	resp := p.response(nil, refused(p.Code))
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
