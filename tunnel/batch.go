package tunnel

import (
	"net"
	"sync"
)

// batch gathers what one message becomes below TLS: a WebSocket's client writes
// 4 KiB at a time, and a system call for each of them is half of what a transfer
// costs.
type batch struct {
	net.Conn
	mu     sync.Mutex
	corked bool
	buf    []byte
}

func (b *batch) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.corked {
		return b.Conn.Write(p)
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}

func (b *batch) cork() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.corked = true
}

// uncork writes what has been gathered.
func (b *batch) uncork() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.corked = false
	if len(b.buf) == 0 {
		return nil
	}
	_, err := b.Conn.Write(b.buf)
	b.buf = b.buf[:0]
	return err
}
