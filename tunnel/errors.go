package tunnel

import (
	"errors"
	"fmt"
)

var (
	// ErrLost says that the link has ended under a stream, or that there is
	// none now. A stream that was cut by it never ends in io.EOF.
	ErrLost = errors.New("tunnel: the link between relay and laptop is lost")
	// ErrBusy says that no stream became free in time.
	ErrBusy = errors.New("tunnel: all streams of this link are in use")
	// ErrUnknown says that nobody holds that service on this relay.
	ErrUnknown = errors.New("tunnel: nobody holds this service on this relay")
)

// Refusal is a no, with the HTTP status that belongs to it and a text for whoever
// asked. 401 and 403 are final for an agent; 409 is somebody else's claim.
type Refusal struct { //nolint:errname // what is refused is not always an error
	Code int    `json:"code"`
	Text string `json:"text"`
	// Claim says that a claim is refused, and not the tunnel.
	Claim bool `json:"-"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Text, r.Code) }

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// asRefusal makes a refusal of any error; what is none becomes one with the given
// code.
func asRefusal(err error, code int) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return &Refusal{Code: code, Text: err.Error()}
}
