package cmd

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"lane/pkg/lane"
	"lane/pkg/traffic"
)

// resent is a request that is sent again as it came: its fields in their order and in
// their own letter case, which net/http gives up.
type resent struct {
	method string
	url    *url.URL
	target string // of its server, as it was written
	fields []traffic.Field
	body   []byte
	sized  bool // it says how long its body is, though there is none
}

// newResent is an exchange's request as it came; tag, if any, takes the place of all that
// it said of a lane.
func newResent(ctx context.Context, e *traffic.Exchange, tag string) (*resent, error) {
	var body io.Reader
	if e.ReqBody != nil && len(e.ReqBody.Bytes) > 0 {
		body = bytes.NewReader(e.ReqBody.Bytes)
	}
	checked, err := http.NewRequestWithContext(ctx, e.Method, traffic.AskedURL(e), body) // of its own it is not sent
	if err != nil {
		return nil, err
	}
	r := &resent{method: checked.Method, url: checked.URL, target: traffic.TargetOf(checked.Method, traffic.AskedURL(e)), fields: traffic.AskedFields(e),
		sized: e.ReqHeader.Get("Content-Length") != ""}
	if body != nil {
		r.body = e.ReqBody.Bytes
	}
	for _, f := range r.fields {
		if strings.ContainsFunc(f.Value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, fmt.Errorf("its field %s has a character that no field may have", f.Name)
		}
	}
	if tag != "" {
		r.fields = append(withoutLane(r.fields), traffic.Field{Name: lane.HeaderTag, Value: tag})
	}
	return r, nil
}

// withoutLane are fields without what they say of a lane; what else stands in such a field
// keeps its place.
func withoutLane(fields []traffic.Field) []traffic.Field {
	h := http.Header{}
	for _, f := range fields {
		h.Add(f.Name, f.Value)
	}
	carriers := lane.DefaultCarriers()
	carriers.Strip(h)
	by := map[string][]string{}
	for name, left := range h { // what is changed has its name in another letter case
		by[strings.ToLower(name)] = left
	}
	var out []traffic.Field
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if left := by[name]; len(left) > 0 {
			by[name] = left[1:]
			out = append(out, traffic.Field{Name: f.Name, Value: left[0]})
		}
	}
	return out
}

// head is the request's head, as it is asked of a target.
func (r *resent) head(target string) []byte {
	var b bytes.Buffer
	line := func(name, value string) { b.WriteString(name + ": " + value + "\r\n") }
	b.WriteString(r.method + " " + target + " HTTP/1.1\r\n")
	line("Host", r.url.Host)
	for _, f := range r.fields {
		line(f.Name, f.Value)
	}
	if len(r.body) > 0 || r.sized {
		line("Content-Length", strconv.Itoa(len(r.body)))
	}
	line("Connection", "close")
	b.WriteString("\r\n")
	return b.Bytes()
}

// by sends the request by way of a proxy. The response's body has to be closed; it ends
// with ctx at the latest.
func (r *resent) by(ctx context.Context, proxy string, roots *x509.CertPool) (*http.Response, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", proxy)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	res, err := r.over(ctx, conn, roots)
	if err != nil {
		stop()
		_ = conn.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("no answer in time: %w", ctx.Err())
		}
		return nil, err
	}
	res.Body = &ending{res.Body, func() error { stop(); return conn.Close() }}
	return res, nil
}

// over sends the request over a connection to a proxy: with https through a tunnel.
func (r *resent) over(ctx context.Context, conn net.Conn, roots *x509.CertPool) (*http.Response, error) {
	target := r.url.Scheme + "://" + r.url.Host
	if r.target != "*" { // a proxy is asked for that without a path (RFC 9112, 3.2.4)
		target += r.target
	}
	if r.url.Scheme == "https" {
		target = r.target
		host := r.url.Host
		if r.url.Port() == "" {
			host = net.JoinHostPort(r.url.Hostname(), "443")
		}
		if _, err := io.WriteString(conn, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); err != nil {
			return nil, err
		}
		// Nothing comes behind the answer before we speak: what is read ahead is its own.
		res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodConnect})
		if err != nil {
			return nil, err
		}
		if res.StatusCode != http.StatusOK {
			return res, nil
		}
		secure := tls.Client(conn, &tls.Config{RootCAs: roots, ServerName: r.url.Hostname(), MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		conn = secure
	}
	_, sent := conn.Write(append(r.head(target), r.body...))
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, &http.Request{Method: r.method})
		switch {
		case err != nil:
			return nil, errors.Join(sent, plainEOF(err)) // who refuses a body may answer before all of it
		case res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols:
			return res, nil
		}
	}
}

// plainEOF says what the end of a connection means where an answer was to come.
func plainEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the connection ended without an answer")
	}
	return err
}

// ending is a body that ends more than itself when it is closed.
type ending struct {
	io.Reader
	end func() error
}

func (e *ending) Close() error { return e.end() }
