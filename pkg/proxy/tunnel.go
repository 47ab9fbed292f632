package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

const (
	noteTLS    = "not colored (TLS)"
	noteTunnel = "not colored (CONNECT)"
)

// connect serves CONNECT: a tunnel, of which the inside is not looked at. What
// cannot be seen cannot carry a tag, so a service is decided as an explicit
// wish for the baseline, whatever lane the session has.
func (f *Forward) connect(w *writer, r *http.Request) {
	t := f.t
	c := t.newCall(traffic.FrontForward, r)
	c.asked = r.Host
	c.ex.Proto, c.ex.URL = "CONNECT", r.Host
	c.upgrade = ""
	if _, port := splitHost(r.Host); port == "" {
		f.answer(c, w, r, &Problem{Code: CodeBadTarget, Message: "CONNECT wants host:port", status: http.StatusBadRequest}, nil)
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
	if service != "" || t.names.Colored(r.Host) { // others would not be colored anyway
		c.ex.Note = noteTunnel
	}
	ask := lane.Request{
		Service: service, External: service == "", Hops: c.passed, TraceID: c.ex.TraceID, Caller: t.caller,
		Now: c.ex.Start, Excluded: t.ejected.now(c.ex.Start),
		Tag: lane.Tag{Kind: lane.TagBaseline, Raw: lane.BaselineTag},
	}
	dec := t.router.Decide(cat, ask)
	c.decided(&dec)
	if dec.Kind == lane.KindError {
		f.answer(c, w, r, t.problem(r.Context(), cat, &ask, &dec), &dec)
		return
	}
	var server net.Conn
	var in *lane.Instance
	var err error
	if service == "" {
		c.ex.Addr = r.Host
		server, err = f.dialOut(r.Context(), r.Host)
	} else {
		kind := dec.Kind
		in, err = c.reach(r.Context(), cat, &ask, &dec, func(in *lane.Instance) (err error) {
			server, err = t.near.dial(r.Context(), "tcp", in.Addr)
			return err
		})
		dec.Kind = kind
	}
	if err != nil {
		resp, err := c.lost(r, err, "", in)
		if err == nil {
			c.relay(w, resp)
		}
		return
	}
	defer server.Close()
	f.srv.track(server)
	defer f.srv.release(server)
	c.tunnel(w, server, dec.Header(in))
}

// answer writes an error of ours to a CONNECT.
func (f *Forward) answer(c *call, w *writer, r *http.Request, p *Problem, dec *lane.Decision) {
	if resp, err := c.refuse(r, p, dec); err == nil {
		c.relay(w, resp)
	}
}

// tunnel joins the caller with a server, and records it when both have ended.
func (c *call) tunnel(w *writer, server net.Conn, decision string) {
	conn, rw, err := w.Hijack()
	if err != nil {
		c.finish(err.Error())
		return
	}
	_ = conn.SetDeadline(time.Time{})
	c.ex.First, c.ex.Status = c.t.now().Sub(c.ex.Start), http.StatusOK
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 Connection established\r\n%s: %s\r\n\r\n",
		lane.HeaderDecision, decision); err != nil {
		c.finish(err.Error())
		return
	}
	caller := &firstByte{stream: stream{conn, pending(rw.Reader, conn)}}
	up, down := join(caller, halfCloser(server))
	if caller.first == 0x16 && c.ex.Note != "" { // a TLS handshake record
		c.ex.Note = noteTLS
	}
	c.body.n.Store(up)
	c.res.n.Store(down)
	c.finish("")
}

// firstByte remembers how the caller began.
type firstByte struct {
	stream
	seen  bool
	first byte
}

func (b *firstByte) Read(p []byte) (int, error) {
	n, err := b.stream.Read(p)
	if !b.seen && n > 0 {
		b.seen, b.first = true, p[0]
	}
	return n, err
}

func halfCloser(c net.Conn) duplex {
	if d, ok := c.(duplex); ok {
		return d
	}
	return stream{c, c}
}

// dialOut connects to a host outside, through the inherited proxy if there is
// one for it.
func (f *Forward) dialOut(ctx context.Context, hostport string) (net.Conn, error) {
	via, err := f.t.upstream.forURL(&url.URL{Scheme: "https", Host: hostport})
	if err != nil {
		return nil, &DialError{Addr: hostport, Err: err}
	}
	if via == nil {
		return f.t.far.dial(ctx, "tcp", hostport)
	}
	if via.Scheme != "http" && via.Scheme != "https" {
		return nil, &DialError{Addr: hostport, Err: errors.New("the inherited proxy's scheme " + via.Scheme + " cannot carry CONNECT")}
	}
	conn, err := f.t.far.dial(ctx, "tcp", hostPort(via.Scheme, via.Host))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(f.t.far.timeout))
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
