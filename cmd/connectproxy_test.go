//go:build unix

package cmd

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lane/pkg/ca"
	"lane/pkg/consul/consultest"
	"lane/tunnel"

	"github.com/rogpeppe/go-internal/testscript"
)

// connectProxy is a company's HTTP proxy: it knows CONNECT, where its own names lead,
// a password if it has one, and, with a CA, what is said in TLS.
type connectProxy struct {
	ln       net.Listener
	to       map[string]string // host:port as it is asked for, host:port that it dials
	password string            // "user:password"; empty: none
	opens    func(host string) *tls.Config
	used     atomic.Int64
	wg       sync.WaitGroup
	ctx      context.Context //nolint:containedctx // the proxy's own life
	end      context.CancelFunc
}

// connectproxy NAME HOST:PORT ADDRESS [password=U:P] [opens=CA] starts a proxy at
// $NAME_port that leads one host to an address; with a CA, whose certificate is then the
// file CA.pem, it opens the TLS that goes through.
func cmdConnectProxy(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 3, "connectproxy NAME HOST:PORT ADDRESS [password=U:P] [opens=CA]")
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	ln, err := consultest.Listen()
	ts.Check(err)
	p := &connectProxy{ln: ln, to: map[string]string{args[1]: args[2]}}
	p.ctx, p.end = context.WithCancel(context.Background())
	for _, a := range args[3:] {
		switch key, value, _ := strings.Cut(a, "="); key {
		case "password":
			p.password = value
		case "opens":
			dir := ts.MkAbs("cas/" + value)
			a, err := ca.Init(dir, ca.Options{Owner: value, Now: time.Now()})
			ts.Check(err)
			issuer, err := ca.NewIssuer(a, time.Now)
			ts.Check(err)
			pem, err := os.ReadFile(a.Path)
			ts.Check(err)
			ts.Check(os.WriteFile(ts.MkAbs(value+".pem"), pem, 0o600))
			p.opens = issuer.Config
		default:
			ts.Fatalf("unknown %q", a)
		}
	}
	w.proxies[args[0]] = p
	p.wg.Go(p.run)
	ts.Setenv(args[0]+"_proxy", ln.Addr().String())
}

// used NAME none|some checks whether a proxy has led connections on.
func cmdUsed(ts *testscript.TestScript, neg bool, args []string) {
	positive(ts, neg, args, 2, "used NAME none|some")
	w := worldOf(ts)
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.proxies[args[0]]
	if p == nil {
		ts.Fatalf("no proxy %q", args[0])
	}
	if n := p.used.Load(); (n > 0) != (args[1] == "some") {
		ts.Fatalf("%s was used %d times, want %s", args[0], n, args[1])
	}
}

func (p *connectProxy) close() {
	p.end()
	_ = p.ln.Close()
	p.wg.Wait()
}

func (p *connectProxy) run() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *connectProxy) serve(c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(p.ctx, func() { _ = c.Close() })()
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	say := func(status string) { _, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n") }
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.password))
	to, known := p.to[req.Host]
	switch {
	case req.Method != http.MethodConnect:
		say("405 Method Not Allowed")
		return
	case p.password != "" && req.Header.Get("Proxy-Authorization") != want:
		say("407 Proxy Authentication Required")
		return
	case req.Header.Get("Authorization") != "":
		say("400 The token is not for a proxy")
		return
	case !known:
		say("403 Forbidden")
		return
	}
	s, err := net.Dial("tcp", to)
	if err != nil {
		say("502 Bad Gateway")
		return
	}
	defer s.Close()
	p.used.Add(1)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	if p.opens != nil {
		host, _, _ := net.SplitHostPort(req.Host)
		c = tls.Server(c, p.opens(host))
		s = tls.Client(s, &tls.Config{InsecureSkipVerify: true})
	}
	_ = tunnel.Join(p.ctx, c, s)
}
