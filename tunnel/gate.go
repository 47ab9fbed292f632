package tunnel

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// gate bounds the connections that have not been let in yet: each costs memory,
// and anybody can make one. When there are too many the oldest is closed, so that
// a flood keeps nobody out who does his part at once.
type gate struct {
	most int
	mu   sync.Mutex
	open list.List // of *knocking, the oldest first
}

func newGate(most int) *gate { return &gate{most: most} }

type knocking struct {
	*batch
	gate *gate
	at   *list.Element // nil: let in, or closed
}

func (k *knocking) Close() error {
	k.gate.letIn(k)
	return k.batch.Close()
}

// letIn ends the count of a connection.
func (g *gate) letIn(k *knocking) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if k.at != nil {
		g.open.Remove(k.at)
		k.at = nil
	}
}

// of is the connection of a request.
func (g *gate) of(req *http.Request) (*knocking, error) {
	if t, ok := req.Context().Value(connKey{}).(*tls.Conn); ok {
		if k, ok := t.NetConn().(*knocking); ok {
			return k, nil
		}
	}
	return nil, refuse(426, "a tunnel comes over TLS")
}

type gateListener struct {
	net.Listener
	gate *gate
}

func (g *gate) listen(l net.Listener) net.Listener { return gateListener{l, g} }

func (l gateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	shortQueue(c)
	k := &knocking{batch: &batch{Conn: c}, gate: l.gate}
	l.gate.mu.Lock()
	k.at = l.gate.open.PushBack(k)
	var old *knocking
	if l.gate.open.Len() > l.gate.most {
		old = l.gate.open.Front().Value.(*knocking)
	}
	l.gate.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	return k, nil
}
