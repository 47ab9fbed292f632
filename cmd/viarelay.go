package cmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"lane/pkg/config"
	"lane/pkg/guardian"
	"lane/pkg/proxy"
	"lane/pkg/session"
	"lane/pkg/token"
)

// relayTokenVar holds the token for a relay. It goes to no child.
const relayTokenVar = "LANE_RELAY_TOKEN"

// noTokenError says that there is no token for the relay.
type noTokenError struct{ err error }

func (e *noTokenError) Error() string {
	if e.err != nil {
		return "the token for the relay: " + e.err.Error()
	}
	return "there is no token for the relay"
}
func (e *noTokenError) Unwrap() error { return e.err }

// relayOf is how a session comes in by the relay of the settings.
func (f *factory) relayOf(s *config.Settings, up proxy.Upstream) (*session.Relay, error) {
	r := &session.Relay{URL: s.Relay, Pin: s.RelayFingerprint, Outgoing: s.Via == config.ViaRelay, Token: f.relayToken(s)}
	if _, err := r.Token(context.Background()); err != nil {
		return nil, err // before anything is opened
	}
	return r, openRelay(r, s, up)
}

// openRelay reads the certificates for a relay, and finds the way to it.
func openRelay(r *session.Relay, s *config.Settings, up proxy.Upstream) error {
	r.Files = guardian.RelayFiles{CA: s.RelayCAFile, Cert: s.RelayCertFile, Key: s.RelayKeyFile}
	if s.RelayCAFile != "" {
		pool, err := roots(named(s, "relay_ca_file"), s.RelayCAFile)
		if err != nil {
			return err
		}
		r.Roots = pool
	}
	if s.RelayCertFile != "" {
		cert, err := keyPair(named(s, "relay_cert_file"), s.RelayCertFile, named(s, "relay_key_file"), s.RelayKeyFile)
		if err != nil {
			return err
		}
		r.Client = &cert
	}
	var err error
	r.Proxy, err = up.For("https" + s.Relay[len("wss"):])
	return err
}

// named is a setting, with where it comes from.
func named(s *config.Settings, key string) string { return key + " (" + s.Source(key) + ")" }

// relayToken reads the token for a relay, anew each time: a longer session gets a
// new one by a new file.
func (f *factory) relayToken(s *config.Settings) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		if v := f.getenv(relayTokenVar); v != "" {
			text, err := token.Text(relayTokenVar, v)
			if err != nil {
				return "", &noTokenError{err}
			}
			return text, nil
		}
		switch {
		case s.RelayTokenFile == "" && s.RelayCertFile != "":
			return "", nil // a relay may take the certificate alone; one that does not says so
		case s.RelayTokenFile == "":
			return "", &noTokenError{}
		}
		text, err := token.Read(s.RelayTokenFile)
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no file %s", s.RelayTokenFile)
		}
		if err != nil {
			return "", &noTokenError{err}
		}
		return text, nil
	}
}
