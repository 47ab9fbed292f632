package proxy

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"lane/pkg/lane"
)

// What a guard says when the tunnel, and not the process behind it, is what failed.
func TestGuardOverABrokenTunnel(t *testing.T) {
	gone := errors.New("the link is gone")
	for _, c := range []struct {
		name   string
		link   func() (net.Conn, error)
		status int
		code   lane.Code
		say    string
	}{
		{"no tunnel", func() (net.Conn, error) { return nil, &LinkError{Err: gone} }, 502, CodeRelayLost, "there is no tunnel to orders now"},
		{"no room", func() (net.Conn, error) { return nil, &LinkError{Err: gone, Busy: true} }, 503, CodeRelayLost, "no room"},
		{"it breaks", func() (net.Conn, error) { return &breaks{}, nil }, 502, CodeRelayLost, "lane-relay-lost: the tunnel broke under the request"},
		{"the process", func() (net.Conn, error) { return nil, errors.New("refused") }, 502, lane.CodeUpstreamConnect, "takes no connection"},
	} {
		for _, grpc := range []bool{false, true} {
			p := &Problem{Service: "orders", Lane: "dev-alice"}
			g := &Guard{cfg: GuardConfig{Service: "orders", Lane: "dev-alice", Local: []string{"tunnel:80"}}}
			d := dialer{timeout: 1 << 40, via: func(context.Context, string) (net.Conn, error) { return c.link() }}
			conn, err := d.dial(t.Context(), "tcp", "tunnel:80")
			if err == nil {
				_, err = conn.Read(nil)
				var link *LinkError
				if !errors.As(err, &link) {
					t.Fatal(err)
				}
				p.linkLost(link, false)
			} else {
				p = g.closed(&call{}, err)
			}
			if p == nil || p.Status() != c.status || p.Code != c.code || !strings.Contains(p.Message, c.say) {
				t.Errorf("%s: %+v", c.name, p)
				continue
			}
			if grpc && p.grpc() != 14 {
				t.Errorf("%s: gRPC status %d", c.name, p.grpc())
			}
		}
	}
}

// breaks is a connection whose tunnel breaks under it.
type breaks struct{ net.Conn }

func (*breaks) Read([]byte) (int, error) { return 0, &LinkError{Err: errors.New("gone")} }

func TestTheProxyOnTheWayToARelay(t *testing.T) {
	up := Upstream{HTTP: "http://plain.test:3128", HTTPS: "http://user:secret@secure.test:3128", NoProxy: ".inside.test"}
	for target, want := range map[string]string{
		"https://relay.test.example":       "secure.test:3128",
		"https://relay.test.example:7443/": "secure.test:3128",
		"https://relay.inside.test":        "",
		"https://127.0.0.1:7443":           "",
	} {
		p, err := up.For(target)
		if err != nil || p == nil && want != "" || p != nil && p.Host != want {
			t.Errorf("%s: %v, %v", target, p, err)
		}
	}
	if p, err := (Upstream{}).For("https://relay.test.example"); p != nil || err != nil {
		t.Errorf("without one: %v, %v", p, err)
	}
	if _, err := (Upstream{HTTPS: "http://user:secret@"}).For("https://relay.test.example"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("an unreadable one: %v", err)
	}
}
