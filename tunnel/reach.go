package tunnel

import (
	"errors"
	"net"
	"net/url"
	"os"
)

// DialError says that no connection to the relay came about. Its text is the cause alone:
// the libraries on the way each say once more what they were about to do.
type DialError struct{ Err error }

func (e *DialError) Error() string { return inWords(e.Err) }
func (e *DialError) Unwrap() error { return e.Err }

// inWords is the innermost useful part of a network error.
func inWords(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var request *url.Error
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy: " + inWords(op.Err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return "no such host: " + dns.Name
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case op != nil:
		var sys *os.SyscallError
		if errors.As(op.Err, &sys) {
			return sys.Err.Error()
		}
		return op.Err.Error()
	case errors.As(err, &request):
		return request.Err.Error()
	}
	return err.Error()
}

// waited is why somebody waited in vain: the text is what stood in the way, and not that
// the wait had an end.
type waited struct{ reason, cause error }

func (e *waited) Error() string   { return e.reason.Error() }
func (e *waited) Unwrap() []error { return []error{e.reason, e.cause} }
