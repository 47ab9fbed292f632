package relay

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"lane/pkg/token"
)

// The files of the generated certificate.
const (
	certName = "tls.pem"
	keyName  = "tls-key.pem"
)

// certLife is how long a generated certificate is good. Whoever pins it would have to
// be told of a new one.
const certLife = 5 * 365 * 24 * time.Hour

// Certificate returns a certificate for a relay that was given none: the one that is
// in dir, or a new one, for the names and addresses of hosts. Nobody has signed it:
// clients pin its fingerprint.
func Certificate(dir string, hosts []string, now time.Time) (tls.Certificate, error) {
	certPath, keyPath := filepath.Join(dir, certName), filepath.Join(dir, keyName)
	cert, err := Load(certPath, keyPath)
	switch {
	case err == nil && now.Before(cert.Leaf.NotAfter):
		return cert, nil
	case err == nil:
		return cert, fmt.Errorf("the certificate %s has ended: remove it and %s, and the next start makes a new one, with another fingerprint", certPath, keyPath)
	case !errors.Is(err, fs.ErrNotExist):
		return cert, err
	}
	if err := create(dir, certPath, keyPath, hosts, now); err != nil {
		return cert, fmt.Errorf("make a certificate: %w", err)
	}
	return Load(certPath, keyPath)
}

// Load reads a certificate and its key, which others must not be able to read.
func Load(certPath, keyPath string) (tls.Certificate, error) {
	none := tls.Certificate{}
	key, err := token.ReadSecret(keyPath)
	if err != nil {
		return none, err
	}
	cert, err := os.ReadFile(certPath)
	if err != nil {
		return none, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return none, fmt.Errorf("%s and %s: %w", certPath, keyPath, err)
	}
	return pair, nil
}

func create(dir, certPath, keyPath string, hosts []string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "lane relay"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The key, which is looked for, comes last: without it nothing is there.
	err = os.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	if err != nil {
		return err
	}
	return os.WriteFile(keyPath, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600)
}
