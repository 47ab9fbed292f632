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
	// Request is the id by which the relay has written it down; empty: it has not, or is
	// of a version that does not say it.
	Request string `json:"-"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Text, r.Code) }

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Text: fmt.Sprintf(format, args...)}
}

// factRequest is the fact of a refused answer that has its Request. It is one among the
// facts, as a field of its own would be refused by agents of before.
const factRequest = "request"

// requestField is the header in which the answer to a refused upgrade has it.
const requestField = "X-Lane-Request"

// refused makes a message the answer that says so.
func (m message) refused(no *Refusal) message {
	m.Code, m.Text = no.Code, clip(no.Text, 900)
	if no.Request != "" {
		m.Facts = map[string]string{factRequest: no.Request}
	}
	return m
}

// refusal is what a message says of one; nil, there is none.
func (m *message) refusal(claim bool) *Refusal {
	if m.Code == 0 {
		return nil
	}
	return &Refusal{Code: m.Code, Text: m.Text, Claim: claim, Request: requestID(m.Facts[factRequest])}
}

// requestID is an id of the other end's, empty if that is none: it is shown.
func requestID(s string) string {
	if len(s) > 64 || !name(s) {
		return ""
	}
	return s
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
