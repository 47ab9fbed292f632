package ca

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	// leafLife is short: leaves are made as they are needed.
	leafLife = 7 * 24 * time.Hour
	// renew is how long before its end a leaf is not given out any more.
	renew = 24 * time.Hour
	// maxLeaves bounds the cache: a host's name comes from outside.
	maxLeaves = 1024
)

// Issuer issues certificates for hosts, and keeps them in memory. It is safe for
// concurrent use.
type Issuer struct {
	a   *Authority
	now func() time.Time
	key *ecdsa.PrivateKey // of all leaves: it never leaves this process

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

// NewIssuer makes an issuer; now is the clock.
func NewIssuer(a *Authority, now func() time.Time) (*Issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for leaves: %w", err)
	}
	return &Issuer{a: a, now: now, key: key, leaves: map[string]*tls.Certificate{}}, nil
}

// Certificate is the certificate of a host. A host that the authority may not
// sign for is an error: no client would take it.
func (i *Issuer) Certificate(host string) (*tls.Certificate, error) {
	name, err := hostName(host)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	if !i.a.permits(name) {
		return nil, fmt.Errorf("certificate for %q: the CA was made for %s only", host, strings.Join(i.a.Cert.PermittedDNSDomains, ", "))
	}
	now := i.now()
	i.mu.Lock() // also while signing, which takes microseconds
	defer i.mu.Unlock()
	if c := i.leaves[name]; c != nil && now.Before(c.Leaf.NotAfter.Add(-renew)) {
		return c, nil
	}
	c, err := i.issue(name, now)
	if err != nil {
		return nil, fmt.Errorf("certificate for %q: %w", host, err)
	}
	for old := range i.leaves { // any one: it is made again when it is needed
		if len(i.leaves) < maxLeaves {
			break
		}
		delete(i.leaves, old)
	}
	i.leaves[name] = c
	return c, nil
}

// Config is how a server that stands in for a host speaks TLS: with a certificate
// for the name in the handshake, or for the host where there is none.
func (i *Issuer) Config(host string) *tls.Config {
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return i.Certificate(cmp.Or(h.ServerName, host))
		},
	}
}

// Permits reports whether the authority may sign for a host, or for all that is
// below *.domain.
func (a *Authority) Permits(host string) bool {
	name, err := hostName(strings.TrimPrefix(host, "*."))
	return err == nil && a.permits(name)
}

// Hosts are the domains that the authority is bound to, each with what is below
// it; none: it may sign for any name.
func (a *Authority) Hosts() []string { return a.Cert.PermittedDNSDomains }

// permits reports whether the authority's constraints allow a name.
func (a *Authority) permits(name string) bool {
	if len(a.Cert.PermittedDNSDomains) == 0 {
		return true
	}
	for _, d := range a.Cert.PermittedDNSDomains {
		if name == d || strings.HasSuffix(name, "."+d) {
			return true
		}
	}
	return false
}

func (i *Issuer) issue(name string, now time.Time) (*tls.Certificate, error) {
	ends := now.Add(leafLife)
	if ends.After(i.a.Cert.NotAfter) {
		ends = i.a.Cert.NotAfter
	}
	if !now.Before(ends) {
		return nil, fmt.Errorf("the CA has ended on %s", ends.Format(time.DateOnly))
	}
	begins := now.Add(-skew)
	if begins.Before(i.a.Cert.NotBefore) {
		begins = i.a.Cert.NotBefore
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, DNSNames: []string{name},
		NotBefore: begins, NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if len(name) <= 64 { // the limit of a common name
		tmpl.Subject = pkix.Name{CommonName: name}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, i.a.Cert, &i.key.PublicKey, i.a.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: i.key, Leaf: leaf}, nil
}
