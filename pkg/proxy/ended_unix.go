//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// ended reports whether an idle connection was closed by its server, or has
// bytes that nobody asked for. It does not wait, and wants no deadline set.
func ended(conn net.Conn) bool {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	open := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
		return true
	})
	return err != nil || !open
}
