package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lane/pkg/traffic"
)

// A guard sees one and the same of a caller that leaves and of one whose tunnel breaks: its
// connection ends. It asks which it was; a request that came to its end was cut off by
// neither.
func TestGuardTellsALostTunnelFromACallerWhoLeft(t *testing.T) {
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(h2.CloseIdleConnections)
	in := make(chan struct{})
	local := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/whole":
			fmt.Fprint(w, "whole")
			return
		case "/ws":
			echoUpgrade(w, r)
			return
		case "/half":
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
		}
		in <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	head := "Host: order-service\r\nX-Lane-Tag: dev-alice\r\n"
	for _, c := range []struct {
		name, sent string
		by         *http.Transport // in place of it
		status     int
		left       string // what is said of who left; empty: nothing
		whole      bool
	}{
		{"before the answer", "GET /wait HTTP/1.1\r\n" + head + "\r\n", nil, 0, callerLeft + " before the answer", false},
		{"HTTP/2", "/wait", h2, 0, callerLeft + " before the answer", false},
		{"in the request's body", "POST /wait HTTP/1.1\r\n" + head + "Content-Length: 10\r\n\r\nhalf", nil, 0, callerLeft + " before the answer", false},
		{"in the answer", "GET /half HTTP/1.1\r\n" + head + "\r\n", nil, 200, callerLeft, false},
		{"HTTP/2, in the answer", "/half", h2, 200, callerLeft, false},
		{"switched", "GET /ws HTTP/1.1\r\n" + head + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", nil, 101, "", false},
		{"behind the answer", "GET /whole HTTP/1.1\r\n" + head + "\r\n", nil, 200, "", true},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cut %v", c.name, cut), func(t *testing.T) {
				asked := make(chan string, 4)
				s := newGuarded(t, func(g *GuardConfig) {
					g.Local = []string{newBackend(t, "local", local).addr()}
					g.Severed = func(caller string, began time.Time) bool {
						if began.IsZero() {
							t.Error("it did not begin")
						}
						asked <- caller
						return cut
					}
				})
				var from string
				if c.by != nil {
					from = leaveOver2(t, c.by, "http://"+s.addr+c.sent, in)
				} else {
					conn, br := raw(t, s.addr, c.sent)
					from = conn.LocalAddr().String()
					await(t, c.sent, br, in)
					conn.Close()
				}
				ex := s.exchange(1)
				lost := cut && !c.whole
				switch {
				case lost && (ex.Code != CodeRelayLost || ex.Err != tunnelLost || traffic.Route(&ex) != traffic.RouteLost || traffic.Mark(&ex) != '!' || traffic.Why(&ex) != tunnelLost):
					t.Errorf("%s %q, %s: %s", ex.Code, ex.Err, traffic.Route(&ex), traffic.Why(&ex))
				case !lost && (ex.Code != "" || ex.Err != c.left || traffic.Route(&ex) != traffic.RouteLane):
					t.Errorf("%s %q, %s", ex.Code, ex.Err, traffic.Route(&ex))
				}
				if ex.Status != c.status { // what was there of an answer
					t.Errorf("status %d, want %d", ex.Status, c.status)
				}
				if n := s.tr.Counts().By(traffic.CountErrors)[string(CodeRelayLost)]; (n == 1) != lost {
					t.Errorf("%d are counted", n)
				}
				if c.whole {
					return
				}
				if who := <-asked; who != from {
					t.Errorf("asked of %s, who came is %s", who, from)
				}
			})
		}
	}
}

// await waits until a request is where its caller is to leave.
func await(t *testing.T, sent string, br *bufio.Reader, in <-chan struct{}) {
	t.Helper()
	if !strings.Contains(sent, " /wait ") {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, len("half"))); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(sent, " /whole ") {
		<-in
	}
}

// leaveOver2 makes a request over HTTP/2, and ends its connection when the server has it.
func leaveOver2(t *testing.T, by *http.Transport, url string, in <-chan struct{}) (from string) {
	t.Helper()
	conns := make(chan net.Conn, 1)
	tr := by.Clone()
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err == nil {
			conns <- conn
		}
		return conn, err
	}
	done, answered := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("X-Lane-Tag", "dev-alice")
		resp, err := tr.RoundTrip(req)
		close(answered)
		if err == nil {
			_, _ = bufio.NewReader(resp.Body).ReadString(0)
			resp.Body.Close()
		}
	}()
	<-in
	if strings.HasSuffix(url, "/half") {
		<-answered
	}
	conn := <-conns
	from = conn.LocalAddr().String()
	conn.Close()
	<-done
	return from
}
