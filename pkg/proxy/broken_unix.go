//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// broken reports whether the other side of a connection has reset it. That is seen
// without a read, which would first have to take what was sent before.
func broken(conn *net.TCPConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	reset := false
	err = raw.Control(func(fd uintptr) {
		errno, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
		reset = err != nil || errno != 0
	})
	return reset || err != nil
}
