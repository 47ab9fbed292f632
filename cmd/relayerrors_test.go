package cmd

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lane/pkg/session"
	"lane/tunnel"
)

// Each way in which a relay does not let its user in has its own exit code and hint.
func TestWhatARelayDoesNotTake(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
		hint string
	}{
		"too many tunnels":         {&session.RelayRefusedError{Code: 429}, exitFailed, "`lane down LANE`"},
		"too many claims":          {&session.RelayRefusedError{Code: 429, Claim: true}, exitFailed, "--max-claims"},
		"not the token's":          {&session.RelayRefusedError{Code: 403, Claim: true}, exitFailed, "--lanes … --services …"},
		"not the certificate's":    {&session.RelayRefusedError{Code: 403}, exitFailed, "relay_cert_file has to be the user"},
		"a certificate alone":      {&session.RelayRefusedError{Code: 401, ByCertificate: true}, exitFailed, "a new certificate is made by whoever runs its authority"},
		"not a certificate's":      {&session.RelayRefusedError{Code: 403, Claim: true, ByCertificate: true}, exitFailed, "a certificate alone is good for the lanes dev-NAME"},
		"not a certificate's name": {&session.RelayRefusedError{Code: 403, ByCertificate: true}, exitFailed, "of its common name"},
		"a token beside it":        {&session.RelayRefusedError{Code: 401}, exitFailed, "a new token is made by whoever runs the relay"},
		"on the --deny list":       {&session.RelayRefusedError{Code: 423, Claim: true}, exitFailed, "What its --deny names, whoever runs the relay decides"},
		"nobody's":                 {&session.RelayRefusedError{Code: 422, Claim: true}, exitFailed, ""},
		"somebody else's":          {&session.RelayRefusedError{Code: 409}, exitFailed, "take it with --takeover if it is your own"},
		"the same with --takeover": {&session.RelayRefusedError{Code: 409, TakeOver: true}, exitFailed, "--takeover takes only what is yours"},
		"what expose could not":    {&session.LeftBehindError{What: []error{&session.FarLeftoverError{Exposed: true, Err: errors.New("x")}}}, exitFailed, "no further than the relay"},
		"no client certificate":    {&tunnel.ClientCertificateError{Err: errors.New("x")}, exitFailed, "relay_cert_file and relay_key_file"},
		"a foreign certificate":    {&tunnel.CertificateError{Err: x509.UnknownAuthorityError{}}, exitFailed, "relay_ca_file names the roots"},
		"another one than pinned":  {&tunnel.CertificateError{Pinned: true, Err: errors.New("x")}, exitFailed, "if that is this one, pin it (#sha256:… behind the relay's URL, or relay_fingerprint)"},
		"of no name":               {&tunnel.CertificateError{Err: x509.HostnameError{Certificate: &x509.Certificate{}}}, exitFailed, "if `lane relay` printed this fingerprint, pin it"},
		"of another name":          {&tunnel.CertificateError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"relay.test.example"}}}}, exitFailed, "call the relay by a name that its certificate has"},
		"one that has ended":       {&tunnel.CertificateError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time is after it"}}, exitFailed, "gives it a new one"},
		"no relay":                 {&session.RelayError{Err: errors.New("x")}, exitUnreachable, "does `lane relay` run there?"},
		"it could not be asked to": {&session.LeftBehindError{What: []error{&session.FarLeftoverError{Err: errors.New("x")}}}, exitFailed, "has both back"},
	} {
		code, hint, quiet := ladder(fmt.Errorf("up: %w", c.err))
		if code != c.code || !strings.Contains(hint, c.hint) || c.hint == "" && hint != "" || quiet {
			t.Errorf("%s: exit %d, %q", name, code, hint)
		}
		// Each verb that makes a tunnel prints it, and not all have the flags of `lane up`.
		if e := (*tunnel.CertificateError)(nil); errors.As(c.err, &e) && strings.Contains(c.err.Error()+hint, "--") {
			t.Errorf("%s: a flag that not every verb has: %v, %s", name, c.err, hint)
		}
	}
}
