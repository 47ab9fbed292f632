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

// pairName is the file of the generated certificate and its key: one, so that two
// relays that start at once have the same.
const pairName = "tls.pem"

// certLife is how long a generated certificate is good. Whoever pins it would have to
// be told of a new one.
const certLife = 5 * 365 * 24 * time.Hour

// Certificate returns a certificate for a relay that was given none: the one that is
// in dir, or a new one, for the names and addresses of hosts. Nobody has signed it:
// clients pin its fingerprint.
func Certificate(dir string, hosts []string, now time.Time) (tls.Certificate, error) {
	path := filepath.Join(dir, pairName)
	cert, err := Load(path, path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path, hosts, now); err != nil && !errors.Is(err, fs.ErrExist) {
			return cert, fmt.Errorf("make a certificate: %w", err)
		}
		cert, err = Load(path, path)
	}
	if err == nil && !now.Before(cert.Leaf.NotAfter) {
		err = fmt.Errorf("the certificate in %s has ended: remove it, and the next start makes a new one, with another fingerprint", path)
	}
	return cert, err
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

func create(path string, hosts []string, now time.Time) error {
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
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return token.WriteOnce(path, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})...))
}
