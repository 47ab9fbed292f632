package proxy

import (
	"errors"
	"net/http"
	"strconv"
)

// streamError has the fields of net/http's own type for a stream that was reset,
// which its As fills in.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return "stream reset" }

// Codes of gRPC statuses.
const (
	rpcCancelled         = 1
	rpcDeadlineExceeded  = 4
	rpcPermissionDenied  = 7
	rpcResourceExhausted = 8
	rpcInternal          = 13
	rpcUnavailable       = 14
)

// rpcOfReset is what a gRPC client makes of a stream that the server has reset, by
// the table of gRPC's HTTP/2 mapping; 0 if err is something else.
func (c *call) rpcOfReset(err error) int {
	var reset streamError
	if !errors.As(err, &reset) {
		return 0
	}
	switch reset.Code { // RFC 9113, 7
	case 7: // REFUSED_STREAM
		return rpcUnavailable
	case 8: // CANCEL
		// A server's clock for the call's deadline may be ahead of the caller's. It
		// says no more than this, and the caller is to see what it would see directly.
		if c.timed {
			return rpcDeadlineExceeded
		}
		return rpcCancelled
	case 11: // ENHANCE_YOUR_CALM
		return rpcResourceExhausted
	case 12: // INADEQUATE_SECURITY
		return rpcPermissionDenied
	}
	return rpcInternal
}

// endRPC ends a gRPC call whose server broke off after the head: with the status
// that the caller would have made of it directly. net/http resets every stream
// with the same code, which would say INTERNAL of a server that went away.
func (c *call) endRPC(w *writer) bool {
	if !c.grpc || !c.h2 || !w.wrote || c.ex.Status != http.StatusOK {
		return false
	}
	rpc := c.rpcOfReset(c.broken)
	if rpc == 0 {
		rpc = rpcUnavailable // its connection ended
	}
	h := w.Header()
	h[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(rpc)}
	h[http.TrailerPrefix+"Grpc-Message"] = []string{grpcMessage("the server broke off: " + cause(c.broken))}
	return true
}
