package proxy

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// What a server says without being asked, or its end, takes its connection out of
// the pool, however short it was there.
func TestPoolLooks(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(far net.Conn)
		kept bool
	}{
		"nothing":     {func(net.Conn) {}, true},
		"more bytes":  {func(far net.Conn) { fmt.Fprint(far, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil") }, false},
		"its end":     {func(far net.Conn) { far.Close() }, false},
		"a deadline":  {nil, true},
		"long silent": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := tcpPair(t)
			p := &pool{dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }}
			defer p.close()
			x, err := p.connect(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			then := now
			if tt.does != nil {
				tt.does(far)
			} else {
				_ = near.SetReadDeadline(longAgo)
			}
			if name == "long silent" {
				then = now.Add(idleFor)
			}
			p.put(x, now)
			if !tt.kept && tt.does != nil {
				eventually(t, "the bytes are there", x.look.ended)
			}
			if got := p.take("a", then); (got == x) != tt.kept || got != nil && got != x {
				t.Errorf("taken: %v", got)
			}
			if got := p.take("a", then); got != nil {
				t.Error("taken twice")
			}
		})
	}
}
