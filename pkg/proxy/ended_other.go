//go:build !unix

package proxy

import "net"

// ended cannot look without reading here: a request on a connection that its
// server has closed is then sent again if it may be.
func ended(net.Conn) bool { return false }
