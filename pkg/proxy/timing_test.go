package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/traffic"
)

// timed checks what the record of a request says of its connection.
func timed(t *testing.T, ex traffic.Exchange, what string, conn, dns bool) {
	t.Helper()
	if (ex.Conn > 0) != conn || (ex.DNS > 0) != dns || ex.Conn < 0 || ex.DNS < 0 || ex.Conn+ex.DNS > ex.Took {
		t.Errorf("%s: dns %v, conn %v of %v; want a connection %v, a name %v", what, ex.DNS, ex.Conn, ex.Took, conn, dns)
	}
	a, b, c, d := ex.Phases()
	if a+b+c+d != ex.Took {
		t.Errorf("%s: the parts %v %v %v %v are not %v", what, a, b, c, d, ex.Took)
	}
}

// The first request to a server makes a connection, and the next one finds it there. A
// name is looked up for it, and an address is not.
func TestTheTimeOfAConnection(t *testing.T) {
	s := newShop(t, nil)
	_, port, _ := net.SplitHostPort(s.base.addr())
	s.reg.set(service("order-service", instance("o-alice", s.alice.addr(), "dev-alice")), service("named", instance("n", "localhost:"+port, "")),
		service("closed", instance("c", closedAddr(t), "")), service("none"))
	conn, br := raw(t, s.addr, "")
	seq := uint64(0)
	ask := func(host string) traffic.Exchange {
		through(t, conn, br, "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\nx-lane-tag: dev-alice\r\n")
		seq++
		return s.exchange(seq)
	}
	timed(t, ask("order-service"), "the first", true, false)
	timed(t, ask("order-service"), "the second", false, false)
	timed(t, ask("named"), "by name", true, true)
	timed(t, ask("named"), "by name again", false, false)
	timed(t, ask("closed"), "where nothing listens", true, false)
	timed(t, ask("none"), "without an instance", false, false)
	outside := strings.TrimPrefix(s.outside.URL, "http://")
	timed(t, ask(outside), "outside", true, false)
	timed(t, ask(outside), "outside again", false, false)
}

// The same where net/http makes the connections: for the API, for HTTP/2 and for TLS.
func TestTheTimeOfAConnectionOfNetHTTP(t *testing.T) {
	s := newShop(t, nil)
	c := &http.Client{Transport: s.tr}
	for i, conn := range []bool{true, false} {
		do(t, c, "GET", "http://order-service/", nil, nil)
		timed(t, s.exchange(uint64(i+1)), "the API", conn, false)
	}
	s.alice.CloseClientConnections()
	s.reg.set(service("closed", instance("c", closedAddr(t), "")))
	do(t, c, "GET", "http://closed/", nil, nil)
	timed(t, s.exchange(3), "where nothing listens", true, false)

	_, port, _ := net.SplitHostPort(s.base.addr())
	e := newEnv(t, nil)
	guard := e.guard(GuardConfig{Lane: "dev-alice", Service: "svc", InstanceID: "s", Local: []string{"localhost:" + port}})
	tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", guard)
	}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	for i, conn := range []bool{true, false} {
		do(t, &http.Client{Transport: tr}, "GET", "http://svc/", http.Header{"X-Lane-Tag": {"dev-alice"}}, nil)
		timed(t, e.exchange(uint64(i+1)), "HTTP/2 at the guard", conn, conn)
	}
}

// A tunnel is a connection of its own each time.
func TestTheTimeOfATunnel(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		for range 2 {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(conn).ReadString('\n')
			conn.Close()
		}
	}()
	e := newEnv(t, nil)
	for i := range uint64(2) {
		conn, _, resp := connectTo(t, e, ln.Addr().String())
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
		_, _ = conn.Write([]byte("\x16\n"))
		conn.Close()
		timed(t, e.exchange(i+1), "a tunnel", true, false)
	}
	<-served
}

// A resolver that answers late answers somebody else's question: more than the connection
// took it cannot have taken.
func TestALookupIsAPartOfItsConnection(t *testing.T) {
	for _, x := range []struct{ took, dns, wantConn, wantDNS time.Duration }{
		{10, 3, 7, 3}, {10, 0, 10, 0}, {10, 30, 0, 10}, {0, 0, 0, 0},
	} {
		c := &call{}
		c.connected(x.took, x.dns)
		if c.ex.Conn != x.wantConn || c.ex.DNS != x.wantDNS {
			t.Errorf("%+v: dns %v, conn %v", x, c.ex.DNS, c.ex.Conn)
		}
	}
}
