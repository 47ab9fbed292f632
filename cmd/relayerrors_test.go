package cmd

import (
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
		"somebody else's":          {&session.RelayRefusedError{Code: 409}, exitFailed, "take it with --takeover if it is your own"},
		"the same with --takeover": {&session.RelayRefusedError{Code: 409, TakeOver: true}, exitFailed, "--takeover takes only what is yours"},
		"what expose could not":    {&session.LeftBehindError{What: []error{&session.FarLeftoverError{Exposed: true, Err: errors.New("x")}}}, exitFailed, "no further than the relay"},
		"no client certificate":    {&tunnel.ClientCertificateError{Err: errors.New("x")}, exitFailed, "relay_cert_file and relay_key_file"},
		"a foreign certificate":    {&tunnel.CertificateError{Err: errors.New("x")}, exitFailed, "relay_ca_file"},
		"no relay":                 {&session.RelayError{Err: errors.New("x")}, exitUnreachable, "does `lane relay` run there?"},
		"it could not be asked to": {&session.LeftBehindError{What: []error{&session.FarLeftoverError{Err: errors.New("x")}}}, exitFailed, "has both back"},
	} {
		code, hint, quiet := ladder(fmt.Errorf("up: %w", c.err))
		if code != c.code || !strings.Contains(hint, c.hint) || quiet {
			t.Errorf("%s: exit %d, %q", name, code, hint)
		}
	}
	if text := (&tunnel.CertificateError{Err: errors.New("x")}).Error(); strings.Contains(text, "--ca") {
		t.Errorf("a flag that there is not: %s", text)
	}
}
