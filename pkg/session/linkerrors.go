package session

import (
	"context"
	"errors"
	"fmt"

	"lane/pkg/consul"
	"lane/pkg/lane"
	"lane/tunnel"
)

// RelayError says that there is no way to the relay.
type RelayError struct {
	URL string
	Err error
}

func (e *RelayError) Error() string {
	return fmt.Sprintf("the relay at %s cannot be reached: %v", e.URL, e.Err)
}

func (e *RelayError) Unwrap() error { return e.Err }

// RelayRefusedError says what the relay does not let its user do.
type RelayRefusedError struct {
	URL  string
	Name string // what the relay calls itself; empty: it has not said
	// Code is as HTTP has them: 401 and 403 are about the token, 409 about who holds it,
	// 423 about what nobody may claim there, 429 about a limit.
	Code int
	Text string
	// Claim says that it is a claim, and not the tunnel, that is refused. Of a session's,
	// Lane and Service are what it is about.
	Claim   bool
	Lane    lane.Name
	Service string
	// TakeOver says that it was asked for with that.
	TakeOver bool
	// Request is the id by which the relay's audit log has it; empty: it does not say.
	Request string
	// ByCertificate says that a client certificate alone was shown, and no token.
	ByCertificate bool
}

func (e *RelayRefusedError) Error() string {
	s := fmt.Sprintf("the relay at %s refuses it: %s", e.URL, e.Text)
	if e.Request != "" {
		s += fmt.Sprintf(" (request %s)", e.Request)
	}
	return s
}

// FarLeftoverError says that the relay could not be asked to remove a service. What the
// registry shows of it is the relay's: the instance and, longer, the claim.
type FarLeftoverError struct {
	Relay    string
	Lane     lane.Name
	Service  string
	ID, Name string // of the instance
	Exposed  bool   // there is no claim behind it
	Err      error
}

func (e *FarLeftoverError) Error() string {
	if e.Exposed {
		return fmt.Sprintf("%s (service %s) could not be removed through the relay %s, which removes it within %s if it runs; if it has died, Consul does within %s: %v",
			e.ID, e.Name, e.Relay, graceOfRelay, consul.HoldOptions{}.Gone(), e.Err)
	}
	return fmt.Sprintf("%s (service %s) could not be removed through the relay %s, which removes it within %s if it runs; if it has died, Consul does within %s. "+
		"The claim %s stands for 10 to 20 minutes (once to twice the relay's --claim-ttl, which is 10m unless it was told another), "+
		"and until then whoever calls %s in this lane gets errors: %v",
		e.ID, e.Name, e.Relay, graceOfRelay, consul.HoldOptions{}.Gone(), consul.ClaimKey(e.Lane, e.Service), e.Service, e.Err)
}

func (e *FarLeftoverError) Unwrap() error { return e.Err }

// explain is an error of the tunnel in the session's words.
func (l *link) explain(err error) error {
	err = ExplainRelay(l.o.URL, err)
	var no *RelayRefusedError
	if errors.As(err, &no) {
		l.mu.Lock()
		defer l.mu.Unlock()
		no.Name = l.name
		no.ByCertificate = l.asked && l.read == ""
	}
	return err
}

// ExplainRelay is an error of the tunnel to the relay at a URL in a session's words.
func ExplainRelay(url string, err error) error {
	var no *tunnel.Refusal
	var cert *tunnel.CertificateError
	var client *tunnel.ClientCertificateError
	switch {
	case err == nil, errors.As(err, &cert), errors.As(err, &client):
		return err
	case errors.As(err, &no):
		return &RelayRefusedError{URL: url, Code: no.Code, Text: no.Text, Claim: no.Claim, Request: no.Request}
	}
	return &RelayError{URL: url, Err: err}
}

// errPartOf is the error of a part that has failed already: its group tells it.
func errPartOf(err error) error {
	if err == nil {
		return errors.New("the tunnel has ended")
	}
	return fmt.Errorf("relay: %w", context.Canceled)
}
