//go:build unix

package proxy

import (
	"net"
	"syscall"
)

// look tells what is to be read of a connection without reading it. It is made
// once for a connection: to look costs one system call and no memory.
type look struct {
	raw  syscall.RawConn
	peek func(fd uintptr)
	open bool
}

func newLook(conn net.Conn) (k *look) {
	k = &look{}
	if tcp, ok := conn.(syscall.Conn); ok {
		k.raw, _ = tcp.SyscallConn()
	}
	k.peek = func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		k.open = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK || err == syscall.EINTR
	}
	return k
}

// ended reports whether an idle connection was closed by its server, or has
// bytes that nobody asked for: they would be taken for the answer to the next
// request.
func (k *look) ended() bool {
	if k.raw == nil {
		return false
	}
	k.open = false
	return k.raw.Control(k.peek) != nil || !k.open
}
