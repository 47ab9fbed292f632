//go:build linux || darwin

package tunnel

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes a connection may hold that have not left, in bytes.
const unsent = 128 << 10

// shortQueue keeps the system from queueing megabytes for a slow line: a ping
// waits behind them, longer than a dead peer is given. What is under way, and so
// the throughput, is not bounded by it.
func shortQueue(c net.Conn) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	})
}
