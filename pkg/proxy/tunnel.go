package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

const (
	noteTLS    = "not colored (TLS)"
	noteTunnel = "not colored (CONNECT)"
)

// connect serves CONNECT. What its inside is shows when the caller begins:
//
//	0x16            TLS         a blind tunnel, unless we may open it
//	a method, PRI   HTTP        the inner server: colored and decided as any request
//	anything else   raw         a blind tunnel
//	nothing         not known   a blind tunnel if the server begins now; the
//	                            caller's first bytes are looked at all the same
//
// A blind tunnel shows no tag, so a service is decided as an explicit wish for the
// baseline, whatever lane the session has.
func (f *Forward) connect(w *writer, r *http.Request) {
	t := f.t
	c := t.newCall(traffic.FrontForward, r)
	c.asked = r.Host
	c.ex.Proto, c.ex.URL = "CONNECT", r.Host
	c.upgrade, c.grpc = "", false
	host, port := splitHost(r.Host)
	if port == "" {
		f.answer(c, w, r, &Problem{Code: CodeBadTarget, Message: "CONNECT " + r.Host + " names no port",
			Hint: "name it: CONNECT " + host + ":80, or :443 for TLS; a service is found whatever its port is", status: http.StatusBadRequest}, nil)
		return
	}
	if t.self.has("", r.Host) {
		f.answer(c, w, r, &Problem{Code: lane.CodeLoopDetected, Message: r.Host + " is this proxy itself",
			Hint: "a proxy variable points at the proxy that it is meant to go through"}, nil)
		return
	}
	service, cat, prob := t.look(r.Context(), r.Host)
	if prob != nil {
		f.answer(c, w, r, prob, nil)
		return
	}
	b := &blind{c: c, r: r, cat: cat, service: service}
	// A host outside is one and the same whatever is inside, so that it cannot be
	// reached can be said while the caller still listens for it. Port 80 is not
	// dialled in vain, and neither is what will be opened.
	conf := f.tls(host, service)
	c.ex.Service = service
	if service == "" && port != "80" && conf == nil {
		if resp := b.dial(); resp != nil {
			b.decided()
			c.relay(w, resp)
			return
		}
		defer b.close(f.srv)
		f.srv.track(b.server)
	}
	conn, rw, err := w.Hijack()
	if err != nil {
		c.finish(err.Error())
		return
	}
	_ = conn.SetDeadline(time.Time{})
	c.ex.First = t.now().Sub(c.ex.Start)
	head := "HTTP/1.1 200 Connection established\r\n"
	if b.server != nil {
		head += lane.HeaderDecision + ": " + b.dec.Header(nil) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		c.finish(err.Error())
		return
	}
	early, _ := rw.Reader.Peek(rw.Reader.Buffered()) // what is there: cannot fail
	h := &held{Conn: conn, buf: slices.Clone(early), opens: func(k kind) bool {
		return k == kindHTTP || k == kindTLS && conf != nil
	}}
	if b.server == nil {
		if !serverFirst(port) && h.opens(h.look(silence)) {
			f.handIn(c, w, h, conf)
			return
		}
		if resp := b.dial(); resp != nil {
			// No server can begin. The caller still may, with what we can read: a lane
			// may be there where the baseline is not.
			if h.opens(h.look(0)) {
				f.handIn(c, w, h, conf)
				return
			}
			b.decided()
			c.finish("")
			return
		}
		defer b.close(f.srv)
		f.srv.track(b.server)
	}
	up, down := join(h, halfCloser(b.server))
	if h.inside() {
		f.handIn(c, w, h, conf)
		return
	}
	if service != "" || t.names.Colored(r.Host) { // others would not be colored anyway
		c.ex.Note = noteTunnel
		if h.settled() == kindTLS {
			c.ex.Note = noteTLS
		}
	}
	b.decided()
	c.ex.Status = http.StatusOK
	c.body.n.Store(up)
	c.res.n.Store(down)
	c.finish("")
}

// blind is the way of what cannot be read.
type blind struct {
	c       *call
	r       *http.Request
	cat     *lane.Catalog
	service string
	dec     lane.Decision
	server  net.Conn
}

