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
	"strings"
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

// FileError says which of two files, a certificate's and its key's, is of no use.
type FileError struct {
	Key bool  // the key's
	Err error // why, with the file's name
}

func (e *FileError) Error() string { return e.Err.Error() }
func (e *FileError) Unwrap() error { return e.Err }

// Load reads a certificate and its key, which others must not be able to read. Its
// error is a *FileError.
func Load(certPath, keyPath string) (tls.Certificate, error) {
	none := tls.Certificate{}
	ofCert := func(err error) (tls.Certificate, error) { return none, &FileError{Err: err} }
	ofKey := func(err error) (tls.Certificate, error) { return none, &FileError{Key: true, Err: err} }
	certs, err := os.ReadFile(certPath)
	if err != nil {
		return ofCert(err)
	}
	block := find(certs, func(kind string) bool { return kind == "CERTIFICATE" })
	if block == nil {
		return ofCert(fmt.Errorf("%s holds no certificate in PEM", certPath))
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ofCert(fmt.Errorf("%s holds a certificate that cannot be read: %w", certPath, err))
	}
	secret, err := token.ReadSecret(keyPath)
	if err != nil {
		return ofKey(err)
	}
	block = find(secret, func(kind string) bool { return strings.HasSuffix(kind, "PRIVATE KEY") })
	switch {
	case block == nil:
		return ofKey(fmt.Errorf("%s holds no private key in PEM", keyPath))
	case block.Type == "ENCRYPTED PRIVATE KEY", block.Headers["DEK-Info"] != "":
		return ofKey(fmt.Errorf("%s holds a private key behind a passphrase, which nobody is asked for", keyPath))
	}
	if pair, err := tls.X509KeyPair(certs, secret); err == nil {
		return pair, nil
	} else if !isKey(block.Bytes) {
		return ofKey(fmt.Errorf("%s holds a private key that cannot be read: %w", keyPath, err))
	}
	return ofKey(fmt.Errorf("%s holds the key of another certificate than the first one in %s, which is of %s", keyPath, certPath, leaf.Subject))
}

// find is the first block of a kind in PEM.
func find(b []byte, kind func(string) bool) *pem.Block {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil || kind(block.Type) {
			return block
		}
	}
}

// isKey reports whether a block can be read as a private key of any form.
func isKey(der []byte) bool {
	_, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		_, err = x509.ParseECPrivateKey(der)
	}
	if err != nil {
		_, err = x509.ParsePKCS1PrivateKey(der)
	}
	return err == nil
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