// dial decides and connects. It returns the answer if that fails; nothing is
// counted before there is a tunnel.
func (b *blind) dial() *http.Response {
	c, t, ctx := b.c, b.c.t, b.r.Context()
	ask := lane.Request{
		Service: b.service, External: b.service == "", Hops: c.passed, TraceID: c.ex.TraceID, Caller: t.caller,
		Now: c.ex.Start, Excluded: t.ejected.now(b.cat, b.service, c.ex.Start),
		Tag: lane.Tag{Kind: lane.TagBaseline, Raw: lane.BaselineTag},
	}
	t.decide(&b.dec, b.cat, &ask)
	c.ex.Service, c.ex.Lane, c.ex.Kind, c.ex.Reason = b.dec.Service, b.dec.Lane, b.dec.Kind, b.dec.Reason
	if b.dec.Kind == lane.KindError {
		p := t.problem(ctx, b.cat, &ask, &b.dec)
		c.ex.Err = p.Message
		resp, _ := c.refuse(b.r, p, &b.dec)
		return resp
	}
	var err error
	var in *lane.Instance
	if b.service == "" {
		c.ex.Addr = b.r.Host
		out, connected := c.connecting(ctx, b.r.Host)
		b.server, err = t.dialOut(out, b.r.Host)
		connected()
	} else {
		dec := b.dec
		in, err = c.reach(ctx, b.cat, &ask, &dec, func(in *lane.Instance) (err error) {
			dial, connected := c.connecting(ctx, in.Addr)
			b.server, err = t.near.dial(dial, "tcp", in.Addr)
			connected()
			return err
		})
	}
	if err == nil {
		return nil
	}
	resp, err := c.lost(b.r, err, "", in)
	if err != nil { // the caller has left: nobody reads this
		return &http.Response{StatusCode: http.StatusBadGateway, Header: http.Header{}, Body: http.NoBody}
	}
	return resp
}

// decided counts the decision.
func (b *blind) decided() { b.c.decided(&b.dec) }

func (b *blind) close(s *server) { s.release(b.server) }

// answer writes an error of ours to a CONNECT.
func (f *Forward) answer(c *call, w *writer, r *http.Request, p *Problem, dec *lane.Decision) {
	if resp, err := c.refuse(r, p, dec); err == nil {
		c.relay(w, resp)
	}
}

func halfCloser(c net.Conn) duplex {
	if d, ok := c.(duplex); ok {
		return d
	}
	return stream{c, c}
}

// dialOut connects to a host outside, through the inherited proxy if there is
// one for it.
func (t *Transport) dialOut(ctx context.Context, hostport string) (net.Conn, error) {
	via, err := t.upstream.forURL(&url.URL{Scheme: "https", Host: hostport})
	if err != nil {
		return nil, &DialError{Addr: hostport, Err: err}
	}
	if via == nil {
		return t.far.dial(ctx, "tcp", hostport)
	}
	if via.Scheme != "http" && via.Scheme != "https" {
		return nil, &DialError{Addr: hostport, Err: errors.New("the inherited proxy's scheme " + via.Scheme + " cannot carry CONNECT")}
	}
	conn, err := t.far.dial(ctx, "tcp", hostPort(via.Scheme, via.Host))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(t.far.timeout))
	// The caller may leave while the other proxy thinks.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname(), MinVersion: tls.VersionTLS12})
	}
	head := "CONNECT " + hostport + " HTTP/1.1\r\nHost: " + hostport + "\r\n"
	if u := via.User; u != nil {
		pass, _ := u.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass)) + "\r\n"
	}
	if _, err = io.WriteString(conn, head+"\r\n"); err != nil {
		conn.Close()
		return nil, &DialError{Addr: hostport, Err: err}
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New("the inherited proxy answered " + strconv.Itoa(resp.StatusCode))
	}
	if err != nil {
		conn.Close()
		return nil, &DialError{Addr: hostport, Err: err}
	}
	_ = conn.SetDeadline(time.Time{})
	return stream{conn, pending(br, conn)}, nil
}
